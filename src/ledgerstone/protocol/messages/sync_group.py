"""SyncGroup, api key 14. Pure.

Made from schemas/sync_group.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class SyncGroupAssignment(Struct):
    __slots__ = (
        "member_id",
        "assignment",
    )

    def __init__(
        self,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(ApiMessage):
    api_key: ClassVar[int] = 14
    name: ClassVar[str] = "SyncGroup"

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupAssignment] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is ABSENT else assignments


class SyncGroupResponse(ApiMessage):
    api_key: ClassVar[int] = 14
    name: ClassVar[str] = "SyncGroup"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "protocol_type",
        "protocol_name",
        "assignment",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


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
