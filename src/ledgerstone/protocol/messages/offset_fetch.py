"""OffsetFetch, api key 9. Pure.

Made from schemas/offset_fetch.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class OffsetFetchRequestTopic(Struct):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes


class OffsetFetchRequestGroupTopic(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "partition_indexes",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes


class OffsetFetchRequestGroup(Struct):
    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestGroupTopic] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(ApiMessage):
    api_key: ClassVar[int] = 9
    name: ClassVar[str] = "OffsetFetch"

    __slots__ = (
        "group_id",
        "topics",
        "groups",
        "require_stable",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = None,
        groups: list[OffsetFetchRequestGroup] = ABSENT,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = [] if groups is ABSENT else groups
        self.require_stable = require_stable


class OffsetFetchPartition(Struct):
    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "metadata",
        "error_code",
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[OffsetFetchPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetFetchGroupPartition(Struct):
    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "metadata",
        "error_code",
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseGroupTopic(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetFetchGroupPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetFetchResponseGroup(Struct):
    __slots__ = (
        "group_id",
        "topics",
        "error_code",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchResponseGroupTopic] = ABSENT,
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics
        self.error_code = error_code


class OffsetFetchResponse(ApiMessage):
    api_key: ClassVar[int] = 9
    name: ClassVar[str] = "OffsetFetch"

    __slots__ = (
        "throttle_time_ms",
        "topics",
        "error_code",
        "groups",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = ABSENT,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics
        self.error_code = error_code
        self.groups = [] if groups is ABSENT else groups


SCHEMA: Final = """\
api 9 OffsetFetch
request v1-10 flexible 6+
    group_id: str @1-7
    topics: [OffsetFetchRequestTopic]?2+ @1-7
        name: str
        partition_indexes: [i32]
    groups: [OffsetFetchRequestGroup] @8+
        group_id: str
        member_id: str? = null @9+
        member_epoch: i32 = -1 @9+
        topics: [OffsetFetchRequestGroupTopic]?
            name: str @8-9
            topic_id: uuid @10+
            partition_indexes: [i32]
    require_stable: bool @7+
response v1-10 flexible 6+
    throttle_time_ms: i32 @3+
    topics: [OffsetFetchResponseTopic] @1-7
        name: str
        partitions: [OffsetFetchPartition]
            partition_index: i32
            committed_offset: i64
            committed_leader_epoch: i32 = -1 @5+
            metadata: str?
            error_code: i16
    error_code: i16 @2-7
    groups: [OffsetFetchResponseGroup] @8+
        group_id: str
        topics: [OffsetFetchResponseGroupTopic]
            name: str @8-9
            topic_id: uuid @10+
            partitions: [OffsetFetchGroupPartition]
                partition_index: i32
                committed_offset: i64
                committed_leader_epoch: i32 = -1
                metadata: str?
                error_code: i16
        error_code: i16
"""
