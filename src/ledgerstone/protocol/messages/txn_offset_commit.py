"""TxnOffsetCommit, api key 28. Pure.

Made from schemas/txn_offset_commit.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class TxnOffsetCommitRequestPartition(Struct):
    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "committed_metadata",
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class TxnOffsetCommitRequestTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[TxnOffsetCommitRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class TxnOffsetCommitRequest(ApiMessage):
    api_key: ClassVar[int] = 28
    name: ClassVar[str] = "TxnOffsetCommit"

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
    )

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is ABSENT else topics


class TxnOffsetCommitResponsePartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[TxnOffsetCommitResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class TxnOffsetCommitResponse(ApiMessage):
    api_key: ClassVar[int] = 28
    name: ClassVar[str] = "TxnOffsetCommit"

    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


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
