"""DescribeGroups, api key 15. Pure.

Made from schemas/describe_groups.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeGroupsRequest(ApiMessage):
    api_key: ClassVar[int] = 15
    name: ClassVar[str] = "DescribeGroups"

    __slots__ = (
        "groups",
        "include_authorized_operations",
    )

    def __init__(
        self,
        groups: list[str] = ABSENT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = [] if groups is ABSENT else groups
        self.include_authorized_operations = include_authorized_operations


class DescribeGroupsMember(Struct):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "member_metadata",
        "member_assignment",
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribeGroupsGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribeGroupsMember] = ABSENT,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is ABSENT else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(ApiMessage):
    api_key: ClassVar[int] = 15
    name: ClassVar[str] = "DescribeGroups"

    __slots__ = (
        "throttle_time_ms",
        "groups",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribeGroupsGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is ABSENT else groups


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
