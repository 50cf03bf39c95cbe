"""DescribeGroups, api key 15. Pure.

Made from schemas/describe_groups.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeGroupsRequest(ApiMessage):
    api_key: ClassVar[int] = 15
    name: ClassVar[str] = "DescribeGroups"

    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True, eq=False, repr=False)
class DescribeGroupsMember(Struct):
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class DescribeGroupsGroup(Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribeGroupsMember] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True, eq=False, repr=False)
class DescribeGroupsResponse(ApiMessage):
    api_key: ClassVar[int] = 15
    name: ClassVar[str] = "DescribeGroups"

    throttle_time_ms: int = 0
    groups: list[DescribeGroupsGroup] = field(default_factory=list)


SCHEMA: Final = """\
api 15 DescribeGroups
request v0-6 flexible 5+
    groups: [str]
    include_authorized_operations: bool @3+
response v0-6 flexible 5+
    throttle_time_ms: i32 @1+
    groups: [DescribeGroupsGroup]
        error_code: i16
        error_message: str? = null @6+
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: [DescribeGroupsMember]
            member_id: str
            group_instance_id: str? = null @4+
            client_id: str
            client_host: str
            member_metadata: bytes
            member_assignment: bytes
        authorized_operations: i32 = -2147483648 @3+
"""
