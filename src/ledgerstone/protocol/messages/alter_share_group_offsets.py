"""AlterShareGroupOffsets, api key 91. Pure.

Made from schemas/alter_share_group_offsets.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AlterShareGroupOffsetsPartition(Struct):
    partition_index: int = 0
    start_offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AlterShareGroupOffsetsTopic(Struct):
    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterShareGroupOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 91
    name: ClassVar[str] = "AlterShareGroupOffsets"

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterShareGroupOffsetsPartitionResult(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class AlterShareGroupOffsetsTopicResult(Struct):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsPartitionResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterShareGroupOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 91
    name: ClassVar[str] = "AlterShareGroupOffsets"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsTopicResult] = field(default_factory=list)


SCHEMA: Final = """\
api 91 AlterShareGroupOffsets
request v0-0 flexible 0+
    group_id: str
    topics: [AlterShareGroupOffsetsTopic]
        topic_name: str
        partitions: [AlterShareGroupOffsetsPartition]
            partition_index: i32
            start_offset: i64
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    responses: [AlterShareGroupOffsetsTopicResult]
        topic_name: str
        topic_id: uuid
        partitions: [AlterShareGroupOffsetsPartitionResult]
            partition_index: i32
            error_code: i16
            error_message: str? = null
"""
