"""DeleteRecords, api key 21. Pure.

Made from schemas/delete_records.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DeleteRecordsRequestPartition(Struct):
    __slots__ = (
        "partition_index",
        "offset",
    )

    def __init__(
        self,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsRequestTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[DeleteRecordsRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class DeleteRecordsRequest(ApiMessage):
    api_key: ClassVar[int] = 21
    name: ClassVar[str] = "DeleteRecords"

    __slots__ = (
        "topics",
        "timeout_ms",
    )

    def __init__(
        self,
        topics: list[DeleteRecordsRequestTopic] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsResponsePartition(Struct):
    __slots__ = (
        "partition_index",
        "low_watermark",
        "error_code",
    )

    def __init__(
        self,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[DeleteRecordsResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class DeleteRecordsResponse(ApiMessage):
    api_key: ClassVar[int] = 21
    name: ClassVar[str] = "DeleteRecords"

    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


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
