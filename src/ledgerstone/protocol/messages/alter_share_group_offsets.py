"""AlterShareGroupOffsets, api key 91. Pure.

Made from schemas/alter_share_group_offsets.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class AlterShareGroupOffsetsPartition(Struct):
    __slots__ = (
        "partition_index",
        "start_offset",
    )

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsPartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class AlterShareGroupOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 91
    name: ClassVar[str] = "AlterShareGroupOffsets"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class AlterShareGroupOffsetsPartitionResult(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsTopicResult(Struct):
    __slots__ = (
        "topic_name",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[AlterShareGroupOffsetsPartitionResult] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class AlterShareGroupOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 91
    name: ClassVar[str] = "AlterShareGroupOffsets"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "responses",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is ABSENT else responses


SCHEMA: Final = """\
api 91 AlterShareGroupOffsets
request v0-0 flexible 0+
    group_id: str
    topics: [AlterShareGroupOffsetsTopic]
        topic_name: str
        partitions: [AlterShareGroupOffsetsPartition]
            partition_index: i32
            start_offset: i64
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    responses: [AlterShareGroupOffsetsTopicResult]
        topic_name: str
        topic_id: uuid
        partitions: [AlterShareGroupOffsetsPartitionResult]
            partition_index: i32
            error_code: i16
            error_message: str? = null
"""
