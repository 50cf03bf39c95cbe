"""Idempotent and transactional producers: duplicates, sequences, epochs, markers."""

import pytest

from ledgerstone.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import empty_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.types import INT32_MAX
from tests.kit.logs import T0, World, batch
from tests.kit.scenario import (
    append_ones,
    append_txn,
    end_txn,
    facts,
    replicate_all,
    stored,
)


def sent_by(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytearray:
    return batch(
        *[("k", "v")] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def test_duplicate_is_not_appended_and_answers_the_original_offsets() -> None:
    world = World()
    log = world.open()
    append_ones(log, 3)
    first = log.append_as_leader(sent_by(7, 0, 2), leader_epoch=0)
    log.append_as_leader(sent_by(7, 2), leader_epoch=0)
    before = facts(world, log)

    again = log.append_as_leader(sent_by(7, 0, 2), leader_epoch=0)

    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    assert (again.first_offset, again.last_offset) == (3, 4)
    assert again.duplicate
    assert again.log_append_time == -1
    assert facts(world, log) == before


def test_duplicate_in_a_log_append_time_topic_answers_the_original_time() -> None:
    world = World()
    log = world.open(LogConfig(message_timestamp_type="LogAppendTime"))
    first = log.append_as_leader(sent_by(7, 0), leader_epoch=0)
    world.clock.advance(minutes=1)

    again = log.append_as_leader(sent_by(7, 0), leader_epoch=0)

    assert again.duplicate
    assert again.log_append_time == first.log_append_time == T0


def test_last_five_batches_are_known_and_the_sixth_is_out_of_order() -> None:
    log = World().open()
    for sequence in range(6):
        log.append_as_leader(sent_by(7, sequence), leader_epoch=0)

    answers = [log.append_as_leader(sent_by(7, n), leader_epoch=0) for n in range(1, 6)]

    assert [answer.first_offset for answer in answers] == [1, 2, 3, 4, 5]
    with pytest.raises(OutOfOrderSequence, match="sent sequence 0, expected 6"):
        log.append_as_leader(sent_by(7, 0), leader_epoch=0)


def test_sequence_wraps_to_zero_after_the_largest_one() -> None:
    log = World().open()
    log.append_as_leader(sent_by(7, INT32_MAX - 1, 2), leader_epoch=0)

    wrapped = log.append_as_leader(sent_by(7, 0), leader_epoch=0)

    assert wrapped.first_offset == 2
    assert not wrapped.duplicate


def test_gap_in_a_sequence_is_refused_from_a_client_and_accepted_from_a_leader() -> None:
    world = World()
    log = world.open()
    log.append_as_leader(sent_by(7, 0), leader_epoch=0)
    before = facts(world, log)

    with pytest.raises(OutOfOrderSequence, match="sent sequence 5, expected 1"):
        log.append_as_leader(sent_by(7, 5), leader_epoch=0)
    unchanged = facts(world, log) == before
    replicated = stored(1, "k", producer_id=7, producer_epoch=0, base_sequence=5)
    log.append_as_follower(replicated)

    assert unchanged
    entry = log.producers.last_entry(7)
    assert entry is not None
    assert (entry.last_sequence, entry.last_data_offset) == (5, 1)


def test_write_outside_the_open_transaction_is_refused() -> None:
    world = World()
    log = world.open()
    append_txn(log, 7, 0)
    before = facts(world, log)

    with pytest.raises(InvalidTxnState, match="transaction open since offset 0"):
        log.append_as_leader(sent_by(7, 1), leader_epoch=0)

    assert facts(world, log) == before


def test_older_producer_epoch_is_refused() -> None:
    log = World().open()
    log.append_as_leader(sent_by(7, 0, epoch=4), leader_epoch=0)

    with pytest.raises(InvalidProducerEpoch, match="epoch 3 of producer 7 is older than 4"):
        log.append_as_leader(sent_by(7, 0, epoch=3), leader_epoch=0)


def test_marker_of_an_older_coordinator_is_refused() -> None:
    world = World()
    log = world.open()
    append_txn(log, 7, 0)
    end_txn(log, 7, commit=True, coordinator_epoch=2)
    before = facts(world, log)

    with pytest.raises(TransactionCoordinatorFenced, match="coordinator epoch 1"):
        end_txn(log, 7, commit=True, coordinator_epoch=1)

    assert facts(world, log) == before


def test_client_must_not_write_markers() -> None:
    log = World().open()
    marker = end_txn_marker(
        commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=T0
    )

    with pytest.raises(InvalidRecord, match="control"):
        log.append_as_leader(marker, leader_epoch=0, origin=Origin.CLIENT)


def test_marker_without_data_ends_nothing_and_leaves_the_stable_offset_alone() -> None:
    log = World().open()
    append_ones(log, 2)
    replicate_all(log)

    end_txn(log, 7, commit=False)

    assert log.last_stable_offset == 2
    assert log.first_unstable_offset is None
    assert log.segments.active.txn_index.entry_count == 0
    replicate_all(log)
    assert log.last_stable_offset == 3


def test_emptied_marker_opens_no_transaction() -> None:
    log = World().open()
    marker = end_txn_marker(
        commit=True,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=T0,
        leader_epoch=0,
    )

    log.append_as_follower(empty_batch(read_header(marker)))

    assert log.log_end_offset == 1
    assert log.first_unstable_offset is None
    log.check_invariants()


@pytest.mark.parametrize("clean", [True, False])
def test_all_five_batches_are_still_known_after_a_restart(clean: bool) -> None:
    world = World()
    config = LogConfig(segment_bytes=200, index_interval_bytes=0)
    log = world.open(config)
    sent = [log.append_as_leader(sent_by(7, sequence), leader_epoch=0) for sequence in range(6)]
    log.flush()
    if clean:
        log.close()

    reopened = world.open(config, clean=clean, recovery_point=log.recovery_point)

    again = [reopened.append_as_leader(sent_by(7, n), leader_epoch=0) for n in range(1, 6)]
    assert all(result.duplicate for result in again)
    assert [result.first_offset for result in again] == [each.first_offset for each in sent[1:]]
    with pytest.raises(OutOfOrderSequence):
        reopened.append_as_leader(sent_by(7, 0), leader_epoch=0)
    reopened.check_invariants()
