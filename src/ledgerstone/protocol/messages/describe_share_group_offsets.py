"""DescribeShareGroupOffsets, api key 90. Pure.

Made from schemas/describe_share_group_offsets.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class DescribeShareGroupOffsetsRequestTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeShareGroupOffsetsRequestGroup(Struct):
    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class DescribeShareGroupOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 90
    name: ClassVar[str] = "DescribeShareGroupOffsets"

    __slots__ = ("groups",)

    def __init__(
        self,
        groups: list[DescribeShareGroupOffsetsRequestGroup] = ABSENT,
    ) -> None:
        self.groups = [] if groups is ABSENT else groups


class DescribeShareGroupOffsetsPartition(Struct):
    __slots__ = (
        "partition_index",
        "start_offset",
        "leader_epoch",
        "lag",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(Struct):
    __slots__ = (
        "topic_name",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[DescribeShareGroupOffsetsPartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeShareGroupOffsetsResponseGroup(Struct):
    __slots__ = (
        "group_id",
        "topics",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] = ABSENT,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 90
    name: ClassVar[str] = "DescribeShareGroupOffsets"

    __slots__ = (
        "throttle_time_ms",
        "groups",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponseGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is ABSENT else groups


SCHEMA: Final = """\
api 90 DescribeShareGroupOffsets
request v0-1 flexible 0+
    groups: [DescribeShareGroupOffsetsRequestGroup]
        group_id: str
        topics: [DescribeShareGroupOffsetsRequestTopic]?
            topic_name: str
            partitions: [i32]
response v0-1 flexible 0+
    throttle_time_ms: i32
    groups: [DescribeShareGroupOffsetsResponseGroup]
        group_id: str
        topics: [DescribeShareGroupOffsetsResponseTopic]
            topic_name: str
            topic_id: uuid
            partitions: [DescribeShareGroupOffsetsPartition]
                partition_index: i32
                start_offset: i64
                leader_epoch: i32
                lag: i64 = -1 @1+
                error_code: i16
                error_message: str? = null
        error_code: i16
        error_message: str? = null
"""
