"""JoinGroup, api key 11. Pure.

Made from schemas/join_group.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class JoinGroupProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class JoinGroupRequest(ApiMessage):
    api_key: ClassVar[int] = 11
    name: ClassVar[str] = "JoinGroup"

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupProtocol] = field(default_factory=list)
    reason: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class JoinGroupMember(Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class JoinGroupResponse(ApiMessage):
    api_key: ClassVar[int] = 11
    name: ClassVar[str] = "JoinGroup"

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupMember] = field(default_factory=list)


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
