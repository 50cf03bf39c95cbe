"""AlterReplicaLogDirs, api key 34. Pure.

Made from schemas/alter_replica_log_dirs.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class AlterReplicaLogDirsTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class AlterReplicaLogDirsDir(Struct):
    __slots__ = (
        "path",
        "topics",
    )

    def __init__(
        self,
        path: str = "",
        topics: list[AlterReplicaLogDirsTopic] = ABSENT,
    ) -> None:
        self.path = path
        self.topics = [] if topics is ABSENT else topics


class AlterReplicaLogDirsRequest(ApiMessage):
    api_key: ClassVar[int] = 34
    name: ClassVar[str] = "AlterReplicaLogDirs"

    __slots__ = ("dirs",)

    def __init__(
        self,
        dirs: list[AlterReplicaLogDirsDir] = ABSENT,
    ) -> None:
        self.dirs = [] if dirs is ABSENT else dirs


class AlterReplicaLogDirsPartition(Struct):
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


class AlterReplicaLogDirsResult(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirsPartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class AlterReplicaLogDirsResponse(ApiMessage):
    api_key: ClassVar[int] = 34
    name: ClassVar[str] = "AlterReplicaLogDirs"

    __slots__ = (
        "throttle_time_ms",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 34 AlterReplicaLogDirs
request v1-2 flexible 2+
    dirs: [AlterReplicaLogDirsDir]
        path: str
        topics: [AlterReplicaLogDirsTopic]
            name: str
            partitions: [i32]
response v1-2 flexible 2+
    throttle_time_ms: i32
    results: [AlterReplicaLogDirsResult]
        topic_name: str
        partitions: [AlterReplicaLogDirsPartition]
            partition_index: i32
            error_code: i16
"""
