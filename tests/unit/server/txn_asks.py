"""Requests inside transactions, and a coordinator that says what a test wants it to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransactionResult,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client
from tests.kit.logs import T0, batch
from tests.unit.server.asks import TOPIC

TXN_ID = "pay"
PRODUCER = 4000
# Of clients that speak transactions of version 1 and 2.
V1, V2 = 11, 12

OnAnswer = Callable[[AddPartitionsToTxnResponse], None]


@dataclass(slots=True)
class ScriptedCoordinator:
    """Stands where the agent of the coordinators stands. Each question takes the next of `script`;
    the last one stays. With `is_late` answers wait until `answer_all`."""

    script: list[int | Mapping[TopicPartition, int]] = field(default_factory=lambda: [0])
    error_code: int = 0
    is_late: bool = False
    asked: list[AddPartitionsToTxnRequest] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def add_partitions(self, request: AddPartitionsToTxnRequest, on_answer: OnAnswer) -> None:
        self.asked.append(request)
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        response = self._response(request, said)
        if self.is_late:
            self.waiting.append(lambda: on_answer(response))
        else:
            on_answer(response)

    def answer_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer()

    def _response(
        self, request: AddPartitionsToTxnRequest, said: int | Mapping[TopicPartition, int]
    ) -> AddPartitionsToTxnResponse:
        if self.error_code:
            return AddPartitionsToTxnResponse(error_code=self.error_code)

        def code_of(topic: str, number: int) -> int:
            return said if isinstance(said, int) else said.get(TopicPartition(topic, number), 0)

        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnTransactionResult(
                    transaction.transactional_id,
                    [
                        AddPartitionsToTxnTopicResult(
                            topic.name,
                            [
                                AddPartitionsToTxnPartitionResult(each, code_of(topic.name, each))
                                for each in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in request.transactions
            ]
        )

    def partitions_asked(self) -> list[list[TopicPartition]]:
        return [
            [
                TopicPartition(topic.name, number)
                for transaction in request.transactions
                for topic in transaction.topics
                for number in topic.partitions
            ]
            for request in self.asked
        ]


def txn_batch(
    sequence: int = 0, *, producer_id: int = PRODUCER, epoch: int = 0, timestamp: int = T0
) -> bytearray:
    return batch(
        ("key", "value"),
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def txn_produce(
    batches: Mapping[int, bytearray] | bytearray,
    *,
    transactional_id: str | None = TXN_ID,
    acks: int = -1,
) -> ProduceRequest:
    """By partition; alone, for partition 0."""
    if isinstance(batches, bytearray):
        batches = {0: batches}
    data = [ProducePartitionData(index=number, records=each) for number, each in batches.items()]
    topics = [ProduceTopicData(name=TOPIC, partition_data=data)]
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics
    )


def codes(response: ProduceResponse) -> dict[int, int]:
    return {
        each.index: each.error_code
        for topic in response.responses
        for each in topic.partition_responses
    }


def produce_in_txn(
    client: Client,
    batches: Mapping[int, bytearray] | bytearray,
    version: int = V1,
    **fields: Any,
) -> dict[int, int]:
    """Error codes by partition."""
    return codes(client.ask(txn_produce(batches, **fields), ProduceResponse, version))


def marker(
    *,
    commit: bool = True,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
    topic: str = TOPIC,
    partitions: Sequence[int] = (0,),
) -> WriteTxnMarkersRequestMarker:
    topics = [WriteTxnMarkersRequestTopic(topic, list(partitions))]
    return WriteTxnMarkersRequestMarker(
        producer_id, epoch, commit, topics, coordinator_epoch, version
    )


def marker_codes(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, int]]:
    return {
        each.producer_id: {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in each.topics
            for partition in topic.partitions
        }
        for each in response.markers
    }


def end_txn(client: Client, **fields: Any) -> int:
    """Writes one marker into one partition; its error code."""
    request = WriteTxnMarkersRequest([marker(**fields)])
    (by_partition,) = marker_codes(client.ask(request, WriteTxnMarkersResponse, 2)).values()
    (code,) = by_partition.values()
    return code


def txn_offsets(
    group: str = "g",
    offset: int = 5,
    *,
    partition: int = 0,
    topic: str = TOPIC,
    metadata: str = "",
    **fields: Any,
) -> TxnOffsetCommitRequest:
    wanted = TxnOffsetCommitRequestPartition(partition, offset, 3, metadata)
    given: dict[str, Any] = {"producer_id": PRODUCER, "producer_epoch": 0} | fields
    return TxnOffsetCommitRequest(
        transactional_id=TXN_ID,
        group_id=group,
        topics=[TxnOffsetCommitRequestTopic(topic, [wanted])],
        **given,
    )


def commit_in_txn(client: Client, *args: Any, version: int = 3, **fields: Any) -> int:
    """The error code of the one partition."""
    response = client.ask(txn_offsets(*args, **fields), TxnOffsetCommitResponse, version)
    return response.topics[0].partitions[0].error_code
