"""DescribeShareGroupOffsets, api key 90. Pure.

Made from schemas/describe_share_group_offsets.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeShareGroupOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 90
    name: ClassVar[str] = "DescribeShareGroupOffsets"

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeShareGroupOffsetsPartition(Struct):
    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeShareGroupOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 90
    name: ClassVar[str] = "DescribeShareGroupOffsets"

    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)


SCHEMA: Final = """\
api 90 DescribeShareGroupOffsets
request v0-1 flexible 0+
    groups: [DescribeShareGroupOffsetsRequestGroup]
        group_id: str
        topics: [DescribeShareGroupOffsetsRequestTopic]?
            topic_name: str
            partitions: [i32]
response v0-1 flexible 0+
    throttle_time_ms: i32
    groups: [DescribeShareGroupOffsetsResponseGroup]
        group_id: str
        topics: [DescribeShareGroupOffsetsResponseTopic]
            topic_name: str
            topic_id: uuid
            partitions: [DescribeShareGroupOffsetsPartition]
                partition_index: i32
                start_offset: i64
                leader_epoch: i32
                lag: i64 = -1 @1+
                error_code: i16
                error_message: str? = null
        error_code: i16
        error_message: str? = null
"""
