"""Retention: what goes by age, by size and below the log start, and what becomes of the files."""

from typing import Any

import pytest

from ledgerstone.errors import OffsetOutOfRange
from ledgerstone.storage.filenames import DELETED
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_shrink import delete_old_segments
from ledgerstone.storage.retention import Breach
from tests.kit.logs import T0, World, all_records, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    append_txn,
    disk,
    killed,
    names,
    put,
    replicate_all,
)

PER_SEGMENT = 5


def filled(world: World, count: int = 15, timestamp: int = T0, **config: Any) -> PartitionLog:
    """A log of five one-record batches per segment."""
    log = world.open(LogConfig(segment_bytes=PER_SEGMENT * ONE_BYTES, **config))
    append_ones(log, count, timestamp=timestamp)
    return log


def deleted(log: PartitionLog) -> int:
    return sum(deletion.segments for deletion in delete_old_segments(log))


# -- the high watermark ---------------------------------------------------------------------------


def test_nothing_expires_above_the_high_watermark() -> None:
    log = filled(World(), 100, timestamp=10, retention_ms=0)

    assert deleted(log) == 0
    assert len(log.segments) == 20
    assert log.log_start_offset == 0


@pytest.mark.parametrize("high_watermark", range(25, 31))
def test_only_segments_wholly_below_the_high_watermark_go(high_watermark: int) -> None:
    log = filled(World(), 100, timestamp=10, retention_ms=0)
    log.advance_high_watermark(high_watermark)

    delete_old_segments(log)

    assert log.segments.first.base_offset <= high_watermark
    assert log.log_start_offset == log.segments.first.base_offset == high_watermark // 5 * 5


def test_log_that_expired_as_a_whole_starts_anew_at_its_end() -> None:
    log = filled(World(), 100, timestamp=10, retention_ms=0)
    append(log, timestamp=10, leader_epoch=4)
    replicate_all(log)

    delete_old_segments(log)

    assert log.segments.bases() == [101]
    assert log.segments.active.size == 0
    assert (log.log_start_offset, log.log_end_offset) == (101, 101)
    assert log.epochs.entries() == [(4, 101)]
    assert append(log, leader_epoch=4).first_offset == 101
    log.check_invariants()


# -- size and time --------------------------------------------------------------------------------


@pytest.mark.parametrize(("records", "segments"), [(10, 2), (15, 3), (14, 3), (0, 1)])
def test_size_rule_leaves_at_least_the_retention_bytes(records: int, segments: int) -> None:
    log = filled(World(), retention_bytes=records * ONE_BYTES)
    replicate_all(log)

    delete_old_segments(log)

    assert len(log.segments) == segments
    assert log.size_bytes >= records * ONE_BYTES


def test_retention_bytes_of_zero_leaves_one_empty_segment() -> None:
    log = filled(World(), retention_bytes=0)
    replicate_all(log)

    deletions = delete_old_segments(log)

    assert [(d.reason, d.segments, d.size_bytes, d.log_start_offset) for d in deletions] == [
        (Breach.SIZE, 3, 15 * ONE_BYTES, 15)
    ]
    assert log.segments.bases() == [15]
    assert log.size_bytes == 0


def test_time_rule_takes_the_active_segment_too() -> None:
    world = World()
    log = filled(world, retention_ms=1000)
    replicate_all(log)

    world.clock.advance(ms=1000)
    at_the_limit = deleted(log)
    world.clock.advance(ms=1)
    past_it = deleted(log)

    assert at_the_limit == 0
    assert past_it == 3
    assert log.segments.bases() == [15]


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=5 * ONE_BYTES, retention_ms=1000))
    append_ones(log, 15, timestamp=None)
    replicate_all(log)

    world.clock.advance(ms=1000)
    young = deleted(log)
    world.clock.advance(ms=1)

    assert young == 0
    assert deleted(log) == 3


def test_empty_log_has_nothing_to_delete() -> None:
    world = World()
    log = world.open(LogConfig(retention_ms=0, retention_bytes=0))
    world.clock.advance(days=100)

    assert deleted(log) == 0
    assert log.segments.bases() == [0]


# -- cleanup policies -----------------------------------------------------------------------------


def test_compact_only_ignores_age_and_size() -> None:
    log = filled(
        World(), timestamp=10, cleanup_policy=("compact",), retention_ms=0, retention_bytes=0
    )
    replicate_all(log)

    assert deleted(log) == 0
    assert len(log.segments) == 3


def test_compact_and_delete_obeys_age() -> None:
    log = filled(World(), timestamp=10, cleanup_policy=("compact", "delete"), retention_ms=0)
    replicate_all(log)

    assert deleted(log) == 3


def test_compact_only_still_deletes_below_the_log_start() -> None:
    log = filled(World(), cleanup_policy=("compact",))
    replicate_all(log)
    log.raise_log_start_offset(7)

    deletions = delete_old_segments(log)

    assert [(d.reason, d.segments) for d in deletions] == [(Breach.START_OFFSET, 1)]
    assert log.segments.bases() == [5, 10]


# -- the log start --------------------------------------------------------------------------------


def test_segments_go_as_the_log_start_passes_them() -> None:
    log = filled(World())
    replicate_all(log)
    left = []

    for start in (1, 6, 15):
        log.raise_log_start_offset(start)
        delete_old_segments(log)
        left.append(len(log.segments))

    assert left == [3, 2, 1]
    assert log.log_start_offset == 15


def test_log_start_past_the_high_watermark_is_refused() -> None:
    log = filled(World())
    log.advance_high_watermark(8)

    with pytest.raises(OffsetOutOfRange, match=r"log start offset 9 .* high watermark 8"):
        log.raise_log_start_offset(9)

    assert log.log_start_offset == 0


def test_log_start_never_goes_back() -> None:
    log = filled(World())
    replicate_all(log)

    moved = [log.raise_log_start_offset(offset) for offset in (6, 6, 3)]

    assert moved == [True, False, False]
    assert log.log_start_offset == 6


def test_segment_with_a_later_timestamp_protects_the_rest_until_the_log_start_passes_it() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=5 * ONE_BYTES, retention_ms=1000))
    append_ones(log, 5, timestamp=T0 + 3_600_000)
    append_ones(log, 10, timestamp=T0 - 3_600_000)
    replicate_all(log)

    blocked = deleted(log)
    log.raise_log_start_offset(5)
    unblocked = deleted(log)
    again = deleted(log)

    assert (blocked, unblocked, again) == (0, 3, 0)
    assert log.segments.bases() == [15]


def test_deleting_the_first_segment_moves_the_epoch_that_began_in_it() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=5 * ONE_BYTES))
    append_ones(log, 7, leader_epoch=0)
    append_ones(log, 3, leader_epoch=1)
    append_ones(log, 6, leader_epoch=2)
    replicate_all(log)
    before = log.epochs.entries()
    log.raise_log_start_offset(5)

    delete_old_segments(log)

    assert before == [(0, 0), (1, 7), (2, 10)]
    assert log.epochs.entries() == [(0, 5), (1, 7), (2, 10)]
    assert log.epoch_checkpoint.read() == log.epochs.entries()


# -- files ----------------------------------------------------------------------------------------


def test_deleted_files_are_renamed_first_and_unlinked_after_the_delay() -> None:
    world = World()
    log = filled(world, retention_bytes=10 * ONE_BYTES, file_delete_delay_ms=1000)
    replicate_all(log)

    delete_old_segments(log)
    renamed = names(world, DELETED)
    world.clock.advance(ms=999)
    too_early = log.deleted_files.unlink_due(world.clock.now_ms())
    world.clock.advance(ms=1)
    on_time = log.deleted_files.unlink_due(world.clock.now_ms())

    assert renamed == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    assert (too_early, on_time) == (0, 3)
    assert names(world, DELETED) == []


def test_deleted_files_a_crash_left_behind_are_unlinked_at_open() -> None:
    world = World()
    log = filled(world, retention_bytes=10 * ONE_BYTES)
    replicate_all(log)
    delete_old_segments(log)
    left = names(world, DELETED)

    reopened = killed(world).open(log.config)

    assert len(left) == 3
    assert names(world, DELETED) == []
    assert offsets(all_records(reopened)) == list(range(5, 15))


def test_snapshots_go_with_their_segments() -> None:
    world = World()
    log = filled(world, retention_bytes=5 * ONE_BYTES, file_delete_delay_ms=1000)
    append_txn(log, 7, 0)
    replicate_all(log)
    log.raise_log_start_offset(6)
    before = list(log.snapshots.offsets)

    delete_old_segments(log)
    renamed = names(world, ".snapshot.deleted")
    world.clock.advance(ms=1000)
    log.deleted_files.unlink_due(world.clock.now_ms())

    assert before == [5, 10, 15]
    assert renamed == ["00000000000000000005.snapshot.deleted"]
    assert names(world, ".snapshot") == [
        "00000000000000000010.snapshot",
        "00000000000000000015.snapshot",
    ]
    assert names(world, DELETED) == []


def test_snapshot_beyond_the_log_end_is_removed_at_load() -> None:
    world = World()
    log = filled(world, 3)
    log.close()
    put(disk(world), log.snapshots.path(9), b"from a log that was longer")

    reopened = world.open(log.config, clean=True)

    assert names(world, ".snapshot") == []
    assert reopened.snapshots.offsets == []
    assert reopened.log_end_offset == 3
