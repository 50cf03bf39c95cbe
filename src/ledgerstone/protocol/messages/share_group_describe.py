"""ShareGroupDescribe, api key 77. Pure.

Made from schemas/share_group_describe.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ShareGroupDescribeRequest(ApiMessage):
    api_key: ClassVar[int] = 77
    name: ClassVar[str] = "ShareGroupDescribe"

    __slots__ = (
        "group_ids",
        "include_authorized_operations",
    )

    def __init__(
        self,
        group_ids: list[str] = ABSENT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is ABSENT else group_ids
        self.include_authorized_operations = include_authorized_operations


class ShareGroupDescribeTopicPartition(Struct):
    __slots__ = (
        "topic_id",
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class ShareGroupDescribeAssignment(Struct):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[ShareGroupDescribeTopicPartition] = ABSENT,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions


class ShareGroupDescribeMember(Struct):
    __slots__ = (
        "member_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "assignment",
    )

    def __init__(
        self,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = ABSENT,
        assignment: ShareGroupDescribeAssignment = ABSENT,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = (
            [] if subscribed_topic_names is ABSENT else subscribed_topic_names
        )
        self.assignment = ShareGroupDescribeAssignment() if assignment is ABSENT else assignment


class ShareGroupDescribeGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[ShareGroupDescribeMember] = ABSENT,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is ABSENT else members
        self.authorized_operations = authorized_operations


class ShareGroupDescribeResponse(ApiMessage):
    api_key: ClassVar[int] = 77
    name: ClassVar[str] = "ShareGroupDescribe"

    __slots__ = (
        "throttle_time_ms",
        "groups",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[ShareGroupDescribeGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is ABSENT else groups


SCHEMA: Final = """\
api 77 ShareGroupDescribe
request v1-1 flexible 1+
    group_ids: [str]
    include_authorized_operations: bool
response v1-1 flexible 1+
    throttle_time_ms: i32
    groups: [ShareGroupDescribeGroup]
        error_code: i16
        error_message: str? = null
        group_id: str
        group_state: str
        group_epoch: i32
        assignment_epoch: i32
        assignor_name: str
        members: [ShareGroupDescribeMember]
            member_id: str
            rack_id: str? = null
            member_epoch: i32
            client_id: str
            client_host: str
            subscribed_topic_names: [str]
            assignment: ShareGroupDescribeAssignment
                topic_partitions: [ShareGroupDescribeTopicPartition]
                    topic_id: uuid
                    topic_name: str
                    partitions: [i32]
        authorized_operations: i32 = -2147483648
"""
