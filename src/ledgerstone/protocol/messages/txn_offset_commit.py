"""TxnOffsetCommit, api key 28. Pure.

Made from schemas/txn_offset_commit.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class TxnOffsetCommitRequestTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class TxnOffsetCommitRequest(ApiMessage):
    api_key: ClassVar[int] = 28
    name: ClassVar[str] = "TxnOffsetCommit"

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class TxnOffsetCommitResponseTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class TxnOffsetCommitResponse(ApiMessage):
    api_key: ClassVar[int] = 28
    name: ClassVar[str] = "TxnOffsetCommit"

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)


SCHEMA: Final = """\
api 28 TxnOffsetCommit
request v0-5 flexible 3+
    transactional_id: str
    group_id: str
    producer_id: i64
    producer_epoch: i16
    generation_id: i32 = -1 @3+
    member_id: str @3+
    group_instance_id: str? = null @3+
    topics: [TxnOffsetCommitRequestTopic]
        name: str
        partitions: [TxnOffsetCommitRequestPartition]
            partition_index: i32
            committed_offset: i64
            committed_leader_epoch: i32 = -1 @2+
            committed_metadata: str?
response v0-5 flexible 3+
    throttle_time_ms: i32
    topics: [TxnOffsetCommitResponseTopic]
        name: str
        partitions: [TxnOffsetCommitResponsePartition]
            partition_index: i32
            error_code: i16
"""
