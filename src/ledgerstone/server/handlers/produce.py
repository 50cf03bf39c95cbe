"""Produce (0). Grade D.

Behaviour: each partition is appended on its own; an error in one does not touch the others. acks=1
answers after the local write, acks=-1 once the high watermark has passed the batch, acks=0 never:
there an error closes the connection, because there is no other way to tell.
Versions: 3-11. 0-2 are advertised for the sake of old librdkafka, which takes a minimum of 3 for a
broker that cannot compress (KAFKA-18659), and are refused by closing, as Kafka 4 does.
Differs from Kafka: a transactional id is not verified yet.
"""

from functools import partial

from ledgerstone.errors import (
    BatchRefused,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    StorageError,
    UnsupportedCompressionType,
)
from ledgerstone.metadata.decision import reason_of
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProducePartitionResponse,
    ProduceRecordError,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
    ProduceTopicResponse,
)
from ledgerstone.records.batch import HEADER_SIZE, Codec, read_header
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Disconnect, Parked, Request
from ledgerstone.types import TopicPartition, WritableBuffer

_FIRST_VERSION_WITH_ZSTD = 7
_ACKS = (-1, 0, 1)
_RECORDS = (memoryview, bytearray)


def handle(broker: Broker, request: Request, message: ProduceRequest) -> Answer:
    response = ProduceResponse()
    waiting: dict[TopicPartition, tuple[int, ProducePartitionResponse]] = {}
    for topic in message.topic_data:
        answers = [
            _append(broker, request, message, topic, data, waiting) for data in topic.partition_data
        ]
        response.responses.append(
            ProduceTopicResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if message.acks == 0:
        _close_on_error(response)
        return None
    if not waiting:
        return response
    attempt = partial(_attempt, broker, response, waiting)
    deadline_ms = broker.clock.monotonic_ms() + message.timeout_ms
    return Parked(attempt=attempt, deadline_ms=deadline_ms, keys=tuple(waiting))


def _append(
    broker: Broker,
    request: Request,
    message: ProduceRequest,
    topic: ProduceTopicData,
    data: ProducePartitionData,
    waiting: dict[TopicPartition, tuple[int, ProducePartitionResponse]],
) -> ProducePartitionResponse:
    answer = ProducePartitionResponse(index=data.index, base_offset=-1)
    topic_partition = TopicPartition(topic.name, data.index)
    try:
        if message.acks not in _ACKS:
            raise InvalidRequiredAcks(f"acks={message.acks}, must be -1, 0 or 1")
        if topic.name in INTERNAL_TOPICS and request.client_id != "__admin_client":
            raise InvalidTopic(f"{topic.name} is internal")
        records = data.records
        assert isinstance(records, _RECORDS) or records is None
        if request.api_version < _FIRST_VERSION_WITH_ZSTD:
            _check_codec(records)
        partition = broker.partitions.get(topic_partition)
        result = partition.append(records or bytearray(), acks=message.acks)
    except KafkaError as error:
        answer.error_code = error.code
        answer.error_message = reason_of(error)
        if isinstance(error, BatchRefused):
            answer.record_errors = [
                ProduceRecordError(batch_index=index, batch_index_error_message=text)
                for index, text in error.record_errors
            ]
        return answer
    except (StorageError, OSError) as error:
        broker.log_failed(topic_partition, error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.log_append_time
    answer.log_start_offset = result.log_start_offset
    if not result.duplicate:
        broker.appended(topic_partition, len(records or b""))
        if result.tombstone_count:
            broker.cleaning.appended(partition.log, result.tombstone_count)
    if message.acks == -1 and partition.log.high_watermark <= result.last_offset:
        waiting[topic_partition] = (result.last_offset + 1, answer)
    return answer


def _check_codec(records: WritableBuffer | None) -> None:
    """An older request cannot carry zstd, because its reader could not ask for it back."""
    if not records or len(records) < HEADER_SIZE:
        return
    if read_header(records).codec is Codec.ZSTD:
        raise UnsupportedCompressionType("zstd needs Produce version 7 or later")


def _attempt(
    broker: Broker,
    response: ProduceResponse,
    waiting: dict[TopicPartition, tuple[int, ProducePartitionResponse]],
    time_is_up: bool,
) -> ProduceResponse | None:
    for topic_partition, (required, answer) in list(waiting.items()):
        try:
            partition = broker.partitions.get(topic_partition)
            partition.check_leader()
        except KafkaError as error:
            answer.error_code = error.code
            del waiting[topic_partition]
            continue
        if partition.log.high_watermark >= required:
            del waiting[topic_partition]
        elif time_is_up:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
    return response if time_is_up or not waiting else None


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise Disconnect(
                    f"acks=0 and error {answer.error_code} in {topic.name}-{answer.index}: "
                    f"{answer.error_message}"
                )
