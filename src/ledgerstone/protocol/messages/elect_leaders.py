"""ElectLeaders, api key 43. Pure.

Made from schemas/elect_leaders.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ElectLeadersTopicPartition(Struct):
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ElectLeadersRequest(ApiMessage):
    api_key: ClassVar[int] = 43
    name: ClassVar[str] = "ElectLeaders"

    election_type: int = 0
    topic_partitions: list[ElectLeadersTopicPartition] | None = None
    timeout_ms: int = 60000


@dataclass(slots=True, eq=False, repr=False)
class ElectLeadersPartitionResult(Struct):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ElectLeadersReplicaElectionResult(Struct):
    topic: str = ""
    partition_result: list[ElectLeadersPartitionResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ElectLeadersResponse(ApiMessage):
    api_key: ClassVar[int] = 43
    name: ClassVar[str] = "ElectLeaders"

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ElectLeadersReplicaElectionResult] = field(default_factory=list)


SCHEMA: Final = """\
api 43 ElectLeaders
request v0-2 flexible 2+
    election_type: i8 @1+
    topic_partitions: [ElectLeadersTopicPartition]?
        topic: str
        partitions: [i32]
    timeout_ms: i32 = 60000
response v0-2 flexible 2+
    throttle_time_ms: i32
    error_code: i16 @1+
    replica_election_results: [ElectLeadersReplicaElectionResult]
        topic: str
        partition_result: [ElectLeadersPartitionResult]
            partition_id: i32
            error_code: i16
            error_message: str?
"""
