"""DescribeQuorum (55). Grade D.

Behaviour: a broker of a cluster asks the active controller, as in Kafka. A single node describes
itself: one voter, which leads. A request that is about anything but the metadata partition is
answered partition by partition, and without nodes.
Versions: 0-2.
"""

from functools import partial

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumReplica,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.quorum.disk_log import METADATA_PARTITION
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.types import TopicPartition


def handle(broker: Broker, request: Request, message: DescribeQuorumRequest) -> Answer:
    if broker.membership is not None:
        answer = partial(broker.answer, request)
        broker.membership.forwarding.forward(message, answer, client=request)
        return ANSWERED_LATER
    response = DescribeQuorumResponse(error_message="")
    for topic in message.topics:
        response.topics.append(
            DescribeQuorumResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    _describe(broker, TopicPartition(topic.topic_name, asked.partition_index))
                    for asked in topic.partitions
                ],
            )
        )
    asked_for = [
        TopicPartition(topic.topic_name, each.partition_index)
        for topic in message.topics
        for each in topic.partitions
    ]
    if asked_for != [METADATA_PARTITION]:
        return response
    response.nodes = [
        DescribeQuorumNode(
            node_id=voter,
            listeners=[DescribeQuorumListener("PLAINTEXT", *broker.address_of(voter))],
        )
        for voter in broker.quorum.node.voters.ids
    ]
    return response


def _describe(broker: Broker, topic_partition: TopicPartition) -> DescribeQuorumResponsePartition:
    answer = DescribeQuorumResponsePartition(partition_index=topic_partition.partition)
    if topic_partition != METADATA_PARTITION:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = f"{topic_partition} has no quorum"
        return answer
    quorum = broker.quorum
    now_ms = broker.clock.now_ms()
    answer.leader_id = broker.controller_link.controller_id
    answer.leader_epoch = quorum.epoch
    answer.high_watermark = quorum.high_watermark
    answer.current_voters = [
        DescribeQuorumReplica(
            replica_id=voter,
            log_end_offset=quorum.end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for voter in quorum.node.voters.ids
    ]
    return answer
