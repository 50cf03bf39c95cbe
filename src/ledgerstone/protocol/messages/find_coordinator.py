"""FindCoordinator, api key 10. Pure.

Made from schemas/find_coordinator.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class FindCoordinatorRequest(ApiMessage):
    api_key: ClassVar[int] = 10
    name: ClassVar[str] = "FindCoordinator"

    __slots__ = (
        "key",
        "key_type",
        "coordinator_keys",
    )

    def __init__(
        self,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = ABSENT,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is ABSENT else coordinator_keys


class FindCoordinatorCoordinator(Struct):
    __slots__ = (
        "key",
        "node_id",
        "host",
        "port",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(ApiMessage):
    api_key: ClassVar[int] = 10
    name: ClassVar[str] = "FindCoordinator"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "node_id",
        "host",
        "port",
        "coordinators",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[FindCoordinatorCoordinator] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is ABSENT else coordinators


SCHEMA: Final = """\
api 10 FindCoordinator
request v0-6 flexible 3+
    key: str @0-3
    key_type: i8 @1+
    coordinator_keys: [str] @4+
response v0-6 flexible 3+
    throttle_time_ms: i32 @1+
    error_code: i16 @0-3
    error_message: str? @1-3
    node_id: i32 @0-3
    host: str @0-3
    port: i32 @0-3
    coordinators: [FindCoordinatorCoordinator] @4+
        key: str
        node_id: i32
        host: str
        port: i32
        error_code: i16
        error_message: str?
"""
