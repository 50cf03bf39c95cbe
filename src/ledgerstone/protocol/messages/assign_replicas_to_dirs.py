"""AssignReplicasToDirs, api key 73. Pure.

Made from schemas/assign_replicas_to_dirs.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsRequestPartition(Struct):
    partition_index: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsRequestTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[AssignReplicasToDirsRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsRequestDirectory(Struct):
    id: bytes = ZERO_UUID
    topics: list[AssignReplicasToDirsRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsRequest(ApiMessage):
    api_key: ClassVar[int] = 73
    name: ClassVar[str] = "AssignReplicasToDirs"

    broker_id: int = 0
    broker_epoch: int = -1
    directories: list[AssignReplicasToDirsRequestDirectory] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsResponseTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[AssignReplicasToDirsResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsResponseDirectory(Struct):
    id: bytes = ZERO_UUID
    topics: list[AssignReplicasToDirsResponseTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AssignReplicasToDirsResponse(ApiMessage):
    api_key: ClassVar[int] = 73
    name: ClassVar[str] = "AssignReplicasToDirs"

    throttle_time_ms: int = 0
    error_code: int = 0
    directories: list[AssignReplicasToDirsResponseDirectory] = field(default_factory=list)


SCHEMA: Final = """\
api 73 AssignReplicasToDirs
request v0-0 flexible 0+
    broker_id: i32
    broker_epoch: i64 = -1
    directories: [AssignReplicasToDirsRequestDirectory]
        id: uuid
        topics: [AssignReplicasToDirsRequestTopic]
            topic_id: uuid
            partitions: [AssignReplicasToDirsRequestPartition]
                partition_index: i32
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    directories: [AssignReplicasToDirsResponseDirectory]
        id: uuid
        topics: [AssignReplicasToDirsResponseTopic]
            topic_id: uuid
            partitions: [AssignReplicasToDirsResponsePartition]
                partition_index: i32
                error_code: i16
"""
