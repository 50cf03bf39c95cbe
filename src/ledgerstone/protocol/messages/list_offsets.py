"""ListOffsets, api key 2. Pure.

Made from schemas/list_offsets.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class ListOffsetsRequestPartition(Struct):
    __slots__ = (
        "partition_index",
        "current_leader_epoch",
        "timestamp",
    )

    def __init__(
        self,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsRequestTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[ListOffsetsRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class ListOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 2
    name: ClassVar[str] = "ListOffsets"

    __slots__ = (
        "replica_id",
        "isolation_level",
        "topics",
        "timeout_ms",
    )

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsRequestTopic] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms


class ListOffsetsResponsePartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "timestamp",
        "offset",
        "leader_epoch",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[ListOffsetsResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class ListOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 2
    name: ClassVar[str] = "ListOffsets"

    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


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
