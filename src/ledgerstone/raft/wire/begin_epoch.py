"""BeginQuorumEpoch. Pure."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochLeaderEndpoint,
    BeginQuorumEpochNodeEndpoint,
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartition,
    BeginQuorumEpochRequestTopic,
    BeginQuorumEpochResponse,
    BeginQuorumEpochResponsePartition,
    BeginQuorumEpochResponseTopic,
)
from ledgerstone.raft.messages import BeginEpoch, BeginEpochAnswer
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.wire.partition import (
    PARTITION,
    TOPIC,
    error_of,
    leader_in,
    listeners_in,
    only_partition,
    top_level,
)


def request_to_wire(begin: BeginEpoch) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequestPartition(
        partition_index=PARTITION,
        voter_directory_id=begin.voter.directory_id,
        leader_id=begin.leader_id,
        leader_epoch=begin.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=begin.cluster_id,
        voter_id=begin.voter.id,
        topics=[BeginQuorumEpochRequestTopic(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochLeaderEndpoint(name=at.name, host=at.host, port=at.port)
            for at in begin.leader_listeners
        ],
    )


def request_from_wire(request: BeginQuorumEpochRequest) -> BeginEpoch:
    asked = only_partition(
        [(t.topic_name, p.partition_index, p) for t in request.topics for p in t.partitions]
    )
    return BeginEpoch(
        cluster_id=request.cluster_id,
        voter=ReplicaKey(request.voter_id, asked.voter_directory_id),
        leader_id=asked.leader_id,
        epoch=asked.leader_epoch,
        leader_listeners=listeners_in(request.leader_endpoints),
    )


def answer_to_wire(answer: BeginEpochAnswer) -> BeginQuorumEpochResponse:
    if (error := top_level(answer)) is not ErrorCode.NONE:
        return BeginQuorumEpochResponse(error_code=error)
    partition = BeginQuorumEpochResponsePartition(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    leader = answer.leader
    return BeginQuorumEpochResponse(
        topics=[BeginQuorumEpochResponseTopic(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[]
        if leader is None
        else [BeginQuorumEpochNodeEndpoint(node_id=leader.id, host=leader.host, port=leader.port)],
    )


def answer_from_wire(response: BeginQuorumEpochResponse) -> BeginEpochAnswer:
    if response.error_code:
        return BeginEpochAnswer(error=error_of(response.error_code))
    said = only_partition(
        [(t.topic_name, p.partition_index, p) for t in response.topics for p in t.partitions]
    )
    return BeginEpochAnswer(
        error=error_of(said.error_code),
        epoch=said.leader_epoch,
        leader_id=said.leader_id,
        leader=leader_in(said.leader_id, response.node_endpoints),
    )
