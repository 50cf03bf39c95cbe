"""OffsetCommit, api key 8. Pure.

Made from schemas/offset_commit.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class OffsetCommitRequestPartition(Struct):
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


class OffsetCommitRequestTopic(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetCommitRequest(ApiMessage):
    api_key: ClassVar[int] = 8
    name: ClassVar[str] = "OffsetCommit"

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "retention_time_ms",
        "group_instance_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        retention_time_ms: int = -1,
        group_instance_id: str | None = None,
        topics: list[OffsetCommitRequestTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.retention_time_ms = retention_time_ms
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is ABSENT else topics


class OffsetCommitResponsePartition(Struct):
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


class OffsetCommitResponseTopic(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetCommitResponse(ApiMessage):
    api_key: ClassVar[int] = 8
    name: ClassVar[str] = "OffsetCommit"

    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


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
