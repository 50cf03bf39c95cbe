"""EndQuorumEpoch. Pure."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochLeaderEndpoint,
    EndQuorumEpochNodeEndpoint,
    EndQuorumEpochPreferredCandidate,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartition,
    EndQuorumEpochRequestTopic,
    EndQuorumEpochResponse,
    EndQuorumEpochResponsePartition,
    EndQuorumEpochResponseTopic,
)
from ledgerstone.raft.messages import EndEpoch, EndEpochAnswer
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


def request_to_wire(end: EndEpoch) -> EndQuorumEpochRequest:
    """Successors are written twice: version 0 has ids only."""
    partition = EndQuorumEpochRequestPartition(
        partition_index=PARTITION,
        leader_id=end.leader_id,
        leader_epoch=end.epoch,
        preferred_successors=[key.id for key in end.successors],
        preferred_candidates=[
            EndQuorumEpochPreferredCandidate(
                candidate_id=key.id, candidate_directory_id=key.directory_id
            )
            for key in end.successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=end.cluster_id,
        topics=[EndQuorumEpochRequestTopic(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            EndQuorumEpochLeaderEndpoint(name=at.name, host=at.host, port=at.port)
            for at in end.leader_listeners
        ],
    )


def request_from_wire(request: EndQuorumEpochRequest) -> EndEpoch:
    asked = only_partition(
        [(t.topic_name, p.partition_index, p) for t in request.topics for p in t.partitions]
    )
    successors = [
        ReplicaKey(each.candidate_id, each.candidate_directory_id)
        for each in asked.preferred_candidates
    ]
    return EndEpoch(
        cluster_id=request.cluster_id,
        leader_id=asked.leader_id,
        epoch=asked.leader_epoch,
        successors=tuple(successors or map(ReplicaKey, asked.preferred_successors)),
        leader_listeners=listeners_in(request.leader_endpoints),
    )


def answer_to_wire(answer: EndEpochAnswer) -> EndQuorumEpochResponse:
    if (error := top_level(answer)) is not ErrorCode.NONE:
        return EndQuorumEpochResponse(error_code=error)
    partition = EndQuorumEpochResponsePartition(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    leader = answer.leader
    return EndQuorumEpochResponse(
        topics=[EndQuorumEpochResponseTopic(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[]
        if leader is None
        else [EndQuorumEpochNodeEndpoint(node_id=leader.id, host=leader.host, port=leader.port)],
    )


def answer_from_wire(response: EndQuorumEpochResponse) -> EndEpochAnswer:
    if response.error_code:
        return EndEpochAnswer(error=error_of(response.error_code))
    said = only_partition(
        [(t.topic_name, p.partition_index, p) for t in response.topics for p in t.partitions]
    )
    return EndEpochAnswer(
        error=error_of(said.error_code),
        epoch=said.leader_epoch,
        leader_id=said.leader_id,
        leader=leader_in(said.leader_id, response.node_endpoints),
    )
