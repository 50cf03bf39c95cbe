"""ConsumerGroupDescribe, api key 69. Pure.

Made from schemas/consumer_group_describe.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupDescribeRequest(ApiMessage):
    api_key: ClassVar[int] = 69
    name: ClassVar[str] = "ConsumerGroupDescribe"

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupDescribeTopicPartition(Struct):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupDescribeAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeTopicPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupDescribeTargetAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeTopicPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupDescribeMember(Struct):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: ConsumerGroupDescribeAssignment = field(
        default_factory=ConsumerGroupDescribeAssignment
    )
    target_assignment: ConsumerGroupDescribeTargetAssignment = field(
        default_factory=ConsumerGroupDescribeTargetAssignment
    )
    member_type: int = -1


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupDescribeGroup(Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[ConsumerGroupDescribeMember] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupDescribeResponse(ApiMessage):
    api_key: ClassVar[int] = 69
    name: ClassVar[str] = "ConsumerGroupDescribe"

    throttle_time_ms: int = 0
    groups: list[ConsumerGroupDescribeGroup] = field(default_factory=list)


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
