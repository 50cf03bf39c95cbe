"""DescribeTopicPartitions, api key 75. Pure.

Made from schemas/describe_topic_partitions.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeTopicPartitionsRequestTopic(Struct):
    name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class DescribeTopicPartitionsCursor(Struct):
    topic_name: str = ""
    partition_index: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeTopicPartitionsRequest(ApiMessage):
    api_key: ClassVar[int] = 75
    name: ClassVar[str] = "DescribeTopicPartitions"

    topics: list[DescribeTopicPartitionsRequestTopic] = field(default_factory=list)
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsCursor | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeTopicPartitionsPartition(Struct):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = 0
    name: str | None = None
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsPartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True, eq=False, repr=False)
class DescribeTopicPartitionsNextCursor(Struct):
    topic_name: str = ""
    partition_index: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeTopicPartitionsResponse(ApiMessage):
    api_key: ClassVar[int] = 75
    name: ClassVar[str] = "DescribeTopicPartitions"

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: DescribeTopicPartitionsNextCursor | None = None


SCHEMA: Final = """\
api 75 DescribeTopicPartitions
request v0-0 flexible 0+
    topics: [DescribeTopicPartitionsRequestTopic]
        name: str
    response_partition_limit: i32 = 2000
    cursor: DescribeTopicPartitionsCursor? = null
        topic_name: str
        partition_index: i32
response v0-0 flexible 0+
    throttle_time_ms: i32
    topics: [DescribeTopicPartitionsResponseTopic]
        error_code: i16
        name: str?
        topic_id: uuid
        is_internal: bool
        partitions: [DescribeTopicPartitionsPartition]
            error_code: i16
            partition_index: i32
            leader_id: i32
            leader_epoch: i32 = -1
            replica_nodes: [i32]
            isr_nodes: [i32]
            eligible_leader_replicas: [i32]? = null
            last_known_elr: [i32]? = null
            offline_replicas: [i32]
        topic_authorized_operations: i32 = -2147483648
    next_cursor: DescribeTopicPartitionsNextCursor? = null
        topic_name: str
        partition_index: i32
"""
