"""SyncGroup, api key 14. Pure.

Made from schemas/sync_group.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class SyncGroupAssignment(Struct):
    member_id: str = ""
    assignment: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class SyncGroupRequest(ApiMessage):
    api_key: ClassVar[int] = 14
    name: ClassVar[str] = "SyncGroup"

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupAssignment] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class SyncGroupResponse(ApiMessage):
    api_key: ClassVar[int] = 14
    name: ClassVar[str] = "SyncGroup"

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


SCHEMA: Final = """\
api 14 SyncGroup
request v0-5 flexible 4+
    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: str? = null @3+
    protocol_type: str? = null @5+
    protocol_name: str? = null @5+
    assignments: [SyncGroupAssignment]
        member_id: str
        assignment: bytes
response v0-5 flexible 4+
    throttle_time_ms: i32 @1+
    error_code: i16
    protocol_type: str? = null @5+
    protocol_name: str? = null @5+
    assignment: bytes
"""
