"""ListPartitionReassignments, api key 46. Pure.

Made from schemas/list_partition_reassignments.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class ListPartitionReassignmentsRequestTopic(Struct):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes


class ListPartitionReassignmentsRequest(ApiMessage):
    api_key: ClassVar[int] = 46
    name: ClassVar[str] = "ListPartitionReassignments"

    __slots__ = (
        "timeout_ms",
        "topics",
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsRequestTopic] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class ListPartitionReassignmentsPartition(Struct):
    __slots__ = (
        "partition_index",
        "replicas",
        "adding_replicas",
        "removing_replicas",
    )

    def __init__(
        self,
        partition_index: int = 0,
        replicas: list[int] = ABSENT,
        adding_replicas: list[int] = ABSENT,
        removing_replicas: list[int] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is ABSENT else replicas
        self.adding_replicas = [] if adding_replicas is ABSENT else adding_replicas
        self.removing_replicas = [] if removing_replicas is ABSENT else removing_replicas


class ListPartitionReassignmentsResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[ListPartitionReassignmentsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class ListPartitionReassignmentsResponse(ApiMessage):
    api_key: ClassVar[int] = 46
    name: ClassVar[str] = "ListPartitionReassignments"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        topics: list[ListPartitionReassignmentsResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is ABSENT else topics


SCHEMA: Final = """\
api 46 ListPartitionReassignments
request v0-0 flexible 0+
    timeout_ms: i32 = 60000
    topics: [ListPartitionReassignmentsRequestTopic]?
        name: str
        partition_indexes: [i32]
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
    topics: [ListPartitionReassignmentsResponseTopic]
        name: str
        partitions: [ListPartitionReassignmentsPartition]
            partition_index: i32
            replicas: [i32]
            adding_replicas: [i32]
            removing_replicas: [i32]
"""
