"""FindCoordinator, api key 10. Pure.

Made from schemas/find_coordinator.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class FindCoordinatorRequest(ApiMessage):
    api_key: ClassVar[int] = 10
    name: ClassVar[str] = "FindCoordinator"

    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class FindCoordinatorCoordinator(Struct):
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class FindCoordinatorResponse(ApiMessage):
    api_key: ClassVar[int] = 10
    name: ClassVar[str] = "FindCoordinator"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[FindCoordinatorCoordinator] = field(default_factory=list)


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
