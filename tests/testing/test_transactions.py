"""Transactions of tests: real producers, a real coordinator, and a clock that a test moves."""

import pytest

from ledgerstone.client.txn_errors import TransactionError
from ledgerstone.testing.broker import LedgerstoneBroker

MINUTE_MS = 60_000


def keys(broker: LedgerstoneBroker, topic: str) -> list[bytes | None]:
    return [each.key for each in broker.records(topic)]


def test_transaction_is_seen_when_it_is_committed(ledgerstone: LedgerstoneBroker) -> None:
    topic = ledgerstone.topic("users", partitions=2)

    with ledgerstone.begin("copier") as open_txn:
        open_txn.produce(topic, "a", "1", partition=0)
        open_txn.produce(topic, "b", "2", partition=1)
        before = keys(ledgerstone, topic)

    assert before == []
    assert keys(ledgerstone, topic) == [b"a", b"b"]


def test_transaction_that_an_exception_leaves_is_aborted(ledgerstone: LedgerstoneBroker) -> None:
    topic = ledgerstone.topic("users")

    def fail() -> None:
        with ledgerstone.begin("copier") as open_txn:
            open_txn.produce(topic, "a", "1")
            raise RuntimeError("the test goes wrong")

    with pytest.raises(RuntimeError):
        fail()

    assert keys(ledgerstone, topic) == []
    assert len(ledgerstone.records(topic, read_uncommitted=True)) == 1


def test_fenced_producer_can_neither_write_nor_commit(ledgerstone: LedgerstoneBroker) -> None:
    topic = ledgerstone.topic("users")
    zombie = ledgerstone.begin("copier")
    zombie.produce(topic, "a", "1")

    ledgerstone.fence("copier")

    with pytest.raises(TransactionError):
        zombie.commit()
    assert keys(ledgerstone, topic) == []


def test_offsets_are_committed_with_the_transaction(ledgerstone: LedgerstoneBroker) -> None:
    topic = ledgerstone.topic("users")
    aborted = ledgerstone.begin("copier")
    aborted.send_offsets("readers", {(topic, 0): 7})
    aborted.abort()
    after_abort = ledgerstone.groups

    with ledgerstone.begin("copier") as open_txn:
        open_txn.send_offsets("readers", {(topic, 0): 9})

    assert not any(each.committed for each in after_abort.values())
    assert list(ledgerstone.groups["readers"].committed.values()) == [9]


def test_transaction_left_open_ends_when_its_time_is_up(ledgerstone: LedgerstoneBroker) -> None:
    topic = ledgerstone.topic("users", compacted=True)
    ledgerstone.produce(topic, "a", "1")
    abandoned = ledgerstone.begin("copier", timeout_ms=MINUTE_MS)
    abandoned.tombstone(topic, "a")

    ledgerstone.clock.advance(minutes=2)
    ledgerstone.await_transactions()
    ledgerstone.produce(topic, "b", "2")
    ledgerstone.finish_deletes(topic)

    ledgerstone.assert_state(topic, {"a": "1", "b": "2"})


def test_erasure_waits_for_an_open_transaction_or_ends_it(ledgerstone: LedgerstoneBroker) -> None:
    topic = ledgerstone.topic("users", compacted=True)
    ledgerstone.produce(topic, "alice", "1")
    blocking = ledgerstone.begin("copier")
    blocking.produce(topic, "bob", "2")

    why = ledgerstone.api.get(f"topics/{topic}/cleaning")["partitions"][0]
    ledgerstone.erase(topic, "alice", abort_open=True)
    (erasure,) = ledgerstone.api.get("erasures")["erasures"]

    (gate,) = [each for each in why["gates"] if each["name"] == "undecided"]
    assert "transactional id copier (producer " in gate["text"]
    assert [each["first_offset"] for each in erasure["aborted_transactions"]] == [1]
    ledgerstone.assert_gone(topic, "alice")
    with pytest.raises(TransactionError):
        blocking.commit()
