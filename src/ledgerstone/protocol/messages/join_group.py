"""JoinGroup, api key 11. Pure.

Made from schemas/join_group.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class JoinGroupProtocol(Struct):
    __slots__ = (
        "name",
        "metadata",
    )

    def __init__(
        self,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(ApiMessage):
    api_key: ClassVar[int] = 11
    name: ClassVar[str] = "JoinGroup"

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupProtocol] = ABSENT,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is ABSENT else protocols
        self.reason = reason


class JoinGroupMember(Struct):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "metadata",
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(ApiMessage):
    api_key: ClassVar[int] = 11
    name: ClassVar[str] = "JoinGroup"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupMember] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is ABSENT else members


SCHEMA: Final = """\
api 11 JoinGroup
request v0-9 flexible 6+
    group_id: str
    session_timeout_ms: i32
    rebalance_timeout_ms: i32 = -1 @1+
    member_id: str
    group_instance_id: str? = null @5+
    protocol_type: str
    protocols: [JoinGroupProtocol]
        name: str
        metadata: bytes
    reason: str? = null @8+
response v0-9 flexible 6+
    throttle_time_ms: i32 @2+
    error_code: i16
    generation_id: i32 = -1
    protocol_type: str? = null @7+
    protocol_name: str?7+
    leader: str
    skip_assignment: bool @9+
    member_id: str
    members: [JoinGroupMember]
        member_id: str
        group_instance_id: str? = null @5+
        metadata: bytes
"""
