"""OffsetForLeaderEpoch, api key 23. Pure.

Made from schemas/offset_for_leader_epoch.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class OffsetForLeaderEpochRequestPartition(Struct):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetForLeaderEpochRequestTopic(Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderEpochRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetForLeaderEpochRequest(ApiMessage):
    api_key: ClassVar[int] = 23
    name: ClassVar[str] = "OffsetForLeaderEpoch"

    replica_id: int = -2
    topics: list[OffsetForLeaderEpochRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetForLeaderEpochResponsePartition(Struct):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True, eq=False, repr=False)
class OffsetForLeaderEpochResponseTopic(Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderEpochResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetForLeaderEpochResponse(ApiMessage):
    api_key: ClassVar[int] = 23
    name: ClassVar[str] = "OffsetForLeaderEpoch"

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderEpochResponseTopic] = field(default_factory=list)


SCHEMA: Final = """\
api 23 OffsetForLeaderEpoch
request v2-4 flexible 4+
    replica_id: i32 = -2 @3+
    topics: [OffsetForLeaderEpochRequestTopic]
        topic: str
        partitions: [OffsetForLeaderEpochRequestPartition]
            partition: i32
            current_leader_epoch: i32 = -1
            leader_epoch: i32
response v2-4 flexible 4+
    throttle_time_ms: i32
    topics: [OffsetForLeaderEpochResponseTopic]
        topic: str
        partitions: [OffsetForLeaderEpochResponsePartition]
            error_code: i16
            partition: i32
            leader_epoch: i32 = -1
            end_offset: i64 = -1
"""
