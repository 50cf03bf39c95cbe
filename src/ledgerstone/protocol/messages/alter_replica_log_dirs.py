"""AlterReplicaLogDirs, api key 34. Pure.

Made from schemas/alter_replica_log_dirs.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AlterReplicaLogDirsTopic(Struct):
    name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterReplicaLogDirsDir(Struct):
    path: str = ""
    topics: list[AlterReplicaLogDirsTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterReplicaLogDirsRequest(ApiMessage):
    api_key: ClassVar[int] = 34
    name: ClassVar[str] = "AlterReplicaLogDirs"

    dirs: list[AlterReplicaLogDirsDir] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterReplicaLogDirsPartition(Struct):
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AlterReplicaLogDirsResult(Struct):
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirsPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterReplicaLogDirsResponse(ApiMessage):
    api_key: ClassVar[int] = 34
    name: ClassVar[str] = "AlterReplicaLogDirs"

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirsResult] = field(default_factory=list)


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
