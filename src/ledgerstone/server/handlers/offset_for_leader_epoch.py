"""OffsetForLeaderEpoch (23). Grade D.

Behaviour: where an epoch ended in this log, so that a reader can tell whether its own log or
position parted from it.
Versions: 2-4.
"""

from ledgerstone.errors import KafkaError
from ledgerstone.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.types import TopicPartition


def handle(broker: Broker, request: Request, message: OffsetForLeaderEpochRequest) -> Answer:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic,
                partitions=[_answer(broker, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _answer(
    broker: Broker, topic: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    answer = OffsetForLeaderEpochResponsePartition(partition=asked.partition)
    try:
        partition = broker.partitions.get(TopicPartition(topic, asked.partition))
        partition.check_leader(asked.current_leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    log = partition.log
    found = log.epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)
    answer.leader_epoch, answer.end_offset = found
    return answer
