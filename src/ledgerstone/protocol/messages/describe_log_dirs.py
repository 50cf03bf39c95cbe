"""DescribeLogDirs, api key 35. Pure.

Made from schemas/describe_log_dirs.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeLogDirsRequestTopic(Struct):
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeLogDirsRequest(ApiMessage):
    api_key: ClassVar[int] = 35
    name: ClassVar[str] = "DescribeLogDirs"

    topics: list[DescribeLogDirsRequestTopic] | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeLogDirsPartition(Struct):
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


@dataclass(slots=True, eq=False, repr=False)
class DescribeLogDirsResponseTopic(Struct):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeLogDirsResult(Struct):
    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsResponseTopic] = field(default_factory=list)
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


@dataclass(slots=True, eq=False, repr=False)
class DescribeLogDirsResponse(ApiMessage):
    api_key: ClassVar[int] = 35
    name: ClassVar[str] = "DescribeLogDirs"

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)


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
