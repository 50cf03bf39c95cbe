"""After an unclean stop: what is checked, what is cut off, what is rebuilt."""

import errno
from struct import Struct

import pytest

from ledgerstone.fs import join
from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import build_batch, empty_batch
from ledgerstone.sim.dice import SeededDice
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.storage.log_reader import offset_for_timestamp
from ledgerstone.storage.log_recovery import Recovery
from ledgerstone.types import INT64_MAX
from tests.kit.logs import T0, TP, World, all_records, batch, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    append_txn,
    content_of,
    disk,
    end_txn,
    killed,
    names,
    put,
    stored,
)

SMALL = LogConfig(segment_bytes=5 * ONE_BYTES, index_interval_bytes=0)


def reopen(
    world: World, *, recovery_point: int = 0, clean: bool = False
) -> tuple[PartitionLog, Recovery]:
    killed(world)
    return open_log(
        OpenLog(
            fs=disk(world),
            clock=world.clock,
            dice=world.dice,
            directory=world.directory,
            topic_partition=TP,
            config=SMALL,
            recovery_point=recovery_point,
            clean=clean,
        )
    )


def damage(world: World, name: str, position: int) -> None:
    put(disk(world), join(world.directory, name), b"\xff", position)


# -- garbage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_garbage_after_the_log_and_its_indexes_is_cut_off(seed: int) -> None:
    world = World()
    append_ones(world.open(SMALL), 13)
    dice = SeededDice(seed)
    for name in names(world, "index") + names(world, ".log"):
        path = join(world.directory, name)
        garbage = dice.random_bytes(1 + dice.below(400))
        put(disk(world), path, garbage, disk(world).size_of(path))

    # Only the last segment is still written to when a machine dies.
    log, recovery = reopen(world, recovery_point=10)

    assert offsets(all_records(log))[-3:] == [10, 11, 12]
    assert log.log_end_offset == 13
    assert recovery.bytes_truncated > 0
    assert append(log).first_offset == 13
    log.check_invariants()


def test_clean_stop_skips_recovery_and_believes_the_files() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 8)
    log.close()

    reopened, recovery = reopen(world, clean=True)

    assert recovery == Recovery()
    assert reopened.recovery_point == reopened.log_end_offset == 8


@pytest.mark.parametrize("size", [1, 11, 16, 17, 60, 61, 69])
def test_torn_last_batch_is_cut_off(size: int) -> None:
    world = World()
    append_ones(world.open(SMALL), 2)
    put(
        disk(world),
        join(world.directory, "00000000000000000000.log"),
        stored(2, "x")[:size],
        2 * ONE_BYTES,
    )

    log, recovery = reopen(world)

    assert log.log_end_offset == 2
    assert recovery.bytes_truncated == size
    assert len(content_of(world, "00000000000000000000.log")) == 2 * ONE_BYTES


@pytest.mark.parametrize("last_offset", [INT64_MAX - 1, INT64_MAX - 2**31 + 2])
def test_garbage_is_cut_off_near_the_last_offset_that_there_is(last_offset: int) -> None:
    world = World()
    world.open()
    name = f"{last_offset:020d}.log"
    disk(world).unlink(join(world.directory, "00000000000000000000.log"))
    disk(world).open(join(world.directory, name), create=True)
    data = batch(("key", "value"), base_offset=last_offset)
    put(disk(world), join(world.directory, name), bytes(data) + bytes(200), 0)

    log, recovery = reopen(world)

    assert log.log_end_offset == last_offset + 1
    assert recovery.bytes_truncated == 200


def test_time_index_that_lost_its_end_is_rebuilt_below_the_recovery_point() -> None:
    world = World()
    log = world.open(SMALL)
    for n in range(7):
        append(log, timestamp=T0 + n)
    log.flush()
    path = join(world.directory, "00000000000000000000.timeindex")
    entry_bytes = disk(world).size_of(path) // 4
    disk(world).open(path).truncate(2 * entry_bytes)

    log, _ = reopen(world, recovery_point=7)

    assert [offset_for_timestamp(log, T0 + n) for n in range(7)] == [(T0 + n, n) for n in range(7)]


@pytest.mark.parametrize("entry", [0, 1, 2])
def test_time_index_with_an_entry_before_1970_is_rebuilt(entry: int) -> None:
    world = World()
    log = world.open(SMALL)
    for n in range(7):
        append(log, timestamp=T0 + n)
    log.close()
    # It leads behind what is looked for.
    damage = Struct(">qi").pack(-(2**62), 4)
    put(disk(world), join(world.directory, "00000000000000000000.timeindex"), damage, 12 * entry)

    log, _ = reopen(world, recovery_point=7, clean=True)

    assert [offset_for_timestamp(log, T0 + n) for n in range(7)] == [(T0 + n, n) for n in range(7)]


# -- which segments -------------------------------------------------------------------------------


def test_only_segments_from_the_recovery_point_on_are_scanned() -> None:
    world = World()
    append_ones(world.open(SMALL), 18)
    # Everything below the recovery point was synced and is not checked again.
    damage(world, "00000000000000000000.log", ONE_BYTES + 66)

    log, recovery = reopen(world, recovery_point=11)

    assert log.segments.bases() == [0, 5, 10, 15]
    assert recovery.segments_scanned == 2
    assert recovery.bytes_scanned == 8 * ONE_BYTES
    assert recovery.bytes_truncated == recovery.segments_deleted == 0
    assert log.recovery_point == 11


def test_segments_after_one_that_was_cut_are_deleted() -> None:
    world = World()
    append_ones(world.open(SMALL), 18)
    damage(world, "00000000000000000005.log", 2 * ONE_BYTES + 66)

    log, recovery = reopen(world)

    assert log.segments.bases() == [0, 5]
    assert offsets(all_records(log)) == list(range(7))
    assert log.log_end_offset == 7
    assert recovery.segments_deleted == 2
    assert recovery.bytes_truncated == 3 * ONE_BYTES
    assert not [name for name in names(world) if name >= "00000000000000000008"][:-1]
    assert append(log).first_offset == 7


def test_producer_state_is_rebuilt_where_no_snapshot_is_left() -> None:
    world = World()
    log = world.open(SMALL)
    for sequence in range(12):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    for name in names(world, ".snapshot"):
        disk(world).unlink(join(world.directory, name))

    reopened, _ = reopen(world)

    entry = reopened.producers.last_entry(7)
    assert entry is not None
    assert [batch.last_sequence for batch in entry.batches] == [7, 8, 9, 10, 11]
    assert append(reopened, producer_id=7, producer_epoch=0, base_sequence=12).first_offset == 12


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("which", [0, -1], ids=["an older one", "the newest"])
def test_snapshot_whose_content_was_never_written_is_thrown_away(which: int, clean: bool) -> None:
    world = World()
    log = world.open(SMALL)
    for sequence in range(12):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    empty = join(world.directory, names(world, ".snapshot")[which])
    file = disk(world).open(empty)
    file.truncate(0)
    file.close()

    reopened, _ = reopen(world, clean=clean)

    entry = reopened.producers.last_entry(7)
    assert entry is not None
    assert entry.last_sequence == 11
    is_made_anew = disk(world).exists(empty)
    assert not is_made_anew or disk(world).size_of(empty) > 0


def test_snapshot_of_what_was_cut_off_is_not_believed() -> None:
    world = World()
    log = world.open(SMALL)
    for sequence in range(12):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    damage(world, "00000000000000000000.log", 3 * ONE_BYTES + 66)

    reopened, _ = reopen(world)

    entry = reopened.producers.last_entry(7)
    assert entry is not None
    assert (entry.last_sequence, reopened.log_end_offset) == (2, 3)
    assert reopened.snapshots.offsets == []


def test_recovered_log_continues_to_be_written_and_recovered() -> None:
    world = World()
    append_ones(world.open(SMALL), 7)

    for round_number in range(3):
        log, _ = reopen(world)
        append_ones(log, 4)
        assert log.log_end_offset == 7 + 4 * (round_number + 1)

    assert offsets(all_records(reopen(world)[0])) == list(range(19))


# -- what is rebuilt ------------------------------------------------------------------------------


def test_rebuilt_indexes_are_those_a_clean_stop_would_have_left() -> None:
    world = World()
    log = world.open(SMALL)
    for n in range(13):
        append(log, timestamp=T0 + (n * 7) % 5)
    log.close()
    intact = {name: content_of(world, name) for name in names(world, "index")}
    for name in intact:
        damage(world, name, 0)

    reopen(world)[0].close()

    assert {name: content_of(world, name) for name in names(world, "index")} == intact


def test_recovery_rebuilds_the_aborted_transactions() -> None:
    world = World()
    log = world.open(SMALL, log_start_offset=100)
    append_txn(log, 5, 0, 2)
    append_txn(log, 6, 0, 2)
    append(log, ("a", "1"), ("b", "2"))
    end_txn(log, 5, commit=False)
    end_txn(log, 6, commit=True)
    lost = names(world, ".txnindex")
    for name in lost:
        disk(world).unlink(join(world.directory, name))

    reopened, _ = reopen(world)

    entries = [entry for segment in reopened.segments for entry in segment.txn_index.entries()]
    assert entries == [(5, 100, 106, 102)]
    assert names(world, ".txnindex") == lost
    assert len(lost) == 1


def test_recovery_adds_the_epochs_whose_checkpoint_is_lost() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 7, leader_epoch=0)
    append_ones(log, 3, leader_epoch=1)
    append_ones(log, 2, leader_epoch=2)
    disk(world).unlink(join(world.directory, "leader-epoch-checkpoint"))

    reopened, _ = reopen(world)

    assert reopened.epochs.entries() == [(0, 0), (1, 7), (2, 10)]
    assert reopened.epoch_checkpoint.read() == reopened.epochs.entries()


@pytest.mark.parametrize("recovery_point", [0, 4, 8, 10, 12])
def test_recovery_from_the_middle_of_an_epoch_leaves_its_beginning_alone(
    recovery_point: int,
) -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 3, leader_epoch=0)
    append_ones(log, 7, leader_epoch=1)
    append_ones(log, 2, leader_epoch=2)

    reopened, _ = reopen(world, recovery_point=recovery_point)

    assert reopened.epochs.entries() == [(0, 0), (1, 3), (2, 10)]


def test_rebuilding_one_old_index_does_not_forget_later_epochs() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 7, leader_epoch=0)
    append_ones(log, 5, leader_epoch=1)
    log.close()
    disk(world).unlink(join(world.directory, "00000000000000000000.index"))

    reopened, recovery = reopen(world, clean=True)

    assert recovery.segments_scanned == 1
    assert reopened.epochs.entries() == [(0, 0), (1, 7)]


# -- what the cleaner leaves ----------------------------------------------------------------------


def compacted_log(world: World) -> PartitionLog:
    """A thinned-out batch of producer 1 and an emptied one of producer 2, as replicated."""
    log = world.open(SMALL)
    thinned = build_batch(
        [(T0, b"b", b"v", ())],
        base_offset=0,
        leader_epoch=0,
        producer_id=1,
        producer_epoch=3,
        base_sequence=10,
        offsets=[1],
        last_offset_delta=2,
    )
    full = stored(3, "x", "y", producer_id=2, producer_epoch=5, base_sequence=20)
    log.append_as_follower(thinned)
    log.append_as_follower(empty_batch(read_header(full)))
    return log


@pytest.mark.parametrize("with_snapshots", [True, False])
def test_replay_of_compacted_and_emptied_batches_rebuilds_their_producers(
    with_snapshots: bool,
) -> None:
    world = World()
    log = compacted_log(world)
    if with_snapshots:
        log.close()

    reopened, _ = reopen(world, clean=with_snapshots)

    first, second = (reopened.producers.last_entry(producer) for producer in (1, 2))
    assert first is not None
    assert second is not None
    assert (first.epoch, first.last_sequence, first.last_data_offset) == (3, 12, 2)
    assert (second.epoch, second.last_sequence, second.last_data_offset) == (5, 21, 4)
    assert reopened.log_end_offset == 5
    assert reopened.producers.map_end_offset == 5
    assert offsets(all_records(reopened)) == [1]


@pytest.mark.parametrize("clean", [True, False])
def test_duplicate_of_a_batch_that_was_compacted_is_still_recognised(clean: bool) -> None:
    world = World()
    log = compacted_log(world)
    if clean:
        log.close()

    reopened, _ = reopen(world, clean=clean)
    again = append(
        reopened, ("x", "v"), ("y", "v"), producer_id=2, producer_epoch=5, base_sequence=20
    )

    assert again.duplicate
    assert (again.first_offset, again.last_offset) == (3, 4)


def test_rebuild_that_the_disk_ends_half_way_does_not_forget_aborted_transactions() -> None:
    """A segment that was synced is not read again once its indexes look whole."""
    world = World()
    log = world.open(SMALL, log_start_offset=100)
    append_txn(log, 5, 0, 2)
    end_txn(log, 5, commit=False)
    log.roll()
    append(log, ("a", "1"))
    log.flush()
    end_offset = log.log_end_offset
    disk(world).unlink(join(world.directory, f"{100:020d}.index"))
    disk(world).fail_matching("pwrite", "*.txnindex", errno.ENOSPC, times=1)

    with pytest.raises(OSError, match="No space left"):
        reopen(world, recovery_point=end_offset)
    reopened, _ = reopen(world, recovery_point=end_offset)

    assert reopened.segments.first.txn_index.entries() == [(5, 100, 102, 103)]
