"""Asks the coordinator of a transaction before its first batch is written here. Grade D.

KIP-890: a leader takes the first batch of a transaction only if the coordinator knows that the
partition belongs to it. Older requests are verified: their clients have added the partition
themselves. Newer ones (Produce 12, TxnOffsetCommit 5) have it added now. The answer comes in this
turn or in a later one; `storage.verification` says why each question needs a guard.

A new transaction may begin before the markers of the last one are written. Clients of version 2
meet that all the time, so the leader asks again for them, every `add.partitions.to.txn.retry.
backoff.ms`, and saves them a round trip with all of their records.
"""

import enum
import heapq
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from ledgerstone.clock import Clock
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ledgerstone.replication.partition import Partition
from ledgerstone.server.effects import Effect
from ledgerstone.server.results import Result
from ledgerstone.storage.verification import TxnTerms, VerificationGuard
from ledgerstone.types import TopicPartition


class AddsPartitions(Protocol):
    """The agent of the transaction coordinators."""

    def add_partitions(
        self,
        request: AddPartitionsToTxnRequest,
        on_answer: Callable[[AddPartitionsToTxnResponse], None],
    ) -> None:
        """The form of version 4 and later. Answers in this turn or in a later one."""
        ...


class GetsPartition(Protocol):
    def get(self, topic_partition: TopicPartition) -> Partition: ...


class TxnSupport(enum.Enum):
    """What a client understands, by the version of its request."""

    OLD_ERRORS = "INVALID_TXN_STATE, where newer clients are told to abort"
    ABORTABLE_ERRORS = "TRANSACTION_ABORTABLE"
    ADDS_PARTITIONS = "transactions of version 2: partitions are added when they are written to"


class TxnQuestion(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequences: Mapping[TopicPartition, int]  # the first of each partition
    support: TxnSupport


class Verified(NamedTuple):
    """Partitions without an error may be written to, on the terms of `terms_for`."""

    errors: Mapping[TopicPartition, int]
    guards: Mapping[TopicPartition, VerificationGuard]
    must_be_verified: bool

    def terms_for(self, topic_partition: TopicPartition) -> TxnTerms:
        return TxnTerms(self.guards.get(topic_partition), self.must_be_verified)


OnVerified = Callable[[Verified], None]


@dataclass(slots=True)
class _Asking:
    question: TxnQuestion
    on_verified: OnVerified
    give_up_ms: int  # no retry from then on


@dataclass(slots=True)
class TxnVerification:
    """An agent (`server.agent`)."""

    config: BrokerConfig
    clock: Clock
    partitions: GetsPartition
    coordinator: AddsPartitions
    # Questions to be asked again: when, a number that tells equal times apart, which.
    _retries: list[tuple[int, int, _Asking]] = field(default_factory=list)
    _next_number: int = 0

    def verify(
        self, question: TxnQuestion, on_verified: OnVerified, *, retries: bool = False
    ) -> None:
        """Asks about every partition of the question that has no data of the transaction yet."""
        retry_ms = self.config.add_partitions_to_txn_retry_backoff_max_ms if retries else 0
        self._ask(_Asking(question, on_verified, self.clock.monotonic_ms() + retry_ms))

    def _ask(self, asking: _Asking) -> None:
        question, enabled = asking.question, self.config.transaction_partition_verification_enable
        adds = question.support is TxnSupport.ADDS_PARTITIONS
        if not adds and not enabled:
            asking.on_verified(Verified({}, {}, must_be_verified=False))
            return
        errors: dict[TopicPartition, int] = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for topic_partition, sequence in question.sequences.items():
            try:
                guard = self.partitions.get(topic_partition).start_verification(
                    question.producer_id,
                    question.producer_epoch,
                    sequence,
                    supports_epoch_bump=adds,
                )
            except KafkaError as error:
                errors[topic_partition] = error.code
            else:
                if guard is not None:
                    guards[topic_partition] = guard
        if not guards:
            asking.on_verified(Verified(errors, {}, must_be_verified=enabled))
        else:
            self.coordinator.add_partitions(
                _request(question, list(guards)),
                lambda response: self._answered(
                    asking,
                    Verified(errors | _errors_in(response, question, guards), guards, enabled),
                ),
            )

    def _answered(self, asking: _Asking, verified: Verified) -> None:
        is_concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in verified.errors.values()
        now_ms = self.clock.monotonic_ms()
        if not is_concurrent or now_ms >= asking.give_up_ms:
            asking.on_verified(verified)
            return
        due_ms = now_ms + self.config.add_partitions_to_txn_retry_backoff_ms
        self._next_number += 1
        heapq.heappush(self._retries, (due_ms, self._next_number, asking))

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return self._retries[0][0] if self._retries else None

    def tick(self) -> list[Effect]:
        now_ms = self.clock.monotonic_ms()
        due = []
        while self._retries and self._retries[0][0] <= now_ms:
            due.append(heapq.heappop(self._retries)[2])
        for asking in due:
            self._ask(asking)
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"verification asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []


def _request(
    question: TxnQuestion, topic_partitions: list[TopicPartition]
) -> AddPartitionsToTxnRequest:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, partition in topic_partitions:
        if topic not in topics:
            topics[topic] = AddPartitionsToTxnTopic(name=topic)
        topics[topic].partitions.append(partition)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=question.support is not TxnSupport.ADDS_PARTITIONS,
                topics=list(topics.values()),
            )
        ]
    )


# What a coordinator says to brokers, and what clients may hear of it.
_FOR_CLIENTS: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}


def _errors_in(
    response: AddPartitionsToTxnResponse,
    question: TxnQuestion,
    asked: Mapping[TopicPartition, VerificationGuard],
) -> dict[TopicPartition, int]:
    if response.error_code:
        code = _FOR_CLIENTS.get(ErrorCode(response.error_code), response.error_code)
        return dict.fromkeys(asked, code)
    for_clients = dict(_FOR_CLIENTS)
    if question.support is TxnSupport.OLD_ERRORS:
        for_clients[ErrorCode.TRANSACTION_ABORTABLE] = ErrorCode.INVALID_TXN_STATE
    errors: dict[TopicPartition, int] = {}
    for transaction in response.results_by_transaction:
        for topic in transaction.topic_results:
            for each in topic.results_by_partition:
                code = each.partition_error_code
                if code:
                    topic_partition = TopicPartition(topic.name, each.partition_index)
                    errors[topic_partition] = for_clients.get(ErrorCode(code), code)
    return errors
