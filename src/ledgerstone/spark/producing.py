"""Sends finished batches to the leaders of their partitions. Shell over a `Client`.

A task keeps one producer id: a request that is retried because its response was lost is recognised
by its sequence numbers. One request at a time keeps the order within a partition.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import check
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.rounds import PartitionAnswer
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.batch import increment_sequence
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.spark.outgoing import ProducerId
from ledgerstone.types import TopicPartition

_ACKS_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000


@dataclass(slots=True)
class WrittenTotals:
    records: int = 0
    bytes: int = 0


class BatchProducer:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._sequences: dict[TopicPartition, int] = {}
        self.written: dict[TopicPartition, WrittenTotals] = {}
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS)
        response = client.call(request, InitProducerIdResponse)
        check(response.error_code, "a producer id")
        self.identity = ProducerId(response.producer_id, response.producer_epoch)

    def next_sequence(self, partition: TopicPartition) -> int:
        return self._sequences.get(partition, 0)

    def send(self, batches: Mapping[TopicPartition, tuple[int, bytearray]]) -> None:
        """One batch per partition, with its record count, built with `next_sequence`."""
        data = {partition: batch for partition, (_, batch) in batches.items()}
        answers = self._client.ask_leaders(
            "Produce", data, self._request, _read, ProduceResponse, timeout_ms=_TIMEOUT_MS
        )
        for partition, error in answers.failed.items():
            raise WriteFailed(f"{partition}: {error}") from error
        for partition, (count, batch) in batches.items():
            sequence = self.next_sequence(partition)
            self._sequences[partition] = increment_sequence(sequence, count)
            total = self.written.setdefault(partition, WrittenTotals())
            total.records += count
            total.bytes += len(batch)

    def _request(self, batches: Mapping[TopicPartition, bytearray]) -> ProduceRequest:
        cluster = self._client.session.cluster
        return ProduceRequest(
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


def _read(response: ProduceResponse) -> Iterator[PartitionAnswer[None]]:
    for topic in response.responses:
        for answer in topic.partition_responses:
            code = answer.error_code
            if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                code = int(ErrorCode.NONE)  # in the log from a try whose answer was lost
            partition = TopicPartition(topic.name, answer.index)
            blame = [each.batch_index_error_message or "refused" for each in answer.record_errors]
            message = "; ".join(filter(None, [answer.error_message, *blame[:3]]))
            yield PartitionAnswer(partition, code, None, message or None)
