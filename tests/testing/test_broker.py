"""The broker's methods in a test: what they do, and what failed assertions say."""

import json
from datetime import timedelta
from typing import Any

import pytest

from ledgerstone.errors import KafkaError, UnknownTopicOrPartition
from ledgerstone.testing.broker import LedgerstoneBroker
from ledgerstone.testing.local_api import CallRefused
from ledgerstone.testing.passes import CompactionFailed


def test_records_come_back_as_they_were_written(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", partitions=2)

    placed = ledgerstone.produce("users", "alice", "1", headers={"h": b"x"}, partition=1)
    ledgerstone.tombstone("users", b"alice", partition=1)
    first, second = ledgerstone.records("users")

    assert placed == (1, 0)
    partition, offset = ledgerstone.produce("users", "bob", "2", headers={"h": "x"}, partition=0)
    assert (partition, offset) == (0, 0)
    assert ledgerstone.produce_batch("users", [("c", "3"), ("d", "4")], partition=0) == [
        (0, 1),
        (0, 2),
    ]
    assert (first.partition, first.offset, first.key, first.value) == (1, 0, b"alice", b"1")
    assert first.headers == (("h", b"x"),)
    assert (first.is_tombstone, second.is_tombstone) == (False, True)


def test_what_is_neither_bytes_nor_text_is_refused_with_what_to_do(
    ledgerstone: LedgerstoneBroker,
) -> None:
    ledgerstone.topic("users", compacted=True)
    seven: Any = 7
    for use in (
        lambda: ledgerstone.produce("users", seven, "1"),
        lambda: ledgerstone.produce("users", "a", seven),
        lambda: ledgerstone.produce("users", "a", "1", headers={"h": seven}),
        lambda: ledgerstone.produce_batch("users", [(seven, "1")]),
        lambda: ledgerstone.tombstone("users", seven),
        lambda: ledgerstone.transaction("users", [(seven, "1")]),
        lambda: ledgerstone.where("users", seven),
        lambda: ledgerstone.erase("users", seven),
        lambda: ledgerstone.assert_gone("users", seven),
        lambda: ledgerstone.assert_deleted("users", seven),
        lambda: ledgerstone.assert_state("users", {seven: "1"}),
    ):
        with pytest.raises(TypeError, match="bytes or str, not int: 7; encode it first"):
            use()
    assert ledgerstone.records("users") == []


def test_refusal_of_the_broker_is_raised(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True)

    with pytest.raises(KafkaError, match="key"):
        ledgerstone.produce("users", None, "a compacted topic takes no record without a key")
    with pytest.raises(UnknownTopicOrPartition):
        ledgerstone.records("nowhere")


def test_topic_settings_are_written_with_underscores(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True, delete_retention_ms=5, preallocate=False)

    config = ledgerstone.on_the_loop(
        lambda running: running.broker.partition_of("users", 0).log.config
    )

    assert (config.compacts, config.delete_retention_ms) == (True, 5)


def test_deleted_key_is_gone_after_two_passes_and_the_time_between(
    ledgerstone: LedgerstoneBroker,
) -> None:
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "alice", "1")
    ledgerstone.produce("users", "bob", "2")
    ledgerstone.tombstone("users", "alice")

    (first,) = ledgerstone.compact("users")
    ledgerstone.clock.advance(hours=25)
    ledgerstone.await_compaction("users")

    assert (first.superseded, first.tombstones_stamped) == (1, 1)
    ledgerstone.assert_gone("users", "alice")
    ledgerstone.assert_deleted("users", "alice")
    ledgerstone.assert_state("users", {"bob": "2"})


def test_finish_deletes_does_it_all(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True, partitions=2)
    for partition in (0, 1):
        ledgerstone.produce("users", "alice", "1", partition=partition)
        ledgerstone.tombstone("users", "alice", partition=partition)

    ledgerstone.finish_deletes("users")

    ledgerstone.assert_gone("users", "alice")


def test_assert_gone_says_where_the_key_is_and_what_keeps_it(
    ledgerstone: LedgerstoneBroker,
) -> None:
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "alice", "1")
    ledgerstone.tombstone("users", "alice")
    ledgerstone.compact("users")

    with pytest.raises(AssertionError) as failure:
        ledgerstone.assert_gone("users", "alice")

    text = str(failure.value)
    assert "users still holds b'alice', 1 times" in text
    assert "users-0 offset 1: tombstone, in 00000000000000000000.log" in text
    assert "delete.retention.ms=86400000" in text


def test_files_that_wait_for_their_end_are_not_gone(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True, file_delete_delay_ms=60_000)
    ledgerstone.produce("users", "alice", "1")
    ledgerstone.tombstone("users", "alice")
    # One pass: a second would not let the first one's files wait to their end.
    ledgerstone.compact("users")

    with pytest.raises(AssertionError, match=r"\.log\.deleted"):
        ledgerstone.assert_gone("users", "alice")
    ledgerstone.clock.advance(days=2)
    ledgerstone.await_compaction("users")
    ledgerstone.clock.advance(minutes=2)
    ledgerstone.await_compaction("users")

    ledgerstone.assert_gone("users", "alice")


def test_assert_deleted_finds_the_tombstone_that_went_astray(
    ledgerstone: LedgerstoneBroker,
) -> None:
    ledgerstone.topic("users", compacted=True, partitions=2)
    ledgerstone.produce("users", "alice", "1", partition=0)
    ledgerstone.tombstone("users", "alice", partition=1)

    with pytest.raises(AssertionError) as failure:
        ledgerstone.assert_deleted("users", "alice")

    assert "users-0 offset 0: b'1'" in str(failure.value)
    assert "its tombstone is in partition 1" in str(failure.value)


def test_assert_state_names_each_key_that_differs(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users")
    for key in ("a", "b"):
        ledgerstone.produce("users", key, "1")

    with pytest.raises(AssertionError) as failure:
        ledgerstone.assert_state("users", {"b": "2", "c": "3"})

    assert str(failure.value).splitlines()[1:] == [
        "  b'a' should not be there, found b'1'",
        "  b'b' has b'1', expected b'2'",
        "  b'c' is missing, expected b'3'",
    ]


def test_key_that_lives_in_two_partitions_has_no_one_value(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", partitions=2)
    ledgerstone.produce("users", "a", "1", partition=0)
    ledgerstone.produce("users", "a", "2", partition=1)

    with pytest.raises(ValueError, match="live in partitions 0 and 1"):
        ledgerstone.state("users")

    assert ledgerstone.state("users", partition=1) == {b"a": b"2"}


def test_pass_that_cannot_come_says_so(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("empty", compacted=True)
    ledgerstone.topic("plain")

    (result,) = ledgerstone.compact("empty")

    assert result.refusal == "the log is empty"
    with pytest.raises(CallRefused, match=r"cleanup\.policy"):
        ledgerstone.compact("plain")


def test_pass_that_fails_is_told_with_its_reason(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "a", "1")
    (log,) = (ledgerstone.directory / "users-0").glob("*.log")
    data = log.read_bytes()
    log.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    with pytest.raises(CompactionFailed, match="users-0 was failed"):
        ledgerstone.compact("users")


def test_log_that_is_dirty_enough_is_compacted_by_itself(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True, segment_bytes=1024, min_cleanable_dirty_ratio=0.1)
    for number in range(60):
        ledgerstone.produce("users", "a", f"{number:050}")

    ledgerstone.await_compaction("users")

    assert len(ledgerstone.records("users")) < 60
    assert ledgerstone.state("users") == {b"a": f"{59:050}".encode()}


def test_transaction_is_seen_as_it_was_decided(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users")
    ledgerstone.transaction("users", [("a", "1"), ("b", "2")])
    ledgerstone.transaction("users", [("a", None)], commit=False)

    assert ledgerstone.state("users") == {b"a": b"1", b"b": b"2"}
    assert len(ledgerstone.records("users", read_uncommitted=True)) == 3


def test_batch_is_compressed_as_asked(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users")

    ledgerstone.produce_batch("users", [("a", "1" * 5000), ("b", None)], codec="zstd")

    assert (ledgerstone.directory / "users-0" / f"{0:020}.log").stat().st_size < 500
    assert ledgerstone.state("users") == {b"a": b"1" * 5000}


def test_erasure_comes_with_a_receipt(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "alice", "1")
    ledgerstone.produce("users", "bob", "2")
    before = ledgerstone.clock.now

    receipt = ledgerstone.erase("users", "alice", "asked for")

    assert "alice" not in json.dumps(receipt)
    assert ledgerstone.clock.now - before > timedelta(hours=24)
    ledgerstone.assert_gone("users", "alice")
    ledgerstone.assert_state("users", {"bob": "2"})


def test_erasure_of_a_key_that_is_nowhere_fails(ledgerstone: LedgerstoneBroker) -> None:
    ledgerstone.topic("users", compacted=True)
    ledgerstone.produce("users", "bob", "2")

    with pytest.raises(AssertionError, match="not_found"):
        ledgerstone.erase("users", "alice")


def test_clock_moves_ahead_only(ledgerstone: LedgerstoneBroker) -> None:
    before = ledgerstone.clock.now

    after = ledgerstone.clock.advance(days=1, hours=1)

    assert timedelta(hours=25) <= after - before < timedelta(hours=26)
    with pytest.raises(ValueError, match="time does not go back"):
        ledgerstone.clock.advance(hours=-1)


def test_records_written_after_an_advance_carry_the_later_time(
    ledgerstone: LedgerstoneBroker,
) -> None:
    ledgerstone.topic("users")
    ledgerstone.produce("users", "a", "1")
    ledgerstone.clock.advance(days=3)
    ledgerstone.produce("users", "a", "2")

    first, second = ledgerstone.records("users")

    assert second.timestamp_ms - first.timestamp_ms >= 3 * 86_400_000
