"""ListPartitionReassignments, api key 46. Pure.

Made from schemas/list_partition_reassignments.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ListPartitionReassignmentsRequestTopic(Struct):
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ListPartitionReassignmentsRequest(ApiMessage):
    api_key: ClassVar[int] = 46
    name: ClassVar[str] = "ListPartitionReassignments"

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsRequestTopic] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ListPartitionReassignmentsPartition(Struct):
    partition_index: int = 0
    replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ListPartitionReassignmentsResponseTopic(Struct):
    name: str = ""
    partitions: list[ListPartitionReassignmentsPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ListPartitionReassignmentsResponse(ApiMessage):
    api_key: ClassVar[int] = 46
    name: ClassVar[str] = "ListPartitionReassignments"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    topics: list[ListPartitionReassignmentsResponseTopic] = field(default_factory=list)


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
