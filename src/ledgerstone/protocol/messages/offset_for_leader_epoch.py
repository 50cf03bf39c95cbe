"""OffsetForLeaderEpoch, api key 23. Pure.

Made from schemas/offset_for_leader_epoch.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class OffsetForLeaderEpochRequestPartition(Struct):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "leader_epoch",
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderEpochRequestTopic(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[OffsetForLeaderEpochRequestPartition] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetForLeaderEpochRequest(ApiMessage):
    api_key: ClassVar[int] = 23
    name: ClassVar[str] = "OffsetForLeaderEpoch"

    __slots__ = (
        "replica_id",
        "topics",
    )

    def __init__(
        self,
        replica_id: int = -2,
        topics: list[OffsetForLeaderEpochRequestTopic] = ABSENT,
    ) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is ABSENT else topics


class OffsetForLeaderEpochResponsePartition(Struct):
    __slots__ = (
        "error_code",
        "partition",
        "leader_epoch",
        "end_offset",
    )

    def __init__(
        self,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderEpochResponseTopic(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[OffsetForLeaderEpochResponsePartition] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetForLeaderEpochResponse(ApiMessage):
    api_key: ClassVar[int] = 23
    name: ClassVar[str] = "OffsetForLeaderEpoch"

    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderEpochResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


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
