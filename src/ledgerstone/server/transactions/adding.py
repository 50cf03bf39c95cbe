"""AddPartitionsToTxn in both forms, for the handler and for the leaders of partitions. Grade D.

Up to version 3 a client adds partitions; from version 4 on brokers add and verify them for several
transactions at once. Whichever: if one partition cannot be added, none of the transaction is.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ledgerstone.coordinator.transactions.metadata import EPOCH_PER_TRANSACTION
from ledgerstone.coordinator.transactions.turn import Decided, ProducerRef
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    AddPartitionsToTxnTransactionResult,
)
from ledgerstone.types import TopicPartition

OnAnswer = Callable[[AddPartitionsToTxnResponse], None]
Codes = Mapping[TopicPartition, int]


class Coordinates(Protocol):
    """The transaction coordinators of this broker."""

    @property
    def image(self) -> Callable[[], MetadataImage]: ...

    def add(
        self,
        producer: ProducerRef,
        partitions: Sequence[TopicPartition],
        client_version: int,
        on_decided: Callable[[Decided], None],
    ) -> None: ...

    def verify(self, producer: ProducerRef, partitions: Sequence[TopicPartition]) -> Codes: ...


def partitions_of(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    named = (TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)
    return list(dict.fromkeys(named))


def refused_partitions(
    partitions: Sequence[TopicPartition], image: MetadataImage, *, by_client: bool
) -> Codes | None:
    """The codes of all partitions where one of them cannot be added; None where all can."""
    refused = {}
    for each in partitions:
        if by_client and each.topic in INTERNAL_TOPICS:
            refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(*each) is None:
            refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not refused:
        return None
    return {each: refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}


def topic_results(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, number), code in codes.items():
        result = topics.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic))
        result.results_by_partition.append(AddPartitionsToTxnPartitionResult(number, code))
    return list(topics.values())


def add_partitions(
    transactions: Coordinates, request: AddPartitionsToTxnRequest, on_answer: OnAnswer
) -> None:
    """The form of version 4: adds, or verifies, for each of the request's transactions."""
    waiting = _Waiting(on_answer, [None] * len(request.transactions))
    for index, each in enumerate(request.transactions):
        _one(transactions, each, partial(waiting.answered, index))
    waiting.answer_if_complete()


def _one(
    transactions: Coordinates,
    asked: AddPartitionsToTxnTransaction,
    on_codes: Callable[[Codes, str], None],
) -> None:
    partitions = partitions_of(asked.topics)
    producer = ProducerRef(asked.transactional_id, asked.producer_id, asked.producer_epoch)
    refused = refused_partitions(partitions, transactions.image(), by_client=False)
    if refused is not None:
        on_codes(refused, asked.transactional_id)
    elif asked.verify_only:
        on_codes(transactions.verify(producer, partitions), asked.transactional_id)
    else:

        def decided(answer: Decided) -> None:
            on_codes(dict.fromkeys(partitions, answer.error_code), asked.transactional_id)

        transactions.add(producer, partitions, EPOCH_PER_TRANSACTION, decided)


@dataclass(slots=True)
class _Waiting:
    """A request until all of its transactions are answered, in whatever turns."""

    on_answer: OnAnswer
    results: list[AddPartitionsToTxnTransactionResult | None] = field(default_factory=list)
    is_asked: bool = False

    def answered(self, index: int, codes: Codes, transactional_id: str) -> None:
        self.results[index] = AddPartitionsToTxnTransactionResult(
            transactional_id=transactional_id, topic_results=topic_results(codes)
        )
        if self.is_asked:
            self._answer()

    def answer_if_complete(self) -> None:
        """Every transaction has been asked about."""
        self.is_asked = True
        self._answer()

    def _answer(self) -> None:
        results = [each for each in self.results if each is not None]
        if len(results) == len(self.results):
            self.on_answer(AddPartitionsToTxnResponse(results_by_transaction=results))
