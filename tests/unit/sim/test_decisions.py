"""How a transaction ended, as read from the bytes of its logs."""

import struct

from ledgerstone.coordinator.group_records import offset_record
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.protocol.codec import encode
from ledgerstone.protocol.messages.txn_records import (
    TransactionLogKey,
    TransactionLogTransactionPartition,
    TransactionLogValue,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.sim.decisions import Fate, PartitionFates, TxnStatus, commits_in, decide, states_in
from ledgerstone.types import TopicPartition

A, B = 7, 8


def data(offset: int, serials: list[int], producer_id: int, *, transactional: bool = True) -> bytes:
    records = [(0, b"k", b"v", (("s", b"%d" % serial),)) for serial in serials]
    return bytes(
        build_batch(
            records,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    return bytes(
        end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=offset,
        )
    )


def fates(decided: PartitionFates) -> dict[int, Fate]:
    return {entry.serial: entry.fate for entry in decided.entries}


def test_a_marker_decides_what_lies_before_it_and_nothing_after() -> None:
    log = [data(0, [1, 2], A), marker(2, A, commit=True), data(3, [3], A)]
    found = decide(iter(log))
    assert fates(found) == {1: Fate.COMMITTED, 2: Fate.COMMITTED, 3: Fate.OPEN}
    assert found.open == {A: 3}
    assert found.first_open_offset == 3


def test_transactions_that_interleave_are_told_apart() -> None:
    log = [data(0, [1], A), data(1, [2], B), marker(2, B, commit=False), marker(3, A, commit=True)]
    assert fates(decide(iter(log))) == {1: Fate.COMMITTED, 2: Fate.ABORTED}


def test_a_marker_above_the_end_does_not_count() -> None:
    log = [data(0, [1], A), marker(1, A, commit=True)]
    assert fates(decide(iter(log), below=1)) == {1: Fate.OPEN}


def test_a_record_outside_of_transactions_is_committed() -> None:
    assert fates(decide(iter([data(0, [1], A, transactional=False)]))) == {1: Fate.COMMITTED}


def test_an_offset_commit_names_its_attempt() -> None:
    tp = TopicPartition("input", 1)
    key, value = offset_record("g", tp, CommittedOffset(5, -1, "17", 0))
    batch = bytes(
        build_batch(
            [(0, key, value, ())],
            base_offset=0,
            producer_id=A,
            producer_epoch=0,
            transactional=True,
        )
    )
    (commit,) = commits_in(decide(iter([batch, marker(1, A, commit=False)])))
    assert (commit.group, commit.topic_partition, commit.position) == ("g", tp, 5)
    assert commit.metadata == "17"
    assert commit.entry.fate is Fate.ABORTED


def state_record(state: TxnStatus, *, offset: int = 0, topic: str = "output") -> bytes:
    """Of the transactional id `t`, with two partitions."""
    value = TransactionLogValue(
        producer_id=A,
        producer_epoch=3,
        transaction_timeout_ms=1000,
        transaction_status=state,
        transaction_partitions=[
            TransactionLogTransactionPartition(topic=topic, partition_ids=[0, 1])
        ],
    )
    key = TransactionLogKey(transactional_id="t")
    parts = [b"".join(encode(each, 0)) for each in (key, value)]  # type: ignore[arg-type]
    version = struct.pack(">h", 0)
    record = (0, version + parts[0], version + parts[1], ())
    return bytes(build_batch([record], base_offset=offset))


def test_the_last_state_of_a_transactional_id_counts() -> None:
    log = [state_record(TxnStatus.ONGOING), state_record(TxnStatus.PREPARE_COMMIT, offset=1)]
    found = states_in(decide(iter(log)))
    assert found["t"].state is TxnStatus.PREPARE_COMMIT
    assert found["t"].partitions == (TopicPartition("output", 0), TopicPartition("output", 1))
