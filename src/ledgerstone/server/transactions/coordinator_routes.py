"""AddPartitionsToTxn on its way to the coordinator of a transaction. Grade D.

The leader of a partition asks before it writes the first batch of a transaction (KIP-890). The
coordinator may be this broker or another; questions to another are gathered per broker. Several
about one transaction become one, since an answer tells transactions apart by their ids. When the
coordinator moves, questions end with NOT_COORDINATOR: the producer repeats its request, and the
new coordinator is asked.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ledgerstone.coordinator.transactions.transaction_records import by_topic
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.topic_names import TRANSACTION_STATE
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    AddPartitionsToTxnTransactionResult,
)
from ledgerstone.server.broker_queues import BrokerQueues, peer_of
from ledgerstone.server.calls import CallFailed
from ledgerstone.server.controller_channel import AsksNodes
from ledgerstone.server.effects import Effect
from ledgerstone.server.results import Result
from ledgerstone.server.transactions.adding import OnAnswer, partitions_of, topic_results
from ledgerstone.types import TopicPartition

# The first one that brokers send.
_LEAST_VERSION: Final = 4
# Of transactions in one request.
_MAX_BATCH: Final = 1000


class CoordinatesHere(Protocol):
    """The agent of the transaction coordinators of this broker."""

    def add_partitions(self, request: AddPartitionsToTxnRequest, on_answer: OnAnswer) -> None: ...


class NumbersIds(Protocol):
    def number_for(self, transactional_id: str) -> int:
        """The id's partition of __transaction_state; NotCoordinator before there is a topic."""
        ...


@dataclass(slots=True, eq=False)
class _Errand:
    asked: AddPartitionsToTxnTransaction
    number: int
    on_answer: OnAnswer
    is_over: bool = False

    @property
    def key(self) -> tuple[str, int, int, bool]:
        """Questions of one key can be asked as one."""
        asked = self.asked
        return (
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            asked.verify_only,
        )

    def answer(self, response: AddPartitionsToTxnResponse) -> None:
        if not self.is_over:
            self.is_over = True
            self.on_answer(response)

    def refuse(self, code: int) -> None:
        self.answer(_refusal(self.asked, code))


@dataclass(slots=True, kw_only=True)
class CoordinatorRoutes:
    """An agent (`server.agent`)."""

    node_id: int
    listener: str | None  # of brokers
    image: Callable[[], MetadataImage]  # the newest
    topic: NumbersIds
    here: CoordinatesHere
    calls: AsksNodes
    _queues: BrokerQueues[_Errand] = field(init=False)

    def __post_init__(self) -> None:
        self._queues = BrokerQueues(
            self.calls, take_batch=_take_batch, on_answer=_answered, least_version=_LEAST_VERSION
        )

    def add_partitions(self, request: AddPartitionsToTxnRequest, on_answer: OnAnswer) -> None:
        """One transaction. Answers in this turn or in a later one."""
        (asked,) = request.transactions
        try:
            number = self.topic.number_for(asked.transactional_id)
        except KafkaError as error:
            on_answer(_refusal(asked, error.code))
            return
        leader = self._leader_of(number)
        if leader == self.node_id:
            self.here.add_partitions(request, on_answer)
            return
        peer = peer_of(self.image(), leader, self.listener)
        if peer is None:
            on_answer(_refusal(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._queues.put(peer, _Errand(asked, number, on_answer))

    def _leader_of(self, number: int) -> int:
        state = self.image().partition(TRANSACTION_STATE, number)
        return NO_LEADER if state is None else state.leader

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return None

    def tick(self) -> list[Effect]:
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"coordinator routes asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        for node_id, errand in list(self._queues):
            if self._leader_of(errand.number) != node_id:
                errand.refuse(ErrorCode.NOT_COORDINATOR)
        return []


def _take_batch(waiting: deque[_Errand]) -> tuple[list[_Errand], ApiMessage]:
    """An id comes once in a request; what differs in producer or purpose waits for the next."""
    taken: dict[str, list[_Errand]] = {}
    later: list[_Errand] = []
    while waiting and len(taken) < _MAX_BATCH:
        errand = waiting.popleft()
        if errand.is_over:
            continue
        same = taken.setdefault(errand.asked.transactional_id, [])
        if same and same[0].key != errand.key:
            later.append(errand)
        else:
            same.append(errand)
    waiting.extendleft(reversed(later))
    request = AddPartitionsToTxnRequest(transactions=[_merged(each) for each in taken.values()])
    return [errand for errands in taken.values() for errand in errands], request


def _merged(errands: Sequence[_Errand]) -> AddPartitionsToTxnTransaction:
    partitions = [tp for errand in errands for tp in partitions_of(errand.asked.topics)]
    topics = [
        AddPartitionsToTxnTopic(name=topic, partitions=numbers)
        for topic, numbers in by_topic(dict.fromkeys(partitions)).items()
    ]
    return replace(errands[0].asked, topics=topics)


def _answered(errands: Sequence[_Errand], answer: ApiMessage | CallFailed) -> None:
    if isinstance(answer, CallFailed):
        for errand in errands:
            errand.refuse(ErrorCode.NETWORK_EXCEPTION)
        return
    assert isinstance(answer, AddPartitionsToTxnResponse)
    if answer.error_code:
        for errand in errands:
            errand.refuse(answer.error_code)
        return
    codes = {
        (result.transactional_id, TopicPartition(topic.name, each.partition_index)): (
            each.partition_error_code
        )
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for each in topic.results_by_partition
    }
    # A coordinator that leaves something out has not allowed it.
    failed = ErrorCode.NETWORK_EXCEPTION
    for errand in errands:
        asked, transactional_id = errand.asked, errand.asked.transactional_id
        partitions = partitions_of(asked.topics)
        own = {each: codes.get((transactional_id, each), failed) for each in partitions}
        errand.answer(_response(transactional_id, own))


def _refusal(asked: AddPartitionsToTxnTransaction, code: int) -> AddPartitionsToTxnResponse:
    codes = dict.fromkeys(partitions_of(asked.topics), code)
    return _response(asked.transactional_id, codes)


def _response(
    transactional_id: str, codes: dict[TopicPartition, int]
) -> AddPartitionsToTxnResponse:
    result = AddPartitionsToTxnTransactionResult(
        transactional_id=transactional_id, topic_results=topic_results(codes)
    )
    return AddPartitionsToTxnResponse(results_by_transaction=[result])
