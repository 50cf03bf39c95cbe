"""ElectLeaders, api key 43. Pure.

Made from schemas/elect_leaders.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class ElectLeadersTopicPartition(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class ElectLeadersRequest(ApiMessage):
    api_key: ClassVar[int] = 43
    name: ClassVar[str] = "ElectLeaders"

    __slots__ = (
        "election_type",
        "topic_partitions",
        "timeout_ms",
    )

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: list[ElectLeadersTopicPartition] | None = None,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms


class ElectLeadersPartitionResult(Struct):
    __slots__ = (
        "partition_id",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ElectLeadersReplicaElectionResult(Struct):
    __slots__ = (
        "topic",
        "partition_result",
    )

    def __init__(
        self,
        topic: str = "",
        partition_result: list[ElectLeadersPartitionResult] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is ABSENT else partition_result


class ElectLeadersResponse(ApiMessage):
    api_key: ClassVar[int] = 43
    name: ClassVar[str] = "ElectLeaders"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "replica_election_results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ElectLeadersReplicaElectionResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = (
            [] if replica_election_results is ABSENT else replica_election_results
        )


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
