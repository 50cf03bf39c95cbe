"""Vote. Pure."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.vote import (
    VoteNodeEndpoint,
    VoteRequest,
    VoteRequestPartition,
    VoteRequestTopic,
    VoteResponse,
    VoteResponsePartition,
    VoteResponseTopic,
)
from ledgerstone.raft.messages import Vote, VoteAnswer
from ledgerstone.raft.replica import OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.wire.partition import (
    PARTITION,
    TOPIC,
    error_of,
    leader_in,
    only_partition,
    top_level,
)


def request_to_wire(vote: Vote) -> VoteRequest:
    partition = VoteRequestPartition(
        partition_index=PARTITION,
        replica_epoch=vote.epoch,
        replica_id=vote.candidate.id,
        replica_directory_id=vote.candidate.directory_id,
        voter_directory_id=vote.voter.directory_id,
        last_offset_epoch=vote.log_end.epoch,
        last_offset=vote.log_end.offset,
        pre_vote=vote.is_pre_vote,
    )
    return VoteRequest(
        cluster_id=vote.cluster_id,
        voter_id=vote.voter.id,
        topics=[VoteRequestTopic(topic_name=TOPIC, partitions=[partition])],
    )


def request_from_wire(request: VoteRequest) -> Vote:
    asked = only_partition(
        [(t.topic_name, p.partition_index, p) for t in request.topics for p in t.partitions]
    )
    return Vote(
        cluster_id=request.cluster_id,
        voter=ReplicaKey(request.voter_id, asked.voter_directory_id),
        candidate=ReplicaKey(asked.replica_id, asked.replica_directory_id),
        epoch=asked.replica_epoch,
        log_end=OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch),
        is_pre_vote=asked.pre_vote,
    )


def answer_to_wire(answer: VoteAnswer) -> VoteResponse:
    if (error := top_level(answer)) is not ErrorCode.NONE:
        return VoteResponse(error_code=error)
    partition = VoteResponsePartition(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.is_granted,
    )
    leader = answer.leader
    return VoteResponse(
        topics=[VoteResponseTopic(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[]
        if leader is None
        else [VoteNodeEndpoint(node_id=leader.id, host=leader.host, port=leader.port)],
    )


def answer_from_wire(response: VoteResponse) -> VoteAnswer:
    if response.error_code:
        return VoteAnswer(error=error_of(response.error_code))
    said = only_partition(
        [(t.topic_name, p.partition_index, p) for t in response.topics for p in t.partitions]
    )
    return VoteAnswer(
        error=error_of(said.error_code),
        epoch=said.leader_epoch,
        leader_id=said.leader_id,
        leader=leader_in(said.leader_id, response.node_endpoints),
        is_granted=said.vote_granted,
    )
