"""Sends finished batches to the leaders of their partitions. Shell over a `Client`.

A task keeps one producer id, its own or that of a transaction. A request that is retried because
its response was lost is recognised by its sequence numbers. One request at a time keeps the order
within a partition.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.numbering import IdempotentNumbering, Numbering
from ledgerstone.client.producer_id import ProducerId
from ledgerstone.client.rounds import PartitionAnswer
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.types import TopicPartition

_ACKS_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000


@dataclass(slots=True)
class WrittenTotals:
    records: int = 0
    bytes: int = 0


class BatchProducer:
    def __init__(self, client: Client, numbering: Numbering | None = None) -> None:
        self._client = client
        self._numbering = IdempotentNumbering(client) if numbering is None else numbering
        self.written: dict[TopicPartition, WrittenTotals] = {}

    @property
    def identity(self) -> ProducerId:
        return self._numbering.identity

    @property
    def is_transactional(self) -> bool:
        return self._numbering.transactional_id is not None

    def next_sequence(self, partition: TopicPartition) -> int:
        return self._numbering.next_sequence(partition)

    def send(
        self, batches: Mapping[TopicPartition, tuple[int, bytearray]]
    ) -> dict[TopicPartition, int]:
        """One batch per partition, with its record count, built with `next_sequence`. Returns the
        base offsets; NO_OFFSET where the leader has forgotten that of an earlier try."""
        data = {partition: batch for partition, (_, batch) in batches.items()}
        self._numbering.before(data)
        answers = self._client.ask_leaders(
            "Produce",
            data,
            self._request,
            self._read,
            ProduceResponse,
            timeout_ms=_TIMEOUT_MS,
            at_most=self._numbering.produce_at_most,
        )
        if answers.failed:
            self._numbering.failed(answers.failed)
        for partition, error in answers.failed.items():
            raise WriteFailed(f"{partition}: {error}") from error
        for partition, (count, batch) in batches.items():
            self._numbering.acknowledged(partition, count)
            total = self.written.setdefault(partition, WrittenTotals())
            total.records += count
            total.bytes += len(batch)
        return answers.done

    def _request(self, batches: Mapping[TopicPartition, bytearray]) -> ProduceRequest:
        cluster = self._client.session.cluster
        return ProduceRequest(
            transactional_id=self._numbering.transactional_id,
            acks=_ACKS_ALL,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[
                ProduceTopicData(
                    name=topic,
                    topic_id=cluster.topic_id(topic),
                    partition_data=[
                        ProducePartitionData(index=index, records=batch)
                        for index, batch in partitions.items()
                    ],
                )
                for topic, partitions in by_topic(batches).items()
            ],
        )

    def _read(self, response: ProduceResponse) -> Iterator[PartitionAnswer[int]]:
        for topic in response.responses:
            name = self._client.session.cluster.name_of(topic.name, topic.topic_id)
            for answer in topic.partition_responses if name is not None else ():
                code = answer.error_code
                if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    code = int(ErrorCode.NONE)  # in the log from a try whose answer was lost
                blame = [e.batch_index_error_message or "refused" for e in answer.record_errors]
                message = "; ".join(filter(None, [answer.error_message, *blame[:3]]))
                partition = TopicPartition(name or "", answer.index)
                yield PartitionAnswer(partition, code, answer.base_offset, message or None)
