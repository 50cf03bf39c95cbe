"""OffsetDelete, api key 47. Pure.

Made from schemas/offset_delete.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class OffsetDeleteRequestPartition(Struct):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetDeleteRequest(ApiMessage):
    api_key: ClassVar[int] = 47
    name: ClassVar[str] = "OffsetDelete"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class OffsetDeleteResponsePartition(Struct):
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


class OffsetDeleteResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetDeleteResponse(ApiMessage):
    api_key: ClassVar[int] = 47
    name: ClassVar[str] = "OffsetDelete"

    __slots__ = (
        "error_code",
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


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
