"""OffsetDelete, api key 47. Pure.

Made from schemas/offset_delete.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class OffsetDeleteRequestPartition(Struct):
    partition_index: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetDeleteRequestTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetDeleteRequest(ApiMessage):
    api_key: ClassVar[int] = 47
    name: ClassVar[str] = "OffsetDelete"

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetDeleteResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class OffsetDeleteResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class OffsetDeleteResponse(ApiMessage):
    api_key: ClassVar[int] = 47
    name: ClassVar[str] = "OffsetDelete"

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)


SCHEMA: Final = """\
api 47 OffsetDelete
request v0-0 rigid
    group_id: str
    topics: [OffsetDeleteRequestTopic]
        name: str
        partitions: [OffsetDeleteRequestPartition]
            partition_index: i32
response v0-0 rigid
    error_code: i16
    throttle_time_ms: i32
    topics: [OffsetDeleteResponseTopic]
        name: str
        partitions: [OffsetDeleteResponsePartition]
            partition_index: i32
            error_code: i16
"""
