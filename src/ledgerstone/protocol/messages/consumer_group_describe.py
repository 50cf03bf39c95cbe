"""ConsumerGroupDescribe, api key 69. Pure.

Made from schemas/consumer_group_describe.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ConsumerGroupDescribeRequest(ApiMessage):
    api_key: ClassVar[int] = 69
    name: ClassVar[str] = "ConsumerGroupDescribe"

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


class ConsumerGroupDescribeTopicPartition(Struct):
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


class ConsumerGroupDescribeAssignment(Struct):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[ConsumerGroupDescribeTopicPartition] = ABSENT,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions


class ConsumerGroupDescribeTargetAssignment(Struct):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[ConsumerGroupDescribeTopicPartition] = ABSENT,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions


class ConsumerGroupDescribeMember(Struct):
    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )

    def __init__(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = ABSENT,
        subscribed_topic_regex: str | None = None,
        assignment: ConsumerGroupDescribeAssignment = ABSENT,
        target_assignment: ConsumerGroupDescribeTargetAssignment = ABSENT,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = (
            [] if subscribed_topic_names is ABSENT else subscribed_topic_names
        )
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = ConsumerGroupDescribeAssignment() if assignment is ABSENT else assignment
        self.target_assignment = (
            ConsumerGroupDescribeTargetAssignment()
            if target_assignment is ABSENT
            else target_assignment
        )
        self.member_type = member_type


class ConsumerGroupDescribeGroup(Struct):
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
        members: list[ConsumerGroupDescribeMember] = ABSENT,
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


class ConsumerGroupDescribeResponse(ApiMessage):
    api_key: ClassVar[int] = 69
    name: ClassVar[str] = "ConsumerGroupDescribe"

    __slots__ = (
        "throttle_time_ms",
        "groups",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[ConsumerGroupDescribeGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is ABSENT else groups


SCHEMA: Final = """\
api 69 ConsumerGroupDescribe
request v0-1 flexible 0+
    group_ids: [str]
    include_authorized_operations: bool
response v0-1 flexible 0+
    throttle_time_ms: i32
    groups: [ConsumerGroupDescribeGroup]
        error_code: i16
        error_message: str? = null
        group_id: str
        group_state: str
        group_epoch: i32
        assignment_epoch: i32
        assignor_name: str
        members: [ConsumerGroupDescribeMember]
            member_id: str
            instance_id: str? = null
            rack_id: str? = null
            member_epoch: i32
            client_id: str
            client_host: str
            subscribed_topic_names: [str]
            subscribed_topic_regex: str? = null
            assignment: ConsumerGroupDescribeAssignment
                topic_partitions: [ConsumerGroupDescribeTopicPartition]
                    topic_id: uuid
                    topic_name: str
                    partitions: [i32]
            target_assignment: ConsumerGroupDescribeTargetAssignment
                topic_partitions: [ConsumerGroupDescribeTopicPartition]
            member_type: i8 = -1 @1+
        authorized_operations: i32 = -2147483648
"""
