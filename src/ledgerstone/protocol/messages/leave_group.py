"""LeaveGroup, api key 13. Pure.

Made from schemas/leave_group.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class LeaveGroupRequestMember(Struct):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "reason",
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(ApiMessage):
    api_key: ClassVar[int] = 13
    name: ClassVar[str] = "LeaveGroup"

    __slots__ = (
        "group_id",
        "member_id",
        "members",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        members: list[LeaveGroupRequestMember] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is ABSENT else members


class LeaveGroupResponseMember(Struct):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "error_code",
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(ApiMessage):
    api_key: ClassVar[int] = 13
    name: ClassVar[str] = "LeaveGroup"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "members",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[LeaveGroupResponseMember] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is ABSENT else members


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
