"""DescribeTopicPartitions, api key 75. Pure.

Made from schemas/describe_topic_partitions.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class DescribeTopicPartitionsRequestTopic(Struct):
    __slots__ = ("name",)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeTopicPartitionsCursor(Struct):
    __slots__ = (
        "topic_name",
        "partition_index",
    )

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(ApiMessage):
    api_key: ClassVar[int] = 75
    name: ClassVar[str] = "DescribeTopicPartitions"

    __slots__ = (
        "topics",
        "response_partition_limit",
        "cursor",
    )

    def __init__(
        self,
        topics: list[DescribeTopicPartitionsRequestTopic] = ABSENT,
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsCursor | None = None,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsPartition(Struct):
    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = ABSENT,
        isr_nodes: list[int] = ABSENT,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is ABSENT else replica_nodes
        self.isr_nodes = [] if isr_nodes is ABSENT else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is ABSENT else offline_replicas


class DescribeTopicPartitionsResponseTopic(Struct):
    __slots__ = (
        "error_code",
        "name",
        "topic_id",
        "is_internal",
        "partitions",
        "topic_authorized_operations",
    )

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsPartition] = ABSENT,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is ABSENT else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsNextCursor(Struct):
    __slots__ = (
        "topic_name",
        "partition_index",
    )

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsResponse(ApiMessage):
    api_key: ClassVar[int] = 75
    name: ClassVar[str] = "DescribeTopicPartitions"

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "next_cursor",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = ABSENT,
        next_cursor: DescribeTopicPartitionsNextCursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics
        self.next_cursor = next_cursor


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
