"""UnregisterBroker, api key 64. Pure.

Made from schemas/unregister_broker.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


class UnregisterBrokerRequest(ApiMessage):
    api_key: ClassVar[int] = 64
    name: ClassVar[str] = "UnregisterBroker"

    __slots__ = ("broker_id",)

    def __init__(
        self,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id


class UnregisterBrokerResponse(ApiMessage):
    api_key: ClassVar[int] = 64
    name: ClassVar[str] = "UnregisterBroker"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


SCHEMA: Final = """\
api 64 UnregisterBroker
request v0-0 flexible 0+
    broker_id: i32
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
"""
