"""What strangers can make the coordinator hold is counted, is what it costs, and ends at limits."""

import gc
import tracemalloc

import pytest

from ledgerstone.coordinator.transactions.memory import TransactionMemory
from ledgerstone.coordinator.transactions.shard import TransactionShard
from ledgerstone.coordinator.transactions.turn import (
    Decided,
    ProducerRef,
    TransactionConfig,
    TxnOutcome,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.types import TopicPartition
from tests.unit.coordinator.transactions.desk import FOO_0, FOO_1, T0, TIMEOUT_MS, Desk


def test_an_id_too_many_is_refused() -> None:
    small = Desk(TransactionConfig(ledgerstone_transactions_max_bytes=2500))
    small.init("a")
    small.init("b")

    assert small.init("c").error_code == ErrorCode.POLICY_VIOLATION
    assert small.ids == ["a", "b"]
    refusal = small.shard.table.memory.refusal
    assert refusal is not None
    assert refusal.startswith("ledgerstone.transactions.max.bytes=2500: ")
    assert small.init("a").error_code == 0


def test_partitions_too_many_are_refused_and_the_transaction_can_be_ended() -> None:
    small = Desk(TransactionConfig(ledgerstone_transaction_max_bytes=10_000))
    small.init()
    assert small.add(FOO_0) == 0

    many = [TopicPartition("foo", number) for number in range(100)]

    assert small.add(*many) == ErrorCode.POLICY_VIOLATION
    assert small.add(FOO_1) == 0
    assert small.end(commit=True) == Decided(0)
    assert small.shard.table.memory.held_bytes == small.of().counted_bytes


def test_what_is_replayed_is_counted_and_not_refused() -> None:
    large = Desk()
    for number in range(20):
        large.init(f"id-{number}")

    small = Desk(TransactionConfig(ledgerstone_transactions_max_bytes=2500), log=large.log)

    assert len(small.ids) == 20
    small.shard.release()
    assert small.shard.table.memory.held_bytes == 0


@pytest.mark.parametrize("partitions", [0, 1, 100])
def test_what_is_counted_is_at_least_what_it_costs(partitions: int) -> None:
    shard = TransactionShard(TransactionConfig(), TransactionMemory(TransactionConfig()), 2)

    def settle(outcome: TxnOutcome) -> None:
        assert outcome.answers[0].decided.error_code == 0
        shard.committed(outcome)

    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(300):
            name = f"transactional-id-{number}"
            settle(
                shard.init_producer_id(
                    name, TIMEOUT_MS, None, None, now_ms=T0 + number, fresh_producer_id=number
                )
            )
            # As the wire decodes them: a topic's name of its own for each partition.
            added = [TopicPartition(f"topic-{each}-{number}", each) for each in range(partitions)]
            producer = ProducerRef(name, number, 0)
            if added:
                settle(shard.add_partitions(producer, added, 2, None, now_ms=T0 + number))
        del added
        gc.collect()
        cost = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    counted = shard.table.memory.held_bytes
    assert counted >= cost, f"{counted} counted, {cost} in use"
    assert counted < 2 * cost, f"{counted} counted, {cost} in use"
