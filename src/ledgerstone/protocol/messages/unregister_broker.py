"""UnregisterBroker, api key 64. Pure.

Made from schemas/unregister_broker.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class UnregisterBrokerRequest(ApiMessage):
    api_key: ClassVar[int] = 64
    name: ClassVar[str] = "UnregisterBroker"

    broker_id: int = 0


@dataclass(slots=True, eq=False, repr=False)
class UnregisterBrokerResponse(ApiMessage):
    api_key: ClassVar[int] = 64
    name: ClassVar[str] = "UnregisterBroker"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


SCHEMA: Final = """\
api 64 UnregisterBroker
request v0-0 flexible 0+
    broker_id: i32
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
"""
