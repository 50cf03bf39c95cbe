"""DescribeQuorum. Pure."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumReplica,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
)
from ledgerstone.raft.messages import DescribeQuorum, QuorumAnswer, ReplicaProgress
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.raft.wire.partition import (
    PARTITION,
    TOPIC,
    error_of,
    listeners_in,
    only_partition,
)


def request_to_wire(_: DescribeQuorum) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartition(partition_index=PARTITION)
    return DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopic(topic_name=TOPIC, partitions=[partition])]
    )


def request_from_wire(request: DescribeQuorumRequest) -> DescribeQuorum:
    only_partition(
        [(t.topic_name, p.partition_index, p) for t in request.topics for p in t.partitions]
    )
    return DescribeQuorum()


def refusal(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """For any other topic or partition: Kafka says of each that it does not know it."""
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            DescribeQuorumResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartition(
                        partition_index=each.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=f"The quorum replicates {TOPIC}-{PARTITION} only.",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def answer_to_wire(answer: QuorumAnswer) -> DescribeQuorumResponse:
    partition = DescribeQuorumResponsePartition(
        partition_index=PARTITION,
        error_code=answer.error,
        error_message="" if answer.error is ErrorCode.NONE else answer.error.name,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        high_watermark=answer.high_watermark,
        current_voters=[_replica(each) for each in answer.voters],
        observers=[_replica(each) for each in answer.observers],
    )
    voters = () if answer.voter_set is None else answer.voter_set.voters
    return DescribeQuorumResponse(
        # Kafka sends no null here.
        error_message="",
        topics=[DescribeQuorumResponseTopic(topic_name=TOPIC, partitions=[partition])],
        nodes=[
            DescribeQuorumNode(
                node_id=voter.key.id,
                listeners=[
                    DescribeQuorumListener(name=at.name, host=at.host, port=at.port)
                    for at in voter.listeners
                ],
            )
            for voter in voters
        ],
    )


def _replica(progress: ReplicaProgress) -> DescribeQuorumReplica:
    return DescribeQuorumReplica(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_id,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=progress.last_fetch_ms,
        last_caught_up_timestamp=progress.last_caught_up_ms,
    )


def answer_from_wire(response: DescribeQuorumResponse) -> QuorumAnswer:
    if response.error_code:
        return QuorumAnswer(error=error_of(response.error_code))
    said = only_partition(
        [(t.topic_name, p.partition_index, p) for t in response.topics for p in t.partitions]
    )
    listeners = {each.node_id: listeners_in(each.listeners) for each in response.nodes}
    voters = tuple(_progress(each) for each in said.current_voters)
    return QuorumAnswer(
        error=error_of(said.error_code),
        epoch=said.leader_epoch,
        leader_id=said.leader_id,
        high_watermark=said.high_watermark,
        voters=voters,
        observers=tuple(_progress(each) for each in said.observers),
        voter_set=VoterSet(
            Voter(key=each.key, listeners=listeners.get(each.key.id, ())) for each in voters
        ),
    )


def _progress(replica: DescribeQuorumReplica) -> ReplicaProgress:
    return ReplicaProgress(
        key=ReplicaKey(replica.replica_id, replica.replica_directory_id),
        end_offset=replica.log_end_offset,
        last_fetch_ms=replica.last_fetch_timestamp,
        last_caught_up_ms=replica.last_caught_up_timestamp,
    )
