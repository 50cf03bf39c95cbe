"""Fetch, as replicas of the quorum use it. Pure. Consumers' fetches never come here."""

from ledgerstone.errors import InvalidRequest
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import (
    FetchCurrentLeader,
    FetchDivergingEpoch,
    FetchNodeEndpoint,
    FetchPartition,
    FetchPartitionResponse,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchSnapshotId,
    FetchTopic,
    FetchTopicResponse,
)
from ledgerstone.raft.messages import Fetch, FetchAnswer
from ledgerstone.raft.replica import NO_NODE, OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.wire.partition import (
    PARTITION,
    TOPIC,
    TOPIC_ID,
    error_of,
    leader_in,
    only_partition,
    top_level,
)


def request_to_wire(fetch: Fetch) -> FetchRequest:
    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=fetch.epoch,
        fetch_offset=fetch.log_end.offset,
        last_fetched_epoch=fetch.log_end.epoch,
        replica_directory_id=fetch.replica.directory_id,
        high_watermark=fetch.high_watermark,
    )
    return FetchRequest(
        cluster_id=fetch.cluster_id,
        replica_id=fetch.replica.id,
        replica_state=FetchReplicaState(replica_id=fetch.replica.id),
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=fetch.max_bytes,
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )


def request_from_wire(request: FetchRequest) -> Fetch:
    asked = only_partition(
        [
            (TOPIC if _is_ours(t.topic, t.topic_id) else t.topic, p.partition, p)
            for t in request.topics
            for p in t.partitions
        ]
    )
    replica_id = request.replica_id
    if request.replica_state is not None and request.replica_state.replica_id != NO_NODE:
        replica_id = request.replica_state.replica_id
    return Fetch(
        cluster_id=request.cluster_id,
        replica=ReplicaKey(replica_id, asked.replica_directory_id),
        epoch=asked.current_leader_epoch,
        log_end=OffsetAndEpoch(asked.fetch_offset, asked.last_fetched_epoch),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        high_watermark=asked.high_watermark,
    )


def _is_ours(name: str, topic_id: bytes) -> bool:
    """Since version 13 the id alone is sent."""
    return name == TOPIC or (not name and topic_id == TOPIC_ID)


def answer_to_wire(answer: FetchAnswer) -> FetchResponse:
    if (error := top_level(answer)) is not ErrorCode.NONE:
        return FetchResponse(error_code=error)
    diverging, snapshot_id, leader = answer.diverging, answer.snapshot_id, answer.leader
    partition = FetchPartitionResponse(
        partition_index=PARTITION,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=FetchCurrentLeader(leader_id=answer.leader_id, leader_epoch=answer.epoch),
        aborted_transactions=[],
        records=answer.records,
    )
    if diverging is not None:
        partition.diverging_epoch = FetchDivergingEpoch(
            epoch=diverging.epoch, end_offset=diverging.offset
        )
    if snapshot_id is not None:
        partition.snapshot_id = FetchSnapshotId(
            end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
        )
    return FetchResponse(
        responses=[FetchTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
        node_endpoints=[]
        if leader is None
        else [FetchNodeEndpoint(node_id=leader.id, host=leader.host, port=leader.port)],
    )


def answer_from_wire(response: FetchResponse) -> FetchAnswer:
    if response.error_code:
        return FetchAnswer(error=error_of(response.error_code))
    said = only_partition(
        [
            (TOPIC if _is_ours(t.topic, t.topic_id) else t.topic, p.partition_index, p)
            for t in response.responses
            for p in t.partitions
        ]
    )
    leader, diverging, snapshot = said.current_leader, said.diverging_epoch, said.snapshot_id
    if leader is None:
        raise InvalidRequest("a fetch answer of the quorum names its leader and epoch")
    records = said.records
    return FetchAnswer(
        error=error_of(said.error_code),
        epoch=leader.leader_epoch,
        leader_id=leader.leader_id,
        leader=leader_in(leader.leader_id, response.node_endpoints),
        high_watermark=said.high_watermark,
        log_start_offset=said.log_start_offset,
        records=b"" if records is None else bytes(records),  # type: ignore[arg-type]
        diverging=_end(diverging.end_offset, diverging.epoch) if diverging is not None else None,
        snapshot_id=_end(snapshot.end_offset, snapshot.epoch) if snapshot is not None else None,
    )


def _end(offset: int, epoch: int) -> OffsetAndEpoch | None:
    """-1 is Kafka's word for absent."""
    return None if offset < 0 or epoch < 0 else OffsetAndEpoch(offset, epoch)
