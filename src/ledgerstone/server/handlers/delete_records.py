"""DeleteRecords (21). Grade D.

Behaviour: moves the log start offset; -1 means the high watermark. Disk space returns with the next
retention run that finds a whole segment below it. Refused for internal topics and where the policy
does not delete.
Versions: 0-2.
"""

from ledgerstone.errors import InvalidTopic, KafkaError, OffsetOutOfRange, PolicyViolation
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.types import TopicPartition

_HIGH_WATERMARK = -1


def handle(broker: Broker, request: Request, message: DeleteRecordsRequest) -> Answer:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(
                name=topic.name,
                partitions=[_delete(broker, topic.name, asked) for asked in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _delete(
    broker: Broker, topic: str, asked: DeleteRecordsRequestPartition
) -> DeleteRecordsResponsePartition:
    answer = DeleteRecordsResponsePartition(partition_index=asked.partition_index, low_watermark=-1)
    topic_partition = TopicPartition(topic, asked.partition_index)
    try:
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"{topic} is internal")
        partition = broker.partitions.get(topic_partition)
        partition.check_leader()
        log = partition.log
        if not log.config.deletes:
            raise PolicyViolation(
                f"{topic} has cleanup.policy={','.join(log.config.cleanup_policy)}"
            )
        offset = log.high_watermark if asked.offset == _HIGH_WATERMARK else asked.offset
        if offset < 0:
            raise OffsetOutOfRange(f"offset {offset}")
        log.raise_log_start_offset(offset)
        answer.low_watermark = log.log_start_offset
    except KafkaError as error:
        answer.error_code = error.code
    return answer
