"""AlterPartitionReassignments, api key 45. Pure.

Made from schemas/alter_partition_reassignments.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class AlterReassignmentsPartition(Struct):
    __slots__ = (
        "partition_index",
        "replicas",
    )

    def __init__(
        self,
        partition_index: int = 0,
        replicas: list[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class AlterReassignmentsTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[AlterReassignmentsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class AlterPartitionReassignmentsRequest(ApiMessage):
    api_key: ClassVar[int] = 45
    name: ClassVar[str] = "AlterPartitionReassignments"

    __slots__ = (
        "timeout_ms",
        "allow_replication_factor_change",
        "topics",
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[AlterReassignmentsTopic] = ABSENT,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is ABSENT else topics


class AlterReassignmentsPartitionResult(Struct):
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


class AlterReassignmentsTopicResult(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[AlterReassignmentsPartitionResult] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class AlterPartitionReassignmentsResponse(ApiMessage):
    api_key: ClassVar[int] = 45
    name: ClassVar[str] = "AlterPartitionReassignments"

    __slots__ = (
        "throttle_time_ms",
        "allow_replication_factor_change",
        "error_code",
        "error_message",
        "responses",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterReassignmentsTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is ABSENT else responses


SCHEMA: Final = """\
api 45 AlterPartitionReassignments
request v0-1 flexible 0+
    timeout_ms: i32 = 60000
    allow_replication_factor_change: bool = true @1+
    topics: [AlterReassignmentsTopic]
        name: str
        partitions: [AlterReassignmentsPartition]
            partition_index: i32
            replicas: [i32]? = null
response v0-1 flexible 0+
    throttle_time_ms: i32
    allow_replication_factor_change: bool = true @1+
    error_code: i16
    error_message: str?
    responses: [AlterReassignmentsTopicResult]
        name: str
        partitions: [AlterReassignmentsPartitionResult]
            partition_index: i32
            error_code: i16
            error_message: str?
"""
