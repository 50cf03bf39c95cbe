"""OffsetFetch, api key 9. Pure.

Made from schemas/offset_fetch.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchRequestTopic(Struct):
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchRequestGroupTopic(Struct):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchRequestGroup(Struct):
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestGroupTopic] | None = None


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchRequest(ApiMessage):
    api_key: ClassVar[int] = 9
    name: ClassVar[str] = "OffsetFetch"

    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = None
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)
    require_stable: bool = False


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchPartition(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetFetchPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchGroupPartition(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchResponseGroupTopic(Struct):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetFetchGroupPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchResponseGroup(Struct):
    group_id: str = ""
    topics: list[OffsetFetchResponseGroupTopic] = field(default_factory=list)
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetFetchResponse(ApiMessage):
    api_key: ClassVar[int] = 9
    name: ClassVar[str] = "OffsetFetch"

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)


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
