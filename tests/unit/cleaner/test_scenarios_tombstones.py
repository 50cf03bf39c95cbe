"""The life of a tombstone, scenario by scenario."""

from typing import Any

import pytest

from ledgerstone.records.batch import Codec, TimestampType
from ledgerstone.records.builder import build_batch
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import INT64_MAX
from tests.kit.cleaning import clean, compacted, contents, shape
from tests.kit.logs import T0, World, all_records
from tests.kit.scenario import append, headers_of

RETENTION_MS = 1000


def _passed(log: PartitionLog, first_dirty: int) -> int:
    """Something new, so that there is a reason for a pass; the new first dirty offset."""
    append(log, ("new", "v"))
    log.roll()
    return clean(log, first_dirty).end_offset


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_horizon_is_set_and_timestamps_still_read_as_they_were(codec: Codec) -> None:
    """A batch with a tombstone gets its horizon: record timestamps must not change."""
    log = compacted(World())
    records = [(5, b"a", b"1", ()), (10, b"b", None, ()), (15, b"c", b"3", ())]
    log.append_as_leader(build_batch(records, codec=codec), leader_epoch=0)
    log.roll()

    clean(log, now_ms=T0, delete_retention_ms=1)

    (header,) = headers_of(log)
    assert header.delete_horizon_ms == T0 + 1
    assert header.codec is codec
    assert [record.timestamp for record in all_records(log)] == [5, 10, 15]
    assert header.max_timestamp == 15


def test_the_time_of_the_records_does_not_matter() -> None:
    """The value's timestamp lies far in the future, the tombstone's far in the past."""
    log = compacted(World())
    append(log, ("k", "v"), timestamp=T0 + 3_000_000)
    log.roll()
    clean(log)
    append(log, ("k", None), timestamp=0)
    log.roll()

    end_offset = clean(log, 1).end_offset
    assert contents(log) == [(1, "k", None)]
    _passed(log, end_offset)

    assert contents(log)[0] == (1, "k", None)


def test_tombstone_stays_up_to_its_horizon_and_goes_at_it() -> None:
    """Passes run just before the horizon and exactly at it."""
    world = World()
    log = compacted(world)
    append(log, ("dead", None), ("live", "v"), ("dead too", None))
    first_dirty = _passed(log, 0)
    assert headers_of(log)[0].delete_horizon_ms == T0 + RETENTION_MS

    world.clock.advance(ms=RETENTION_MS - 1)
    first_dirty = _passed(log, first_dirty)
    assert shape(log)[0] == (2, 3)
    world.clock.advance(ms=1)
    _passed(log, first_dirty)

    assert shape(log)[0] == (2, 1)
    assert headers_of(log)[0].last_offset_delta == 2


def test_without_retention_it_takes_two_passes_at_the_same_time() -> None:
    """delete.retention.ms is 0."""
    log = compacted(World(), delete_retention_ms=0)
    append(log, ("dead", None))

    first_dirty = _passed(log, 0)
    assert contents(log)[0] == (0, "dead", None)
    _passed(log, first_dirty)

    assert [key for _, key, _ in contents(log)] == ["new"]


def test_only_the_tombstone_leaves_and_the_horizon_remains() -> None:
    """A tombstone and a live value share a batch whose horizon passes."""
    world = World()
    log = compacted(world)
    records = [(T0 + 7, b"dead", None, ()), (T0 + 3, b"live", b"v", ())]
    log.append_as_leader(build_batch(records), leader_epoch=0)
    first_dirty = _passed(log, 0)
    stamped = headers_of(log)[0]
    world.clock.advance(ms=RETENTION_MS)

    _passed(log, first_dirty)

    left = headers_of(log)[0]
    assert contents(log)[0] == (1, "live", "v")
    assert left.delete_horizon_ms == stamped.delete_horizon_ms == T0 + RETENTION_MS
    assert (stamped.max_timestamp, left.max_timestamp) == (T0 + 7, T0 + 3)
    assert all_records(log)[0].timestamp == T0 + 3


def test_horizon_does_not_move_when_the_retention_changes() -> None:
    """delete.retention.ms changes after the horizon was set."""
    world = World()
    log = compacted(world)
    append(log, ("dead", None))
    first_dirty = _passed(log, 0)
    world.clock.advance(ms=1)
    append(log, ("new", "v"))
    log.roll()

    clean(log, first_dirty, delete_retention_ms=5)

    assert headers_of(log)[0].delete_horizon_ms == T0 + RETENTION_MS


def test_retention_for_ever_keeps_a_tombstone_for_ever() -> None:
    """Added to the clock it passes 64 bits; wrapped around it would lie in the past."""
    world = World()
    log = compacted(world, delete_retention_ms=INT64_MAX)
    append(log, ("dead", None), ("live", "v"))

    first_dirty = _passed(log, 0)
    assert headers_of(log)[0].delete_horizon_ms == INT64_MAX - 1
    world.clock.advance(days=100_000)
    _passed(log, first_dirty)

    assert contents(log)[:2] == [(0, "dead", None), (1, "live", "v")]
    assert [record.timestamp for record in all_records(log)[:2]] == [T0, T0]


def test_newer_value_supersedes_a_tombstone_before_its_horizon() -> None:
    """The key gets a new value before the tombstone's horizon."""
    log = compacted(World())
    append(log, ("k", None))
    first_dirty = _passed(log, 0)
    append(log, ("k", "again"))
    log.roll()

    report = clean(log, first_dirty)

    assert [found for found in contents(log) if found[1] == "k"] == [(2, "k", "again")]
    assert report.stats.dropped_tombstones == 0


def test_key_created_again_after_the_horizon_has_only_its_new_value() -> None:
    """The key gets a new value after the tombstone's horizon."""
    world = World()
    log = compacted(world)
    append(log, ("k", "old"))
    append(log, ("k", None))
    first_dirty = _passed(log, 0)
    world.clock.advance(ms=RETENTION_MS)
    append(log, ("k", "again"))

    _passed(log, first_dirty)

    assert [found for found in contents(log) if found[1] == "k"] == [(3, "k", "again")]


def test_of_two_tombstones_only_the_newer_survives_with_its_own_horizon() -> None:
    """One key has tombstones in two segments."""
    world = World()
    log = compacted(world, segment_bytes=140)
    append(log, ("k", None))
    first_dirty = _passed(log, 0)
    world.clock.advance(ms=500)
    append(log, ("k", None))
    first_dirty = _passed(log, first_dirty)
    assert [found for found in contents(log) if found[1] == "k"] == [(2, "k", None)]

    world.clock.advance(ms=500)
    first_dirty = _passed(log, first_dirty)
    assert (2, "k", None) in contents(log)
    world.clock.advance(ms=500)
    _passed(log, first_dirty)

    assert (2, "k", None) not in contents(log)


def test_empty_keys_and_empty_values_are_ordinary() -> None:
    """Keys and values of length 0 are not null."""
    log = compacted(World())
    append(log, ("", "old"), ("k", ""))
    append(log, ("", ""))
    log.roll()

    report = clean(log)

    assert contents(log) == [(1, "k", ""), (2, "", "")]
    assert report.stats.tombstones_kept == report.stats.dropped_keyless == 0


def test_log_append_time_survives_the_horizon() -> None:
    """The topic uses LogAppendTime."""
    world = World()
    log = compacted(world, message_timestamp_type="LogAppendTime")
    append(log, ("dead", None), ("live", "v"), timestamp=5)
    first_dirty = _passed(log, 0)
    world.clock.advance(ms=RETENTION_MS)

    for pass_is_late in (False, True):
        header = headers_of(log)[0]
        assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert header.max_timestamp == T0
        assert {record.timestamp for record in all_records(log)[: header.record_count]} == {T0}
        if not pass_is_late:
            first_dirty = _passed(log, first_dirty)

    assert contents(log)[0] == (1, "live", "v")


def test_held_tombstone_outlives_its_horizon_until_it_is_let_go() -> None:
    """Ours: a group has not seen it yet."""
    world = World()
    log = compacted(world)
    append(log, ("seen", None))
    append(log, ("unseen", None))
    first_dirty = _passed(log, 0)
    world.clock.advance(ms=RETENTION_MS)
    append(log, ("new", "v"))
    log.roll()

    report = clean(log, first_dirty, held_from_offset=1)

    assert [key for _, key, _ in contents(log)] == ["unseen", "new"]
    assert report.stats.tombstones_held == report.stats.tombstones_kept == 1
    assert report.stats.earliest_horizon_ms is None
    _passed(log, report.end_offset)
    assert [key for _, key, _ in contents(log)] == ["new"]


def test_pass_without_dirty_data_lets_what_is_due_go() -> None:
    """Ours: a horizon is a reason for a pass, even on a topic without new writes."""
    world = World()
    log = compacted(world)
    append(log, ("dead", None))
    first_dirty = _passed(log, 0)
    world.clock.advance(ms=RETENTION_MS)

    report = clean(log, first_dirty)

    assert report.end_offset == first_dirty
    assert [key for _, key, _ in contents(log)] == ["new"]


def test_report_names_the_earliest_horizon_that_is_waited_for() -> None:
    world = World()
    log = compacted(world)
    append(log, ("one", None), ("two", None))
    log.roll()
    first = clean(log)
    world.clock.advance(ms=10)
    append(log, ("three", None))
    log.roll()

    second = clean(log, first.end_offset)

    assert first.stats.earliest_horizon_ms == T0 + RETENTION_MS
    assert first.stats.tombstones_stamped == first.stats.tombstones_kept == 2
    assert second.stats.earliest_horizon_ms == T0 + RETENTION_MS
    assert (second.stats.tombstones_stamped, second.stats.tombstones_kept) == (1, 3)
    world.clock.advance(ms=RETENTION_MS)
    third = clean(log, second.end_offset)
    assert third.stats.earliest_horizon_ms is None
    assert third.stats.dropped_tombstones == 3


def test_tombstone_behind_the_map_is_stamped_and_does_not_go_before_a_map_knows_it() -> None:
    """Its horizon is set although older values are not yet removed, as in Kafka."""
    world = World()
    log = compacted(world)
    append(log, ("a", "v"))
    append(log, ("b", "v"))
    append(log, ("b", None))
    log.roll()
    small: dict[str, Any] = {"dedupe_buffer_bytes": 24, "load_factor": 1.0}

    first = clean(log, **small)
    world.clock.advance(ms=RETENTION_MS)
    second = clean(log, first.end_offset, **small)
    assert (first.end_offset, second.end_offset) == (1, 2)
    assert contents(log) == [(0, "a", "v"), (1, "b", "v"), (2, "b", None)]
    assert headers_of(log)[2].delete_horizon_ms == world.clock.now_ms()
    clean(log, second.end_offset, **small)

    assert contents(log) == [(0, "a", "v")]
