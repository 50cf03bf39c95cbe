"""Making a log durable: when it is flushed, what a plan vouches for, what a failure ends."""

import errno

import pytest

from ledgerstone.errors import (
    LogStorageError,
)
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_reader import offset_for_timestamp
from ledgerstone.storage.log_shrink import truncate_to
from ledgerstone.storage.sync_plan import sync_all
from tests.kit.logs import T0, World, all_records, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    disk,
    durable,
    stored,
)


def test_flush_messages_of_one_moves_the_recovery_point_at_every_append() -> None:
    world = World()
    log = durable(world).open(LogConfig(flush_messages=1))

    points = []
    for _ in range(3):
        append(log, ("a", "1"), ("b", "2"))
        points.append(log.recovery_point)
    disk(world).power_loss("none")
    found = offsets(all_records(world.open(recovery_point=6)))

    assert points == [2, 4, 6]
    assert found == [0, 1, 2, 3, 4, 5]


def test_flush_counts_the_records_since_the_recovery_point() -> None:
    log = World().open(LogConfig(flush_messages=5))

    points = []
    for _ in range(6):
        append(log, ("a", "1"), ("b", "2"))
        points.append(log.recovery_point)

    assert points == [0, 0, 6, 6, 6, 12]


def test_flush_plan_is_performed_elsewhere_and_counts_once_it_is_done() -> None:
    world = World()
    log = world.open()
    append_ones(log, 3)

    plan = log.plan_flush()
    assert plan is not None
    append_ones(log, 2)
    sync_all(log.fs, plan.syncs)
    before = log.recovery_point
    log.flush_done(plan)

    assert before == 0
    assert log.recovery_point == 3
    assert log.plan_flush(3) is None


def test_flush_up_to_an_offset_syncs_only_the_segments_below_it() -> None:
    world = World()
    log = durable(world).open(LogConfig(segment_bytes=2 * ONE_BYTES))
    append_ones(log, 5)

    log.flush(up_to=2)

    assert log.recovery_point == 2
    disk(world).power_loss("none")
    assert offsets(all_records(world.open(log.config, recovery_point=2)))[:2] == [0, 1]


def test_roll_between_plan_and_done_is_made_durable_by_the_next_flush() -> None:
    world = World()
    log = durable(world).open(LogConfig(segment_bytes=2 * ONE_BYTES))
    append_ones(log, 2)
    plan = log.plan_flush()
    assert plan is not None
    sync_all(log.fs, plan.syncs)
    append_ones(log, 1)
    log.flush_done(plan)

    log.flush()
    disk(world).power_loss("none")

    reopened = world.open(log.config, recovery_point=log.recovery_point)
    assert offsets(all_records(reopened)) == [0, 1, 2]


def test_last_times_of_a_segment_that_rolls_between_plan_and_done_survive_power_loss() -> None:
    """Sealing writes the last entry of its time index, which the plan has synced before."""
    world = World()
    log = durable(world).open(LogConfig(index_interval_bytes=ONE_BYTES))
    for n in range(6):
        append(log, timestamp=T0 + n)
    plan = log.plan_flush()
    assert plan is not None
    sync_all(log.fs, plan.syncs)
    log.roll()
    log.flush_done(plan)
    append(log, timestamp=T0 + 9)

    log.flush()
    disk(world).power_loss("none")

    reopened = world.open(log.config, recovery_point=log.recovery_point)
    assert [offset_for_timestamp(reopened, T0 + n) for n in range(6)] == [
        (T0 + n, n) for n in range(6)
    ]


def test_truncation_between_plan_and_done_voids_the_plan() -> None:
    world = World()
    log = world.open()
    append_ones(log, 4)
    plan = log.plan_flush()
    assert plan is not None
    sync_all(log.fs, plan.syncs)
    truncate_to(log, 2)
    append_ones(log, 2)

    log.flush_done(plan)

    # Offsets 2 and 3 were written after the sync; nothing says that they would survive.
    assert log.recovery_point <= 2


def test_failed_write_is_not_in_the_log_and_what_was_there_stays_readable() -> None:
    world = World()
    log = world.open()
    append_ones(log, 2)
    disk(world).fail_matching("pwrite", "*.log", errno.EIO, torn=True)

    with pytest.raises(LogStorageError, match="Input/output error"):
        append(log)

    assert log.log_end_offset == 2
    assert offsets(all_records(log)) == [0, 1]
    assert log.segments.active.file.size() == 2 * ONE_BYTES


def test_failed_fsync_ends_all_writing() -> None:
    world = World()
    log = world.open()
    append_ones(log, 2)
    disk(world).fail_matching("fsync", "*.log", errno.EIO, lose_dirty=True)

    with pytest.raises(LogStorageError, match="fsync failed"):
        log.flush()

    assert log.recovery_point == 0
    with pytest.raises(LogStorageError, match="takes no writes: fsync failed"):
        append(log)
    with pytest.raises(LogStorageError, match="takes no writes: fsync failed"):
        log.append_as_follower(stored(2, "a"))
