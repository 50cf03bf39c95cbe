"""DeleteRecords, api key 21. Pure.

Made from schemas/delete_records.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DeleteRecordsRequestPartition(Struct):
    partition_index: int = 0
    offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteRecordsRequestTopic(Struct):
    name: str = ""
    partitions: list[DeleteRecordsRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteRecordsRequest(ApiMessage):
    api_key: ClassVar[int] = 21
    name: ClassVar[str] = "DeleteRecords"

    topics: list[DeleteRecordsRequestTopic] = field(default_factory=list)
    timeout_ms: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteRecordsResponsePartition(Struct):
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteRecordsResponseTopic(Struct):
    name: str = ""
    partitions: list[DeleteRecordsResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteRecordsResponse(ApiMessage):
    api_key: ClassVar[int] = 21
    name: ClassVar[str] = "DeleteRecords"

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsResponseTopic] = field(default_factory=list)


SCHEMA: Final = """\
api 21 DeleteRecords
request v0-2 flexible 2+
    topics: [DeleteRecordsRequestTopic]
        name: str
        partitions: [DeleteRecordsRequestPartition]
            partition_index: i32
            offset: i64
    timeout_ms: i32
response v0-2 flexible 2+
    throttle_time_ms: i32
    topics: [DeleteRecordsResponseTopic]
        name: str
        partitions: [DeleteRecordsResponsePartition]
            partition_index: i32
            low_watermark: i64
            error_code: i16
"""
