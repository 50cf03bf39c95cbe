"""Writes the markers that end transactions, into partitions that this broker leads. Grade D.

A marker is a control batch of 78 bytes. Partitions of `__consumer_offsets` get theirs through the
group agent, because the shard has to learn of it; all others through their logs. A request is
answered once every marker is committed or refused, so that the coordinator may forget it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from ledgerstone.clock import Clock
from ledgerstone.coordinator.turn import TxnMarker
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError, LogStorageError, NotLeaderOrFollower, StorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersPartition,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponseTopic,
)
from ledgerstone.records.own_batch import OwnBatch, own_marker
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.server.effects import Effect
from ledgerstone.server.results import Result
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import TopicPartition

# How long a marker may wait for replicas: request.timeout.ms of Kafka's brokers.
_TIMEOUT_MS: Final = 30_000

# Called once with what became of one marker in one partition.
OnWritten = Callable[[int], None]


class FindsPartition(Protocol):
    def find(self, topic_partition: TopicPartition) -> Partition | None: ...


class CompletesTransactions(Protocol):
    """The group agent."""

    def complete_transaction(self, number: int, marker: TxnMarker, on_written: OnWritten) -> None:
        """Writes the marker into a partition of `__consumer_offsets`."""
        ...


class MarkerTurn(Protocol):
    def appended(self, topic_partition: TopicPartition, size: int = 0) -> None: ...

    def log_failed(self, topic_partition: TopicPartition | None, error: Exception) -> None: ...


@dataclass(slots=True)
class _Writing:
    """One request: an error code for every partition of every producer."""

    on_answer: Callable[[WriteTxnMarkersResponse], None]
    unanswered: int = 1  # the request itself, until all of its markers are under way
    codes: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)

    def written(self, producer_id: int, topic_partition: TopicPartition, code: int) -> None:
        self.codes[producer_id][topic_partition] = code
        self.one_less()

    def one_less(self) -> None:
        self.unanswered -= 1
        if not self.unanswered:
            self.on_answer(markers_response(self.codes))


class _Awaited(NamedTuple):
    """A marker in the log that is not committed yet."""

    end_offset: int
    deadline_ms: int
    on_written: OnWritten


@dataclass(slots=True, kw_only=True)
class PartitionMarkers:
    """An agent (`server.agent`)."""

    clock: Clock
    partitions: FindsPartition
    groups: CompletesTransactions
    turn: MarkerTurn
    _awaited: dict[TopicPartition, list[_Awaited]] = field(default_factory=dict)

    def write_markers(
        self,
        request: WriteTxnMarkersRequest,
        on_answer: Callable[[WriteTxnMarkersResponse], None],
    ) -> None:
        writing = _Writing(on_answer)
        for each in request.markers:
            writing.codes.setdefault(each.producer_id, {})
            marker = TxnMarker(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_result,
                each.transaction_version,
            )
            # The same bytes in every partition, but for their places.
            batch = own_marker(
                commit=marker.is_commit,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=self.clock.now_ms(),
            )
            for topic in each.topics:
                for number in topic.partition_indexes:
                    writing.unanswered += 1
                    self._write(writing, marker, batch, TopicPartition(topic.name, number))
        writing.one_less()

    def _write(
        self,
        writing: _Writing,
        marker: TxnMarker,
        batch: OwnBatch,
        topic_partition: TopicPartition,
    ) -> None:
        written = partial(writing.written, marker.producer_id, topic_partition)
        partition = self.partitions.find(topic_partition)
        if partition is None:
            written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic_partition.topic == CONSUMER_OFFSETS:
            self.groups.complete_transaction(topic_partition.partition, marker, written)
        else:
            terms = TxnTerms(transaction_version=marker.transaction_version)
            self._append(partition, batch, terms, written)

    def _append(
        self, partition: Partition, batch: OwnBatch, terms: TxnTerms, written: OnWritten
    ) -> None:
        topic_partition = partition.topic_partition
        try:
            result = partition.append(batch, acks=-1, origin=Origin.COORDINATOR, terms=terms)
        except (KafkaError, StorageError, OSError) as error:
            if not isinstance(error, KafkaError) or isinstance(error, LogStorageError):
                self.turn.log_failed(topic_partition, error)
            written(error.code if isinstance(error, KafkaError) else LogStorageError.code)
            return
        self.turn.appended(topic_partition, len(batch.data))
        end_offset = result.last_offset + 1
        if partition.log.high_watermark >= end_offset:
            written(ErrorCode.NONE)
            return
        deadline_ms = self.clock.monotonic_ms() + _TIMEOUT_MS
        awaited = self._awaited.setdefault(topic_partition, [])
        awaited.append(_Awaited(end_offset, deadline_ms, written))

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        """More of it is committed, or this broker leads it no longer."""
        awaited = self._awaited.pop(topic_partition, None)
        if awaited is None:
            return
        partition = self.partitions.find(topic_partition)
        waiting = []
        for each in awaited:
            if partition is None:
                each.on_written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif not partition.is_leader:
                each.on_written(NotLeaderOrFollower.code)
            elif partition.log.high_watermark >= each.end_offset:
                each.on_written(ErrorCode.NONE)
            else:
                waiting.append(each)
        self._keep(topic_partition, waiting)

    def _keep(self, topic_partition: TopicPartition, waiting: list[_Awaited]) -> None:
        """Behind it are markers that came while answers were given."""
        if waiting:
            self._awaited[topic_partition] = waiting + self._awaited.get(topic_partition, [])

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return min((each[0].deadline_ms for each in self._awaited.values()), default=None)

    def tick(self) -> list[Effect]:
        """Markers that replicas did not take in time. They stay in the log; a coordinator that
        tries again may write a second one, which ends nothing."""
        now_ms = self.clock.monotonic_ms()
        for topic_partition, awaited in list(self._awaited.items()):
            if awaited[0].deadline_ms > now_ms:
                continue
            del self._awaited[topic_partition]
            for each in awaited:
                if each.deadline_ms <= now_ms:
                    each.on_written(ErrorCode.REQUEST_TIMED_OUT)
            self._keep(topic_partition, [each for each in awaited if each.deadline_ms > now_ms])
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"markers asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        for topic in delta.topics_deleted:
            for number in topic.partitions:
                self.partition_changed(TopicPartition(topic.name, number))
        return []


def markers_response(codes: Mapping[int, Mapping[TopicPartition, int]]) -> WriteTxnMarkersResponse:
    """As in Kafka, markers of one producer are answered together."""
    response = WriteTxnMarkersResponse()
    for producer_id, by_partition in codes.items():
        topics: dict[str, WriteTxnMarkersResponseTopic] = {}
        for (topic, number), code in by_partition.items():
            if topic not in topics:
                topics[topic] = WriteTxnMarkersResponseTopic(name=topic)
            topics[topic].partitions.append(WriteTxnMarkersPartition(number, code))
        # A producer without partitions is not in Kafka's answer either.
        if topics:
            response.markers.append(
                WriteTxnMarkersResponseMarker(producer_id, list(topics.values()))
            )
    return response
