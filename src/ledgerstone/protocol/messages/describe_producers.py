"""DescribeProducers, api key 61. Pure.

Made from schemas/describe_producers.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeProducersRequestTopic(Struct):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes


class DescribeProducersRequest(ApiMessage):
    api_key: ClassVar[int] = 61
    name: ClassVar[str] = "DescribeProducers"

    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[DescribeProducersRequestTopic] = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class DescribeProducersActiveProducer(Struct):
    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class DescribeProducersPartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "active_producers",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[DescribeProducersActiveProducer] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is ABSENT else active_producers


class DescribeProducersResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[DescribeProducersPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeProducersResponse(ApiMessage):
    api_key: ClassVar[int] = 61
    name: ClassVar[str] = "DescribeProducers"

    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeProducersResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


SCHEMA: Final = """\
api 61 DescribeProducers
request v0-0 flexible 0+
    topics: [DescribeProducersRequestTopic]
        name: str
        partition_indexes: [i32]
response v0-0 flexible 0+
    throttle_time_ms: i32
    topics: [DescribeProducersResponseTopic]
        name: str
        partitions: [DescribeProducersPartition]
            partition_index: i32
            error_code: i16
            error_message: str? = null
            active_producers: [DescribeProducersActiveProducer]
                producer_id: i64
                producer_epoch: i32
                last_sequence: i32 = -1
                last_timestamp: i64 = -1
                coordinator_epoch: i32
                current_txn_start_offset: i64 = -1
"""
