"""DescribeProducers, api key 61. Pure.

Made from schemas/describe_producers.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeProducersRequestTopic(Struct):
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeProducersRequest(ApiMessage):
    api_key: ClassVar[int] = 61
    name: ClassVar[str] = "DescribeProducers"

    topics: list[DescribeProducersRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeProducersActiveProducer(Struct):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


@dataclass(slots=True, eq=False, repr=False)
class DescribeProducersPartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[DescribeProducersActiveProducer] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeProducersResponseTopic(Struct):
    name: str = ""
    partitions: list[DescribeProducersPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeProducersResponse(ApiMessage):
    api_key: ClassVar[int] = 61
    name: ClassVar[str] = "DescribeProducers"

    throttle_time_ms: int = 0
    topics: list[DescribeProducersResponseTopic] = field(default_factory=list)


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
