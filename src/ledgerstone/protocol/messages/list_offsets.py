"""ListOffsets, api key 2. Pure.

Made from schemas/list_offsets.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ListOffsetsRequestPartition(Struct):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ListOffsetsRequestTopic(Struct):
    name: str = ""
    partitions: list[ListOffsetsRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ListOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 2
    name: ClassVar[str] = "ListOffsets"

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsRequestTopic] = field(default_factory=list)
    timeout_ms: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ListOffsetsResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class ListOffsetsResponseTopic(Struct):
    name: str = ""
    partitions: list[ListOffsetsResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ListOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 2
    name: ClassVar[str] = "ListOffsets"

    throttle_time_ms: int = 0
    topics: list[ListOffsetsResponseTopic] = field(default_factory=list)


SCHEMA: Final = """\
api 2 ListOffsets
request v1-11 flexible 6+
    replica_id: i32
    isolation_level: i8 @2+
    topics: [ListOffsetsRequestTopic]
        name: str
        partitions: [ListOffsetsRequestPartition]
            partition_index: i32
            current_leader_epoch: i32 = -1 @4+
            timestamp: i64
    timeout_ms: i32 @10+
response v1-11 flexible 6+
    throttle_time_ms: i32 @2+
    topics: [ListOffsetsResponseTopic]
        name: str
        partitions: [ListOffsetsResponsePartition]
            partition_index: i32
            error_code: i16
            timestamp: i64 = -1
            offset: i64 = -1
            leader_epoch: i32 = -1 @4+
"""
