"""FetchSnapshot. Pure."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch_snapshot import (
    FetchSnapshotCurrentLeader,
    FetchSnapshotNodeEndpoint,
    FetchSnapshotRequest,
    FetchSnapshotRequestPartition,
    FetchSnapshotRequestTopic,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartition,
    FetchSnapshotResponseTopic,
    FetchSnapshotSnapshotId,
)
from ledgerstone.raft.messages import FetchSnapshot, FetchSnapshotAnswer
from ledgerstone.raft.replica import OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.wire.partition import (
    PARTITION,
    TOPIC,
    error_of,
    leader_in,
    only_partition,
    top_level,
)


def request_to_wire(fetch: FetchSnapshot) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequestPartition(
        partition=PARTITION,
        current_leader_epoch=fetch.epoch,
        snapshot_id=FetchSnapshotSnapshotId(
            end_offset=fetch.snapshot_id.offset, epoch=fetch.snapshot_id.epoch
        ),
        position=fetch.position,
        replica_directory_id=fetch.replica.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=fetch.cluster_id,
        replica_id=fetch.replica.id,
        max_bytes=fetch.max_bytes,
        topics=[FetchSnapshotRequestTopic(name=TOPIC, partitions=[partition])],
    )


def request_from_wire(request: FetchSnapshotRequest) -> FetchSnapshot:
    asked = only_partition([(t.name, p.partition, p) for t in request.topics for p in t.partitions])
    return FetchSnapshot(
        cluster_id=request.cluster_id,
        replica=ReplicaKey(request.replica_id, asked.replica_directory_id),
        epoch=asked.current_leader_epoch,
        snapshot_id=OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        position=asked.position,
        max_bytes=request.max_bytes,
    )


def answer_to_wire(answer: FetchSnapshotAnswer) -> FetchSnapshotResponse:
    if (error := top_level(answer)) is not ErrorCode.NONE:
        return FetchSnapshotResponse(error_code=error)
    snapshot_id = answer.snapshot_id or OffsetAndEpoch(0, 0)
    partition = FetchSnapshotResponsePartition(
        index=PARTITION,
        error_code=answer.error,
        snapshot_id=FetchSnapshotSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
        current_leader=FetchSnapshotCurrentLeader(
            leader_id=answer.leader_id, leader_epoch=answer.epoch
        ),
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.chunk,
    )
    leader = answer.leader
    return FetchSnapshotResponse(
        topics=[FetchSnapshotResponseTopic(name=TOPIC, partitions=[partition])],
        node_endpoints=[]
        if leader is None
        else [FetchSnapshotNodeEndpoint(node_id=leader.id, host=leader.host, port=leader.port)],
    )


def answer_from_wire(response: FetchSnapshotResponse) -> FetchSnapshotAnswer:
    if response.error_code:
        return FetchSnapshotAnswer(error=error_of(response.error_code))
    said = only_partition([(t.name, p.index, p) for t in response.topics for p in t.partitions])
    leader = said.current_leader or FetchSnapshotCurrentLeader(leader_id=-1, leader_epoch=-1)
    return FetchSnapshotAnswer(
        error=error_of(said.error_code),
        epoch=leader.leader_epoch,
        leader_id=leader.leader_id,
        leader=leader_in(leader.leader_id, response.node_endpoints),
        snapshot_id=OffsetAndEpoch(said.snapshot_id.end_offset, said.snapshot_id.epoch),
        size=said.size,
        position=said.position,
        chunk=bytes(said.unaligned_records),  # type: ignore[arg-type]
    )
