"""Fetch, api key 1. Pure.

Made from schemas/fetch.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


class FetchReplicaState(Struct):
    __slots__ = (
        "replica_id",
        "replica_epoch",
    )

    def __init__(
        self,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchPartition(Struct):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
        "clean_to",
        "removed_to",
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
        clean_to: int = -1,
        removed_to: int = -1,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark
        self.clean_to = clean_to
        self.removed_to = removed_to


class FetchTopic(Struct):
    __slots__ = (
        "topic",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[FetchPartition] = ABSENT,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class FetchForgottenTopic(Struct):
    __slots__ = (
        "topic",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class FetchRequest(ApiMessage):
    api_key: ClassVar[int] = 1
    name: ClassVar[str] = "Fetch"

    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: FetchReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] = ABSENT,
        forgotten_topics_data: list[FetchForgottenTopic] = ABSENT,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is ABSENT else topics
        self.forgotten_topics_data = (
            [] if forgotten_topics_data is ABSENT else forgotten_topics_data
        )
        self.rack_id = rack_id


class FetchDivergingEpoch(Struct):
    __slots__ = (
        "epoch",
        "end_offset",
    )

    def __init__(
        self,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class FetchCurrentLeader(Struct):
    __slots__ = (
        "leader_id",
        "leader_epoch",
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class FetchSnapshotId(Struct):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(
        self,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class FetchAbortedTransaction(Struct):
    __slots__ = (
        "producer_id",
        "first_offset",
    )

    def __init__(
        self,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class FetchPartitionResponse(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "removable_to",
        "removed_to",
        "clean_to",
        "held_from_offset",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: FetchDivergingEpoch | None = None,
        current_leader: FetchCurrentLeader | None = None,
        snapshot_id: FetchSnapshotId | None = None,
        removable_to: int = -1,
        removed_to: int = -1,
        clean_to: int = -1,
        held_from_offset: int = -1,
        aborted_transactions: list[FetchAbortedTransaction] | None = None,
        preferred_read_replica: int = -1,
        records: Records = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.removable_to = removable_to
        self.removed_to = removed_to
        self.clean_to = clean_to
        self.held_from_offset = held_from_offset
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchTopicResponse(Struct):
    __slots__ = (
        "topic",
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[FetchPartitionResponse] = ABSENT,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class FetchNodeEndpoint(Struct):
    __slots__ = (
        "node_id",
        "host",
        "port",
        "rack",
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class FetchResponse(ApiMessage):
    api_key: ClassVar[int] = 1
    name: ClassVar[str] = "Fetch"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "session_id",
        "responses",
        "node_endpoints",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchTopicResponse] = ABSENT,
        node_endpoints: list[FetchNodeEndpoint] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is ABSENT else responses
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


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
            clean_to: i64 #10000 = -1 @15+
            removed_to: i64 #10001 = -1 @15+
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
            removable_to: i64 #10010 = -1 @15+
            removed_to: i64 #10011 = -1 @15+
            clean_to: i64 #10012 = -1 @15+
            held_from_offset: i64 #10013 = -1 @15+
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
