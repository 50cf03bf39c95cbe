"""OffsetCommit, api key 8. Pure.

Made from schemas/offset_commit.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitRequestPartition(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitRequestTopic(Struct):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitRequest(ApiMessage):
    api_key: ClassVar[int] = 8
    name: ClassVar[str] = "OffsetCommit"

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    retention_time_ms: int = -1
    group_instance_id: str | None = None
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitResponseTopic(Struct):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetCommitResponse(ApiMessage):
    api_key: ClassVar[int] = 8
    name: ClassVar[str] = "OffsetCommit"

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)


SCHEMA: Final = """\
api 8 OffsetCommit
request v2-10 flexible 8+
    group_id: str
    generation_id_or_member_epoch: i32 = -1
    member_id: str
    retention_time_ms: i64 = -1 @2-4
    group_instance_id: str? = null @7+
    topics: [OffsetCommitRequestTopic]
        name: str @2-9
        topic_id: uuid @10+
        partitions: [OffsetCommitRequestPartition]
            partition_index: i32
            committed_offset: i64
            committed_leader_epoch: i32 = -1 @6+
            committed_metadata: str?
response v2-10 flexible 8+
    throttle_time_ms: i32 @3+
    topics: [OffsetCommitResponseTopic]
        name: str @2-9
        topic_id: uuid @10+
        partitions: [OffsetCommitResponsePartition]
            partition_index: i32
            error_code: i16
"""
