"""Fetch, api key 1. Pure.

Made from schemas/fetch.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


@dataclass(slots=True, eq=False, repr=False)
class FetchReplicaState(Struct):
    replica_id: int = -1
    replica_epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class FetchPartition(Struct):
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = 9223372036854775807


@dataclass(slots=True, eq=False, repr=False)
class FetchTopic(Struct):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class FetchForgottenTopic(Struct):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class FetchRequest(ApiMessage):
    api_key: ClassVar[int] = 1
    name: ClassVar[str] = "Fetch"

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: FetchReplicaState | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[FetchForgottenTopic] = field(default_factory=list)
    rack_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class FetchDivergingEpoch(Struct):
    epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True, eq=False, repr=False)
class FetchCurrentLeader(Struct):
    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotId(Struct):
    end_offset: int = -1
    epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class FetchAbortedTransaction(Struct):
    producer_id: int = 0
    first_offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class FetchPartitionResponse(Struct):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: FetchDivergingEpoch | None = None
    current_leader: FetchCurrentLeader | None = None
    snapshot_id: FetchSnapshotId | None = None
    aborted_transactions: list[FetchAbortedTransaction] | None = None
    preferred_read_replica: int = -1
    records: Records = None


@dataclass(slots=True, eq=False, repr=False)
class FetchTopicResponse(Struct):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[FetchPartitionResponse] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class FetchNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class FetchResponse(ApiMessage):
    api_key: ClassVar[int] = 1
    name: ClassVar[str] = "Fetch"

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchTopicResponse] = field(default_factory=list)
    node_endpoints: list[FetchNodeEndpoint] = field(default_factory=list)


SCHEMA: Final = """\
api 1 Fetch
request v4-18 flexible 12+
    cluster_id: str? #0 = null @12+
    replica_id: i32 = -1 @4-14
    replica_state: FetchReplicaState #1 @15+
        replica_id: i32 = -1
        replica_epoch: i64 = -1
    max_wait_ms: i32
    min_bytes: i32
    max_bytes: i32 = 2147483647
    isolation_level: i8
    session_id: i32 @7+
    session_epoch: i32 = -1 @7+
    topics: [FetchTopic]
        topic: str @4-12
        topic_id: uuid @13+
        partitions: [FetchPartition]
            partition: i32
            current_leader_epoch: i32 = -1 @9+
            fetch_offset: i64
            last_fetched_epoch: i32 = -1 @12+
            log_start_offset: i64 = -1 @5+
            partition_max_bytes: i32
            replica_directory_id: uuid #0 @17+
            high_watermark: i64 #1 = 9223372036854775807 @18+
    forgotten_topics_data: [FetchForgottenTopic] @7+
        topic: str @7-12
        topic_id: uuid @13+
        partitions: [i32]
    rack_id: str @11+
response v4-18 flexible 12+
    throttle_time_ms: i32
    error_code: i16 @7+
    session_id: i32 @7+
    responses: [FetchTopicResponse]
        topic: str @4-12
        topic_id: uuid @13+
        partitions: [FetchPartitionResponse]
            partition_index: i32
            error_code: i16
            high_watermark: i64
            last_stable_offset: i64 = -1
            log_start_offset: i64 = -1 @5+
            diverging_epoch: FetchDivergingEpoch #0 @12+
                epoch: i32 = -1
                end_offset: i64 = -1
            current_leader: FetchCurrentLeader #1 @12+
                leader_id: i32 = -1
                leader_epoch: i32 = -1
            snapshot_id: FetchSnapshotId #2 @12+
                end_offset: i64 = -1
                epoch: i32 = -1
            aborted_transactions: [FetchAbortedTransaction]?
                producer_id: i64
                first_offset: i64
            preferred_read_replica: i32 = -1 @11+
            records: records?
    node_endpoints: [FetchNodeEndpoint] #0 @16+
        node_id: i32
        host: str
        port: i32
        rack: str? = null
"""
