"""AlterPartitionReassignments, api key 45. Pure.

Made from schemas/alter_partition_reassignments.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AlterReassignmentsPartition(Struct):
    partition_index: int = 0
    replicas: list[int] | None = None


@dataclass(slots=True, eq=False, repr=False)
class AlterReassignmentsTopic(Struct):
    name: str = ""
    partitions: list[AlterReassignmentsPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionReassignmentsRequest(ApiMessage):
    api_key: ClassVar[int] = 45
    name: ClassVar[str] = "AlterPartitionReassignments"

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: list[AlterReassignmentsTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterReassignmentsPartitionResult(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class AlterReassignmentsTopicResult(Struct):
    name: str = ""
    partitions: list[AlterReassignmentsPartitionResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterPartitionReassignmentsResponse(ApiMessage):
    api_key: ClassVar[int] = 45
    name: ClassVar[str] = "AlterPartitionReassignments"

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterReassignmentsTopicResult] = field(default_factory=list)


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
