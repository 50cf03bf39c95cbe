"""Sends records and reports the result for each. Shell over a `Client`.

`send` is synchronous: when it returns, every record has a result. Records of one partition keep
their order; they go as one batch per request, since the protocol allows no more.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.numbering import IdempotentNumbering, Numbering, Unnumbered
from ledgerstone.client.partitioner import Partitioner
from ledgerstone.client.rounds import PartitionAnswer, PartitionAnswers
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError, KafkaError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import RecordHeaders, build_batch
from ledgerstone.types import NO_OFFSET, TopicPartition

ACKS_ALL: Final = -1
# Overhead of a record: lengths, deltas, attributes. Generous.
_RECORD_OVERHEAD_BYTES: Final = 30


class NewRecord(NamedTuple):
    """A record to send. A value of None is a tombstone; an empty one is not."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()
    partition: int | None = None  # None: where the key belongs
    timestamp_ms: int | None = None  # None: now


class Placed(NamedTuple):
    """Where a record is. The offset is NO_OFFSET with acks=0."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    acks: int = ACKS_ALL
    codec: Codec = Codec.NONE
    idempotent: bool = False
    batch_bytes: int = 512 * 1024
    timeout_ms: int = 30_000


class _Item(NamedTuple):
    place: int  # of the record in what `send` was given
    record: NewRecord
    timestamp_ms: int


class Producer:
    """`numbering` is for transactions; without it, the config says whether it is idempotent."""

    def __init__(
        self,
        client: Client,
        config: ProducerConfig | None = None,
        *,
        numbering: Numbering | None = None,
    ) -> None:
        self._client = client
        self._config = config or ProducerConfig()
        if self._config.idempotent and self._config.acks != ACKS_ALL:
            raise ConfigError("acks", self._config.acks, "idempotence needs acks=all")
        if numbering is None:
            numbering = IdempotentNumbering(client) if self._config.idempotent else Unnumbered()
        self._numbering: Numbering = numbering
        self._partitioner = Partitioner(client.dice)
        self._partition_counts: dict[str, int] = {}

    def send(self, records: Sequence[NewRecord]) -> list[Placed | KafkaError]:
        """For each record, in the order given, where it is or why it failed."""
        outcomes: dict[int, Placed | KafkaError] = {}
        queues = {
            partition: list(self._batches(items))
            for partition, items in self._by_partition(records).items()
        }
        while queues:
            heads = {partition: batches.pop(0) for partition, batches in queues.items()}
            answers = self._produce(heads)
            for partition, items in heads.items():
                error = answers.failed.get(partition)
                if error is None:
                    outcomes |= _placed(partition, items, answers.done[partition])
                    continue
                # Later records of this partition must not overtake the failed ones.
                rest = [item for batch in queues[partition] for item in batch]
                outcomes |= {item.place: error for item in [*items, *rest]}
                queues[partition] = []
            queues = {partition: batches for partition, batches in queues.items() if batches}
        return [outcomes[index] for index in range(len(records))]

    # -- partitions ------------------------------------------------------------------------

    def _by_partition(self, records: Sequence[NewRecord]) -> dict[TopicPartition, list[_Item]]:
        now_ms = self._client.clock.now_ms()
        found: dict[TopicPartition, list[_Item]] = {}
        for index, record in enumerate(records):
            number = record.partition
            if number is None:
                count = self._partition_count(record.topic)
                number = self._partitioner.choose(record.topic, record.key, count)
            timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
            item = _Item(index, record, timestamp_ms)
            found.setdefault(TopicPartition(record.topic, number), []).append(item)
        for topic in dict.fromkeys(record.topic for record in records if record.key is None):
            self._partitioner.close_batch(topic)
        return found

    def _partition_count(self, topic: str) -> int:
        # Kept for the life of a producer: keys must not move to another partition half way.
        if topic not in self._partition_counts:
            self._partition_counts[topic] = len(self._client.topic(topic).partitions)
        return self._partition_counts[topic]

    def _batches(self, items: list[_Item]) -> Iterator[list[_Item]]:
        batch: list[_Item] = []
        size_bytes = 0
        for item in items:
            record_bytes = _size_of(item.record)
            if batch and size_bytes + record_bytes > self._config.batch_bytes:
                yield batch
                batch, size_bytes = [], 0
            batch.append(item)
            size_bytes += record_bytes
        if batch:
            yield batch

    # -- one request per leader ----------------------------------------------------------------

    def _produce(
        self, batches: Mapping[TopicPartition, list[_Item]]
    ) -> PartitionAnswers[ProducePartitionResponse]:
        self._numbering.before(batches)
        # Built once: a retry must carry the same sequence numbers to be recognised.
        built = {partition: self._build(partition, items) for partition, items in batches.items()}
        if self._config.acks == 0:
            return self._produce_unanswered(built)
        try:
            answers: PartitionAnswers[ProducePartitionResponse] = self._client.ask_leaders(
                "Produce",
                built,
                self._request,
                self._read,
                ProduceResponse,
                timeout_ms=self._config.timeout_ms,
                at_most=self._numbering.produce_at_most,
            )
        except BaseException:
            # A leader may have some of it. It would take other records for a repetition if they
            # came under the same numbers.
            self._numbering.failed({})
            raise
        for partition in answers.done:
            self._numbering.acknowledged(partition, len(batches[partition]))
        if answers.failed:
            self._numbering.failed(answers.failed)
        return answers

    def _produce_unanswered(
        self, built: Mapping[TopicPartition, bytearray]
    ) -> PartitionAnswers[ProducePartitionResponse]:
        def read(_: ProduceResponse) -> Iterator[PartitionAnswer[ProducePartitionResponse]]:
            for partition in built:
                answer = ProducePartitionResponse(base_offset=NO_OFFSET)
                yield PartitionAnswer(partition, ErrorCode.NONE, answer)

        return self._client.ask_leaders("Produce", built, self._request, read, ProduceResponse)

    def _build(self, partition: TopicPartition, items: list[_Item]) -> bytearray:
        identity = self._numbering.identity
        return build_batch(
            [(i.timestamp_ms, i.record.key, i.record.value, i.record.headers) for i in items],
            codec=self._config.codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self._numbering.next_sequence(partition),
            transactional=self._numbering.transactional_id is not None,
        )

    def _request(self, batches: Mapping[TopicPartition, bytearray]) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=self._numbering.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.timeout_ms,
            topic_data=[
                ProduceTopicData(
                    name=topic,
                    topic_id=self._client.session.cluster.topic_id(topic),
                    partition_data=[
                        ProducePartitionData(index=index, records=batch)
                        for index, batch in partitions.items()
                    ],
                )
                for topic, partitions in by_topic(batches).items()
            ],
        )

    def _read(
        self, response: ProduceResponse
    ) -> Iterator[PartitionAnswer[ProducePartitionResponse]]:
        for topic in response.responses:
            name = self._client.session.cluster.name_of(topic.name, topic.topic_id)
            for answer in topic.partition_responses if name is not None else ():
                code = answer.error_code
                if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    # An earlier attempt is in the log, but so far back that the leader no longer
                    # knows its offset.
                    code = int(ErrorCode.NONE)
                partition = TopicPartition(name or "", answer.index)
                yield PartitionAnswer(partition, code, answer, _blame(answer))


def _blame(answer: ProducePartitionResponse) -> str | None:
    """The broker's message, and the record of the batch it refers to."""
    records = "; ".join(
        f"record {each.batch_index}: {each.batch_index_error_message or 'refused'}"
        for each in answer.record_errors
    )
    return "; ".join(part for part in (answer.error_message, records) if part) or None


def _placed(
    partition: TopicPartition, items: list[_Item], answer: ProducePartitionResponse
) -> dict[int, Placed]:
    base_offset = answer.base_offset
    return {
        item.place: Placed(
            partition,
            NO_OFFSET if base_offset < 0 else base_offset + delta,
            item.timestamp_ms if answer.log_append_time_ms < 0 else answer.log_append_time_ms,
        )
        for delta, item in enumerate(items)
    }


def _size_of(record: NewRecord) -> int:
    size_bytes = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size_bytes += len(name) * 4 + len(value or b"") + _RECORD_OVERHEAD_BYTES
    return size_bytes
