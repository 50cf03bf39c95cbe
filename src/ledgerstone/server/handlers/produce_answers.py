"""What Produce answers: where a batch was appended, why it was not, and when that is known.

Grade D, through the broker.
"""

from functools import partial
from typing import Final, NamedTuple

from ledgerstone.errors import (
    BatchRefused,
    CorruptRecord,
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTimestamp,
    InvalidTxnState,
    KafkaError,
    KeylessRecord,
    LogStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    RecordListTooLarge,
    StorageError,
    UnsupportedCompressionType,
)
from ledgerstone.metadata.decision import reason_of
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProduceCurrentLeader,
    ProduceNodeEndpoint,
    ProducePartitionResponse,
    ProduceRecordError,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.current_leader import current_leader
from ledgerstone.server.request import Answer, Disconnect, Parked, Request
from ledgerstone.storage.log import AppendResult
from ledgerstone.types import TopicPartition

# What an append may fail with, and what of it is the fault of the batch.
FAILURES: Final = (KafkaError, StorageError, OSError)
_FAULTS_OF_BATCH: Final = (
    BatchRefused,
    CorruptRecord,
    MessageTooLarge,
    OutOfOrderSequence,
    RecordListTooLarge,
    UnsupportedCompressionType,
)

# Found only by looking at the partition or into the batch: Kafka then says where the log starts.
_FOUND_LATE: Final = (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTimestamp,
    InvalidTxnState,
    KeylessRecord,
    NotEnoughReplicas,
    OutOfOrderSequence,
)
# Clients that know nothing of coordinators repeat the request for this code, and do not ask for
# metadata.
_TRY_AGAIN: Final = ErrorCode.NOT_ENOUGH_REPLICAS
_COORDINATOR_NOT_READY: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_FIRST_VERSION_WITH_LEADER: Final = 10
_FIRST_VERSION_THAT_ADDS: Final = 12


class Awaited(NamedTuple):
    """`high_watermark` is what the partition must reach before the answer is true. Another
    partition of the same name, made after the topic was deleted, says nothing about it."""

    partition: Partition
    high_watermark: int
    answer: ProducePartitionResponse

    def has_come(self) -> bool:
        return self.partition.log.high_watermark >= self.high_watermark


# A partition that is named twice is here twice: each of its batches has an answer of its own.
Waiting = list[Awaited]


def answered(
    broker: Broker,
    request: Request,
    acks: int,
    timeout_ms: int,
    response: ProduceResponse,
    waiting: Waiting,
) -> Answer:
    if acks == 0:
        _close_on_error(response)
        return None
    if not waiting:
        return _with_leaders(broker, request, response)
    attempt = partial(_attempt, broker, request, response, waiting)
    deadline_ms = broker.clock.monotonic_ms() + timeout_ms
    keys = dict.fromkeys(each.partition.topic_partition for each in waiting)
    return Parked(attempt=attempt, deadline_ms=deadline_ms, keys=keys)


def accepted(index: int, result: AppendResult) -> ProducePartitionResponse:
    return ProducePartitionResponse(
        index=index,
        base_offset=result.first_offset,
        log_append_time_ms=result.log_append_time,
        log_start_offset=result.log_start_offset,
    )


def refused(
    broker: Broker, topic_partition: TopicPartition, error: Exception
) -> ProducePartitionResponse:
    answer = ProducePartitionResponse(index=topic_partition.partition, base_offset=-1)
    if isinstance(error, KafkaError):
        answer.error_code = error.code
        answer.error_message = reason_of(error)
        if isinstance(error, _FOUND_LATE):
            partition = broker.partitions.find(topic_partition)
            answer.log_start_offset = -1 if partition is None else partition.log.log_start_offset
        if isinstance(error, BatchRefused):
            answer.record_errors = [
                ProduceRecordError(batch_index=index, batch_index_error_message=text)
                for index, text in error.record_errors
            ]
        if isinstance(error, _FAULTS_OF_BATCH):
            broker.counters.rejected_batches += 1
            broker.counters.keyless_records_refused += isinstance(error, KeylessRecord)
        if isinstance(error, LogStorageError):
            broker.log_failed(topic_partition, error)
    else:
        broker.log_failed(topic_partition, error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    broker.counters.answered_error("Produce", answer.error_code)
    return answer


def unverified(broker: Broker, index: int, code: int, api_version: int) -> ProducePartitionResponse:
    """The coordinator of its transaction did not say yes; what it said, as this client knows it."""
    is_concurrent = code == ErrorCode.CONCURRENT_TRANSACTIONS
    message = None
    if code == ErrorCode.INVALID_TXN_STATE:
        message = "Partition was not added to the transaction"
    elif code in _COORDINATOR_NOT_READY or (
        is_concurrent and api_version < _FIRST_VERSION_THAT_ADDS
    ):
        message = (
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{ErrorCode(code).name}"
        )
        code = _TRY_AGAIN
    return _error(broker, index, code, message)


def unknown_topic_id(broker: Broker, topic_id: bytes, index: int) -> ProducePartitionResponse:
    return _error(broker, index, ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic_id.hex()}")


def refused_whole(
    broker: Broker,
    request: Request,
    message: ProduceRequest,
    code: ErrorCode,
    words: str | None = None,
) -> Answer:
    """Nothing of the request is appended; every partition has the same error."""
    response = ProduceResponse(
        responses=[
            ProduceTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _error(broker, data.index, code, words) for data in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )
    return answered(broker, request, message.acks, message.timeout_ms, response, [])


def _error(
    broker: Broker, index: int, code: int, message: str | None = None
) -> ProducePartitionResponse:
    broker.counters.answered_error("Produce", code)
    return ProducePartitionResponse(
        index=index, error_code=code, base_offset=-1, error_message=message
    )


def _with_leaders(broker: Broker, request: Request, response: ProduceResponse) -> ProduceResponse:
    """Names the leader of each partition that another broker leads."""
    if request.api_version < _FIRST_VERSION_WITH_LEADER:
        return response
    endpoints: dict[int, ProduceNodeEndpoint] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                topic_partition = TopicPartition(topic.name, answer.index)
                found = current_leader(broker, topic_partition, request.session.listener)
                answer.current_leader = ProduceCurrentLeader(found.leader_id, found.leader_epoch)
                if found.address is not None:
                    endpoints[found.leader_id] = ProduceNodeEndpoint(*found.address)
    response.node_endpoints = list(endpoints.values())
    return response


def _attempt(
    broker: Broker,
    request: Request,
    response: ProduceResponse,
    waiting: Waiting,
    time_is_up: bool,
) -> ProduceResponse | None:
    waiting[:] = [each for each in waiting if not _is_decided(broker, each)]
    if waiting and not time_is_up:
        return None
    for each in waiting:
        each.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        broker.counters.answered_error("Produce", each.answer.error_code)
    return _with_leaders(broker, request, response)


def _is_decided(broker: Broker, awaited: Awaited) -> bool:
    partition, _, answer = awaited
    topic_partition = partition.topic_partition
    try:
        if broker.partitions.get(topic_partition) is not partition:
            raise NotLeaderOrFollower(f"{topic_partition} was made anew")
        partition.check_leader()
    except KafkaError as error:
        answer.error_code = error.code
        broker.counters.answered_error("Produce", error.code)
        return True
    if not awaited.has_come():
        return False
    assert isinstance(partition.role, Leader)
    if not partition.role.has_enough_for_commit:
        answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        broker.counters.answered_error("Produce", answer.error_code)
    return True


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise Disconnect(
                    f"acks=0 and error {answer.error_code} in {topic.name}-{answer.index}: "
                    f"{answer.error_message}"
                )
