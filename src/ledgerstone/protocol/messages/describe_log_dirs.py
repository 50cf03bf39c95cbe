"""DescribeLogDirs, api key 35. Pure.

Made from schemas/describe_log_dirs.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeLogDirsRequestTopic(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeLogDirsRequest(ApiMessage):
    api_key: ClassVar[int] = 35
    name: ClassVar[str] = "DescribeLogDirs"

    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[DescribeLogDirsRequestTopic] | None = None,
    ) -> None:
        self.topics = topics


class DescribeLogDirsPartition(Struct):
    __slots__ = (
        "partition_index",
        "partition_size",
        "offset_lag",
        "is_future_key",
    )

    def __init__(
        self,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeLogDirsResult(Struct):
    __slots__ = (
        "error_code",
        "log_dir",
        "topics",
        "total_bytes",
        "usable_bytes",
        "is_cordoned",
    )

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsResponseTopic] = ABSENT,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is ABSENT else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(ApiMessage):
    api_key: ClassVar[int] = 35
    name: ClassVar[str] = "DescribeLogDirs"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 35 DescribeLogDirs
request v1-5 flexible 2+
    topics: [DescribeLogDirsRequestTopic]?
        topic: str
        partitions: [i32]
response v1-5 flexible 2+
    throttle_time_ms: i32
    error_code: i16 @3+
    results: [DescribeLogDirsResult]
        error_code: i16
        log_dir: str
        topics: [DescribeLogDirsResponseTopic]
            name: str
            partitions: [DescribeLogDirsPartition]
                partition_index: i32
                partition_size: i64
                offset_lag: i64
                is_future_key: bool
        total_bytes: i64 = -1 @4+
        usable_bytes: i64 = -1 @4+
        is_cordoned: bool @5+
"""
