"""LeaveGroup, api key 13. Pure.

Made from schemas/leave_group.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class LeaveGroupRequestMember(Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class LeaveGroupRequest(ApiMessage):
    api_key: ClassVar[int] = 13
    name: ClassVar[str] = "LeaveGroup"

    group_id: str = ""
    member_id: str = ""
    members: list[LeaveGroupRequestMember] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class LeaveGroupResponseMember(Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class LeaveGroupResponse(ApiMessage):
    api_key: ClassVar[int] = 13
    name: ClassVar[str] = "LeaveGroup"

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[LeaveGroupResponseMember] = field(default_factory=list)


SCHEMA: Final = """\
api 13 LeaveGroup
request v0-5 flexible 4+
    group_id: str
    member_id: str @0-2
    members: [LeaveGroupRequestMember] @3+
        member_id: str
        group_instance_id: str? = null
        reason: str? = null @5+
response v0-5 flexible 4+
    throttle_time_ms: i32 @1+
    error_code: i16
    members: [LeaveGroupResponseMember] @3+
        member_id: str
        group_instance_id: str?
        error_code: i16
"""
