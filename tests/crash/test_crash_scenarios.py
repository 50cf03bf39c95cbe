"""Single crashes that a sweep once found, each written as a scenario."""

import errno
from dataclasses import replace

import pytest

from ledgerstone.errors import DamagedLog, LogStorageError
from ledgerstone.records.batch import read_header
from ledgerstone.storage.checkpoints import OffsetCheckpoint
from ledgerstone.storage.filenames import (
    FOLLOWS,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SWAP,
    Kind,
    file_name,
)
from tests.kit.log_checks import batches_of, check_log
from tests.kit.logs import T0, TP, batch
from tests.kit.machines import DATA, SMALL, Machine


def started() -> Machine:
    machine = Machine()
    machine.start()
    return machine


def base_offsets(machine: Machine) -> list[int]:
    return [read_header(one).base_offset for one in batches_of(machine.log)]


def path_of(base_offset: int, kind: Kind = Kind.LOG, suffix: str = "") -> str:
    return f"{DATA}/{TP}/{file_name(base_offset, kind, suffix)}"


def lose_last_batch(machine: Machine, base_offset: int) -> None:
    """What power loss does when it takes whole batches: the file is shorter, nothing is torn."""
    segment = machine.log.segments.at_base(base_offset)
    assert segment is not None
    last = read_header(segment.file.pread(segment.size, 0)).size
    segment.file.truncate(segment.size - last)


# -- segments that follow unsynced ones ---------------------------------------------------------


def test_a_segment_goes_when_the_unsynced_one_before_it_lost_whole_batches() -> None:
    machine = started()
    machine.append_keys(*"abcdef")
    assert machine.log.segments.bases() == [0, 4]
    lose_last_batch(machine, 0)

    machine.kill()
    machine.start()

    assert base_offsets(machine) == [0, 1, 2]
    assert machine.log.log_end_offset == 3


def test_a_segment_after_a_hole_that_replication_left_stays() -> None:
    machine = started()
    machine.append_keys(*"abcd")
    far = batch(("far", "v"), base_offset=9, leader_epoch=0)
    machine.log.append_as_follower(bytes(far))
    assert machine.log.segments.bases() == [0, 9]

    machine.kill()
    machine.start()

    assert base_offsets(machine) == [0, 1, 2, 3, 9]


def test_a_hole_that_replication_left_hides_no_loss_of_the_batches_below_it() -> None:
    machine = started()
    machine.append_keys(*"abcd")
    machine.log.append_as_follower(bytes(batch(("far", "v"), base_offset=9, leader_epoch=0)))
    lose_last_batch(machine, 0)

    machine.kill()
    machine.start()

    assert base_offsets(machine) == [0, 1, 2]


def test_a_segment_after_a_hole_that_compaction_left_stays() -> None:
    machine = started()
    machine.append_keys("a", "b", "c", "d", "d", "c", "b", "a", "e")
    assert machine.log.segments.bases() == [0, 4, 8]

    machine.swap(0, 1, drop_tombstones=False, keep_tail=False)
    machine.kill()
    machine.start()

    assert base_offsets(machine) == [4, 5, 6, 7, 8]


def test_a_mark_of_unsynced_batches_goes_with_the_flush_that_syncs_them() -> None:
    machine = started()
    machine.append_keys(*"abcdef")
    assert machine.fs.exists(path_of(4, suffix=FOLLOWS))

    machine.flush()

    assert not machine.fs.exists(path_of(4, suffix=FOLLOWS))


def test_a_segment_that_follows_synced_batches_gets_no_mark() -> None:
    machine = started()
    machine.append_keys("a")
    machine.flush()

    machine.log.roll()

    assert not machine.fs.exists(path_of(1, suffix=FOLLOWS))


def test_a_mark_does_not_outlive_the_truncation_of_its_segment() -> None:
    machine = started()
    machine.append_keys(*"abcdef")

    machine.truncate_to(2)

    assert not machine.fs.exists(path_of(4, suffix=FOLLOWS))


# -- what must be durable when --------------------------------------------------------------------


def test_a_new_log_directory_keeps_its_own_name_through_power_loss() -> None:
    machine = started()

    machine.lose_power("none")

    assert machine.fs.is_dir(f"{DATA}/{TP}")


def test_what_sealing_wrote_is_durable_when_everything_before_it_was() -> None:
    """Otherwise no flush would ever come back to it, and no recovery look at it."""
    machine = started()
    machine.append_keys("a")
    machine.flush()
    machine.log_dir.checkpoint()

    machine.log.roll()
    machine.append_keys("b")
    machine.flush()
    machine.log_dir.checkpoint()
    machine.lose_power("none")
    machine.start()

    check_log(machine.log)
    assert machine.log.segments.first.largest_timestamp == T0


def test_deleted_records_do_not_come_back_with_the_power() -> None:
    machine = started()
    machine.append_keys(*"abcdefghij")
    machine.flush()
    machine.log.advance_high_watermark(10)
    machine.delete_records(8)

    machine.delete_old_segments()
    machine.log_dir.checkpoint()
    machine.lose_power("none")
    machine.start()

    assert machine.log.log_start_offset == 8
    assert base_offsets(machine) == [8, 9]


def test_a_truncation_lowers_the_recovery_point_on_disk() -> None:
    machine = started()
    machine.append_keys(*"abcdefghij")
    machine.flush()
    machine.log_dir.checkpoint()

    machine.truncate_to(3)

    checkpoint = OffsetCheckpoint(machine.fs, f"{DATA}/{RECOVERY_POINT_CHECKPOINT}")
    assert checkpoint.read() == {TP: 3}


def test_rolling_an_empty_log_never_lets_go_of_its_end() -> None:
    machine = started()
    machine.start_anew_at(50)
    before = machine.fs.operation_count

    machine.log.roll()

    assert machine.fs.operation_count == before
    assert machine.log.segments.bases() == [50]


def test_a_log_that_starts_anew_knows_nothing_of_the_old_one() -> None:
    machine = started()
    machine.append_keys("a", leader_epoch=3)
    machine.append_txn(5, 0, "x")
    machine.stop()
    machine.start()

    machine.start_anew_at(40)

    assert machine.log.epochs.entries() == []
    assert machine.log.producers.entries() == []
    assert machine.log.last_stable_offset == 40


def test_segments_that_recovery_deleted_stay_deleted() -> None:
    machine = started()
    machine.append_keys(*"abcdef")
    machine.fs.fsync_dir(f"{DATA}/{TP}")
    lose_last_batch(machine, 0)
    machine.kill()
    machine.start()

    machine.lose_power("none")

    assert not machine.fs.exists(path_of(4))


def test_an_index_that_was_rebuilt_below_the_recovery_point_is_durable() -> None:
    machine = started()
    machine.append_keys(*"abcdef")
    machine.stop()
    machine.fs.unlink(path_of(0, Kind.INDEX))
    machine.fs.fsync_dir(f"{DATA}/{TP}")
    machine.start()
    machine.log.flush()
    machine.fs.fsync_dir(f"{DATA}/{TP}")

    machine.lose_power("none")
    machine.start()

    assert machine.log_dir.recoveries[TP].segments_scanned == 1
    check_log(machine.log)
    first = machine.log.segments.first
    assert first.offset_index.entry_count > 0


def test_a_log_that_ends_below_its_checkpoints_lowers_them_before_it_grows() -> None:
    machine = started()
    machine.append_keys(*"abc")
    machine.flush()
    machine.log.advance_high_watermark(3)
    machine.log_dir.checkpoint()
    lose_last_batch(machine, 0)
    machine.kill()
    with pytest.raises(DamagedLog, match="ends at offset 2, but had been written up to 3"):
        machine.start()

    machine.log_dir.reopen(TP, machine.config)

    lowered = {RECOVERY_POINT_CHECKPOINT: 0, HIGH_WATERMARK_CHECKPOINT: 2}
    for name, offset in lowered.items():
        assert OffsetCheckpoint(machine.fs, f"{DATA}/{name}").read() == {TP: offset}


def test_an_emptied_segment_takes_over_from_its_source_with_all_its_files() -> None:
    """A swap that is decided but not done, where nothing was left of the source."""
    machine = started()
    machine.append_txn(5, 0, "x")
    machine.append_marker(5, commit=False)
    machine.log.roll()
    machine.stop()
    for kind in (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX):
        machine.fs.open(path_of(0, kind, SWAP), create=True).close()

    machine.start()

    assert base_offsets(machine) == []
    assert not machine.fs.exists(path_of(0, Kind.TXN_INDEX))
    assert machine.log.log_end_offset == 2


# -- errors ---------------------------------------------------------------------------------------


def test_an_offset_is_not_given_twice_when_an_abort_was_not_indexed() -> None:
    machine = started()
    machine.append_txn(5, 0, "x")
    machine.fs.fail_matching("pwrite", "*.txnindex", errno.ENOSPC)
    with pytest.raises(LogStorageError, match="append failed"):
        machine.append_marker(5, commit=False)

    with pytest.raises(LogStorageError, match="takes no writes"):
        machine.append_keys("a")

    machine.kill()
    machine.start()
    assert base_offsets(machine) == [0, 1]
    assert len(machine.log.segments.active.txn_index.entries()) == 1


def test_a_leader_epoch_that_was_not_written_down_takes_no_batches() -> None:
    machine = started()
    machine.fs.fail_matching("rename", "*leader-epoch-checkpoint*", errno.EIO)

    with pytest.raises(LogStorageError, match="append failed"):
        machine.append_keys("a")

    assert machine.log.log_end_offset == 0
    assert machine.log.failure is not None


def test_a_garbled_index_does_not_keep_a_log_from_opening() -> None:
    machine = Machine(config=replace(SMALL, index_interval_bytes=0))
    machine.start()
    machine.append_keys("a", "b", "c")
    machine.log.segments.active.offset_index.flush()
    machine.kill()
    index = machine.fs.open(path_of(0, Kind.INDEX))
    index.pwrite(b"\x00\x00\x00\x02\xff\xff\xff\x00", 8)

    machine.start()

    assert base_offsets(machine) == [0, 1, 2]
    check_log(machine.log)
