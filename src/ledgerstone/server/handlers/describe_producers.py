"""DescribeProducers (61). Grade D.

Behaviour: the producers a partition remembers, with their open transactions; any replica is asked.
Of more than a hundred partitions, each is answered once.
Versions: 0.
"""

from collections.abc import Iterable
from typing import Final

from ledgerstone.errors import KafkaError
from ledgerstone.metadata.topic_names import check_topic_name
from ledgerstone.protocol.messages.describe_producers import (
    DescribeProducersActiveProducer,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.types import TopicPartition

# Of so many names, the same one may be there again, and is answered again, as in Kafka.
_MOST_REPEATED: Final = 100


def handle(broker: Broker, request: Request, message: DescribeProducersRequest) -> Answer:
    asked: Iterable[tuple[str, Iterable[int]]] = (
        (topic.name, topic.partition_indexes) for topic in message.topics
    )
    if sum(len(topic.partition_indexes) for topic in message.topics) > _MOST_REPEATED:
        # To say all producers of one again and again would cost us more than the asker.
        once: dict[str, dict[int, None]] = {}
        for name, numbers in asked:
            once.setdefault(name, {}).update(dict.fromkeys(numbers))
        asked = once.items()
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponseTopic(
                name=name,
                partitions=[_describe(broker, TopicPartition(name, number)) for number in numbers],
            )
            for name, numbers in asked
        ]
    )


def _describe(broker: Broker, topic_partition: TopicPartition) -> DescribeProducersPartition:
    answer = DescribeProducersPartition(partition_index=topic_partition.partition)
    try:
        check_topic_name(topic_partition.topic)
        partition = broker.partitions.get(topic_partition)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
        return answer
    answer.active_producers = [
        DescribeProducersActiveProducer(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for entry in partition.log.producers.entries()
    ]
    return answer
