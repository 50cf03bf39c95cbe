"""Truncation: what a follower forgets because its leader never had it."""

import pytest

from ledgerstone.errors import KafkaError
from ledgerstone.fs import join
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_shrink import truncate_fully_and_start_at, truncate_to
from ledgerstone.storage.producer_snapshots import ProducerSnapshots
from tests.kit.logs import T0, World, all_records, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    append_txn,
    disk,
    durable,
    end_txn,
    facts,
    killed,
    names,
    put,
    replicate_all,
    stored,
)

SMALL = LogConfig(segment_bytes=3 * ONE_BYTES, index_interval_bytes=0)


@pytest.mark.parametrize("offset", [0, 1, 3, 4, 6, 9])
def test_records_at_and_after_the_offset_are_gone_and_appends_continue_there(offset: int) -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)

    assert truncate_to(log, offset)
    log.check_invariants()
    kept = offsets(all_records(log))
    appended = append(log, ("new", "v")).first_offset

    assert kept == list(range(offset))
    assert appended == offset
    assert offsets(all_records(killed(world).open(SMALL))) == list(range(offset + 1))


@pytest.mark.parametrize("offset", [10, 11, 1000])
def test_truncation_at_or_past_the_end_changes_nothing(offset: int) -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)
    before = facts(world, log)

    assert not truncate_to(log, offset)

    assert facts(world, log) == before


def test_truncation_survives_power_loss_at_once() -> None:
    world = World()
    log = durable(world).open(SMALL)
    append_ones(log, 10)
    log.flush()

    truncate_to(log, 4)
    disk(world).power_loss("none")

    reopened = world.open(SMALL, recovery_point=log.recovery_point)
    assert offsets(all_records(reopened)) == [0, 1, 2, 3]


def test_truncation_lowers_every_offset_that_lay_above() -> None:
    log = World().open(SMALL)
    append_ones(log, 10)
    log.flush()
    log.advance_high_watermark(8)
    log.raise_log_start_offset(7)

    truncate_to(log, 6)

    assert log.log_end_offset == log.high_watermark == log.recovery_point == 6
    assert log.log_start_offset == 6
    log.check_invariants()


def test_truncation_below_the_first_segment_starts_an_empty_log_there() -> None:
    world = World()
    log = world.open(SMALL, log_start_offset=20)
    append_ones(log, 5)

    truncate_to(log, 12)

    assert log.segments.bases() == [12]
    assert (log.log_start_offset, log.log_end_offset) == (12, 12)
    assert log.epochs.entries() == []
    assert append(log).first_offset == 12


def test_full_truncation_may_also_move_the_log_forward() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 5)
    append_txn(log, 7, 0)

    truncate_fully_and_start_at(log, 50)
    log.append_as_follower(stored(50, "a"))

    assert log.segments.bases() == [50]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (50, 50, 51)
    assert log.producers.is_empty
    assert log.first_unstable_offset is None
    reopened = killed(world).open(SMALL, log_start_offset=50)
    assert offsets(all_records(reopened)) == [50]


def test_epochs_that_began_at_or_after_the_new_end_are_forgotten() -> None:
    log = World().open(SMALL)
    append_ones(log, 7, leader_epoch=0)
    append_ones(log, 3, leader_epoch=1)
    append_ones(log, 6, leader_epoch=2)
    counts = []

    for offset in (11, 10, 0):
        truncate_to(log, offset)
        counts.append(len(log.epochs.entries()))

    assert counts == [3, 2, 0]
    assert log.epoch_checkpoint.read() == []


def test_open_transaction_that_was_cut_off_is_forgotten_and_one_before_is_not() -> None:
    log = World().open(SMALL)
    append_txn(log, 7, 0)
    append_ones(log, 3)
    append_txn(log, 8, 0)
    append_ones(log, 3)

    truncate_to(log, 4)

    assert log.first_unstable_offset == 0
    assert log.producers.last_entry(8) is None
    entry = log.producers.last_entry(7)
    assert entry is not None
    assert entry.current_txn_first_offset == 0


def test_cutting_off_a_marker_opens_its_transaction_again() -> None:
    log = World().open(SMALL)
    append_txn(log, 7, 0)
    append_ones(log, 3)
    end_txn(log, 7, commit=False)
    replicate_all(log)
    decided = log.first_unstable_offset

    truncate_to(log, 4)

    assert decided is None
    assert log.first_unstable_offset == 0
    assert sum(segment.txn_index.entry_count for segment in log.segments) == 0


def test_producer_sequence_continues_where_the_truncated_log_ends() -> None:
    log = World().open(SMALL)
    for sequence in range(6):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)

    truncate_to(log, 3)
    result = append(log, producer_id=7, producer_epoch=0, base_sequence=3)

    assert result.first_offset == 3
    assert not result.duplicate


def test_snapshots_above_the_new_end_are_removed() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=ONE_BYTES))
    append_ones(log, 6)
    before = list(log.snapshots.offsets)

    truncate_to(log, 3)

    assert before == [1, 2, 3, 4, 5]
    assert log.snapshots.offsets == [1, 2, 3]
    assert names(world, ".snapshot")[-1] == "00000000000000000003.snapshot"


def test_snapshots_outside_a_range_are_removed() -> None:
    fs = disk(World())
    snapshots = ProducerSnapshots(fs, "/")
    for offset in range(1, 6):
        snapshots.take(offset, [])

    snapshots.remove_where(at_most=1, above=3)

    assert snapshots.offsets == [2, 3]
    assert fs.list_dir("/") == ["00000000000000000002.snapshot", "00000000000000000003.snapshot"]


def test_timestamps_of_what_was_cut_off_do_not_keep_the_segment_alive() -> None:
    log = World().open()
    append(log, timestamp=T0)
    append(log, timestamp=T0 + 3_000_000)

    truncate_to(log, 1)

    assert log.segments.active.largest_timestamp == T0


def test_truncation_inside_a_batch_ends_the_log_where_a_restart_finds_its_end() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 2)
    append(log, ("a", "1"), ("b", "2"), ("c", "3"))

    truncate_to(log, 4)
    log.flush()

    assert log.log_end_offset == log.recovery_point == 2
    assert killed(world).open(SMALL).log_end_offset == 2


def test_truncation_where_an_index_is_wrong_rebuilds_it_before_anything_is_cut() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)
    wrong = (2).to_bytes(4, "big") + (ONE_BYTES + 1).to_bytes(4, "big")
    put(disk(world), join(world.directory, f"{3:020d}.index"), wrong, 8)

    truncate_to(log, 5)
    log.check_invariants()

    assert offsets(all_records(log)) == list(range(5))
    assert log.log_end_offset == 5


def test_truncation_at_damage_cuts_nothing() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)
    put(disk(world), join(world.directory, f"{3:020d}.log"), b"\xff", ONE_BYTES + 16)

    with pytest.raises(KafkaError):
        truncate_to(log, 5)

    assert log.segments.bases() == [0, 3, 6, 9]
    assert log.failure is not None
