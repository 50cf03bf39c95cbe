"""AssignReplicasToDirs, api key 73. Pure.

Made from schemas/assign_replicas_to_dirs.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class AssignReplicasToDirsRequestPartition(Struct):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class AssignReplicasToDirsRequestTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AssignReplicasToDirsRequestPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class AssignReplicasToDirsRequestDirectory(Struct):
    __slots__ = (
        "id",
        "topics",
    )

    def __init__(
        self,
        id: bytes = ZERO_UUID,
        topics: list[AssignReplicasToDirsRequestTopic] = ABSENT,
    ) -> None:
        self.id = id
        self.topics = [] if topics is ABSENT else topics


class AssignReplicasToDirsRequest(ApiMessage):
    api_key: ClassVar[int] = 73
    name: ClassVar[str] = "AssignReplicasToDirs"

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "directories",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[AssignReplicasToDirsRequestDirectory] = ABSENT,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = [] if directories is ABSENT else directories


class AssignReplicasToDirsResponsePartition(Struct):
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


class AssignReplicasToDirsResponseTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AssignReplicasToDirsResponsePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class AssignReplicasToDirsResponseDirectory(Struct):
    __slots__ = (
        "id",
        "topics",
    )

    def __init__(
        self,
        id: bytes = ZERO_UUID,
        topics: list[AssignReplicasToDirsResponseTopic] = ABSENT,
    ) -> None:
        self.id = id
        self.topics = [] if topics is ABSENT else topics


class AssignReplicasToDirsResponse(ApiMessage):
    api_key: ClassVar[int] = 73
    name: ClassVar[str] = "AssignReplicasToDirs"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "directories",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[AssignReplicasToDirsResponseDirectory] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = [] if directories is ABSENT else directories


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
