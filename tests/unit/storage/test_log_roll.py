"""When the active segment is sealed and a new one begins: size, time, indexes, offsets."""

import pytest

from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_shrink import truncate_to
from ledgerstone.types import INT32_MAX, INT64_MAX
from tests.kit.logs import T0, World, all_records, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    content_of,
    disk,
    killed,
    names,
    put,
    replicate_all,
    stored,
)

HOUR_MS = 3_600_000
HOURLY = LogConfig(segment_ms=HOUR_MS, message_timestamp_after_max_ms=INT64_MAX)


# -- by time --------------------------------------------------------------------------------------


def test_wall_clock_rolls_records_without_timestamps_but_never_an_empty_segment() -> None:
    world = World()
    log = world.open(HOURLY)
    world.clock.advance(ms=HOUR_MS + 1)

    append(log, timestamp=None)
    after_first = len(log.segments)
    append(log, timestamp=None)
    after_second = len(log.segments)
    world.clock.advance(ms=HOUR_MS + 1)
    append(log, timestamp=None)

    assert (after_first, after_second, len(log.segments)) == (1, 2, 3)


def test_segment_rolls_only_after_more_than_segment_ms() -> None:
    world = World()
    log = world.open(HOURLY)
    append(log, timestamp=None)
    world.clock.advance(ms=HOUR_MS)

    append(log, timestamp=None)
    world.clock.advance(ms=1)
    append(log, timestamp=None)

    assert log.segments.bases() == [0, 2]


def test_empty_set_never_rolls() -> None:
    world = World()
    log = world.open(HOURLY)
    append(log, timestamp=None)
    world.clock.advance(hours=5)

    log.append_as_follower(b"")

    assert len(log.segments) == 1


def test_first_record_without_a_timestamp_leaves_the_roll_to_the_wall_clock() -> None:
    world = World()
    log = world.open(HOURLY)
    append(log, timestamp=None)

    append(log, timestamp=T0 + 2 * HOUR_MS)
    one = len(log.segments)
    world.clock.advance(ms=HOUR_MS + 1)
    append(log, timestamp=T0)

    assert one == 1
    assert len(log.segments) == 2


def test_with_timestamps_only_record_time_counts() -> None:
    world = World()
    log = world.open(HOURLY)
    append(log, timestamp=T0)
    world.clock.advance(days=3)

    append(log, timestamp=T0 + HOUR_MS)
    same = len(log.segments)
    append(log, timestamp=T0 + HOUR_MS + 1)

    assert same == 1
    assert log.segments.bases() == [0, 2]


def test_time_zero_is_record_time_too() -> None:
    world = World()
    log = world.open(HOURLY)
    append(log, timestamp=0)
    world.clock.advance(days=3)

    append(log, timestamp=0)

    assert len(log.segments) == 1


def test_record_dated_in_the_past_does_not_roll() -> None:
    log = World().open(HOURLY)
    append(log, timestamp=T0)

    append(log, timestamp=T0 - 9 * HOUR_MS)

    assert len(log.segments) == 1


def test_age_of_a_segment_is_known_again_after_a_restart() -> None:
    world = World()
    log = world.open(HOURLY)
    append(log, timestamp=T0)
    append(log, timestamp=T0 + 100)
    log.close()

    reopened = world.open(HOURLY, clean=True)
    append(reopened, timestamp=T0 + HOUR_MS)
    same = len(reopened.segments)
    append(reopened, timestamp=T0 + HOUR_MS + 1)

    assert same == 1
    assert reopened.segments.bases() == [0, 3]


def test_compacted_topic_rolls_at_its_compaction_lag_if_that_is_shorter() -> None:
    config = LogConfig(cleanup_policy=("compact",), max_compaction_lag_ms=1000)
    log = World().open(config)
    append(log, timestamp=T0)

    append(log, timestamp=T0 + 1000)
    same = len(log.segments)
    append(log, timestamp=T0 + 1001)

    assert same == 1
    assert len(log.segments) == 2


def test_jitter_is_drawn_for_each_segment_and_taken_off_segment_ms() -> None:
    world = World()
    max_jitter = 20 * 60 * 1000
    config = LogConfig(segment_ms=HOUR_MS, segment_jitter_ms=max_jitter)
    log = world.open(config)
    log.roll(0)
    jitter = log.segments.active.roll_jitter_ms
    append(log, timestamp=None)

    world.clock.advance(ms=HOUR_MS - max_jitter)
    append(log, timestamp=None)
    before_any_jitter = len(log.segments)
    world.clock.advance(ms=max_jitter - jitter)
    append(log, timestamp=None)
    at_its_jitter = len(log.segments)
    world.clock.advance(ms=1)
    append(log, timestamp=None)

    assert 0 < jitter < max_jitter
    assert (before_any_jitter, at_its_jitter, len(log.segments)) == (1, 1, 2)
    assert log.segments.active.roll_jitter_ms != jitter


def test_jitter_is_taken_off_the_compaction_lag_where_that_is_shorter() -> None:
    config = LogConfig(
        cleanup_policy=("compact",), max_compaction_lag_ms=60_000, segment_jitter_ms=HOUR_MS
    )
    log = World().open(config)

    for _ in range(10):
        log.roll()
        append(log, timestamp=T0)
        assert log.segments.active.roll_jitter_ms < 60_000
    rolled = len(log.segments)
    append(log, timestamp=T0)

    assert len(log.segments) == rolled, "no time has passed"


# -- by size --------------------------------------------------------------------------------------


def test_eleven_sets_need_two_segments_where_ten_almost_fit() -> None:
    log = World().open(LogConfig(segment_bytes=10 * (ONE_BYTES - 1)))

    append_ones(log, 11)

    assert log.segments.bases() == [0, 9]


def test_segment_may_be_exactly_segment_bytes_long() -> None:
    log = World().open(LogConfig(segment_bytes=3 * ONE_BYTES))

    append_ones(log, 7)

    assert [segment.size for segment in log.segments] == [210, 210, 70]


# -- by index -------------------------------------------------------------------------------------


def test_rolling_an_empty_active_segment_begins_it_anew_at_the_same_base() -> None:
    world = World()
    log = world.open()
    append_ones(log, 2)
    log.roll()
    log.roll()

    append(log)

    assert log.segments.bases() == [0, 2]
    assert offsets(all_records(log)) == [0, 1, 2]
    log.check_invariants()


def test_index_without_room_for_a_single_entry_still_takes_appends() -> None:
    world = World()
    log = world.open(LogConfig(segment_index_bytes=4, index_interval_bytes=0))

    append_ones(log, 3)

    assert log.segments.bases() == [0, 1, 2]
    assert offsets(all_records(killed(world).open(log.config))) == [0, 1, 2]


def test_full_offset_index_rolls_the_segment() -> None:
    # Three entries of 8 bytes; the time index has room for two of 12 and keeps one for the end.
    log = World().open(LogConfig(index_interval_bytes=0, segment_index_bytes=24))

    append_ones(log, 5, timestamp=None)

    assert len(log.segments) > 1
    assert all(segment.offset_index.entry_count <= 3 for segment in log.segments)


def test_full_time_index_rolls_the_segment_before_its_last_slot_is_taken() -> None:
    world = World()
    log = world.open(LogConfig(index_interval_bytes=0, segment_index_bytes=48))

    for n in range(6):
        append(log, timestamp=T0 + n)

    sealed = log.segments.first
    assert sealed.time_index.entry_count == 3
    assert sealed.time_index.last_entry() == (T0 + 3, 3)
    assert log.segments.bases() == [0, 4]


def test_one_replicated_set_may_bring_more_batches_than_an_index_has_room_for() -> None:
    world = World()
    log = world.open(LogConfig(index_interval_bytes=0, segment_index_bytes=48))
    data = b"".join(stored(n, "a", timestamp=T0 + n) for n in range(20))

    log.append_as_follower(data)
    log.append_as_follower(stored(20, "b"))

    assert log.segments.bases() == [0, 20]
    assert offsets(all_records(killed(world).open(log.config))) == list(range(21))


# -- by offset ------------------------------------------------------------------------------------


def test_replicated_offset_beyond_31_bits_rolls_at_its_own_base() -> None:
    world = World()
    log = world.open()

    log.append_as_follower(stored(0, "a"))
    log.append_as_follower(stored(INT32_MAX + 2, "b") + stored(INT32_MAX + 3, "c"))
    log.close()
    reopened = world.open(clean=True)

    assert reopened.segments.bases() == [0, INT32_MAX + 2]
    assert "00000000002147483649.snapshot" in names(world)
    assert offsets(all_records(reopened)) == [0, INT32_MAX + 2, INT32_MAX + 3]
    assert reopened.log_end_offset == INT32_MAX + 4


def test_replicated_set_with_a_gap_beyond_31_bits_is_spread_over_segments() -> None:
    world = World()
    log = world.open()

    log.append_as_follower(stored(3, "a") + stored(4, "b") + stored(INT32_MAX + 9, "c"))
    log.close()
    reopened = world.open(clean=True)

    assert reopened.segments.bases() == [0, INT32_MAX + 9]
    assert offsets(all_records(reopened)) == [3, 4, INT32_MAX + 9]


def test_offset_of_exactly_31_bits_still_fits() -> None:
    log = World().open()

    log.append_as_follower(stored(0, "a"))
    log.append_as_follower(stored(INT32_MAX, "b"))

    assert log.segments.bases() == [0]


def test_segment_emptied_by_truncation_never_rolls_by_time_but_when_the_offset_does_not_fit() -> (
    None
):
    world = World()
    log = world.open(HOURLY)
    append(log, timestamp=None)
    truncate_to(log, 0)
    world.clock.advance(hours=9)

    log.append_as_follower(stored(5, "a", timestamp=None))
    by_time = log.segments.bases()
    truncate_to(log, 0)
    log.append_as_follower(stored(INT32_MAX + 1, "b"))

    assert by_time == [0]
    assert log.segments.bases() == [0, INT32_MAX + 1]


# -- what a roll leaves behind --------------------------------------------------------------------


def test_roll_seals_the_indexes_and_takes_a_snapshot_at_the_new_base() -> None:
    world = World()
    log = world.open()
    append_ones(log, 3)

    log.roll()

    assert names(world, ".log") == ["00000000000000000000.log", "00000000000000000003.log"]
    assert names(world, ".index") == ["00000000000000000000.index"]
    assert names(world, ".timeindex") == ["00000000000000000000.timeindex"]
    assert names(world, ".snapshot") == ["00000000000000000003.snapshot"]
    assert len(content_of(world, "00000000000000000000.timeindex")) == 12


def test_preallocated_segment_has_its_logical_size_after_a_clean_stop() -> None:
    world = World()
    config = LogConfig(preallocate=True, segment_bytes=4096)
    log = world.open(config)
    append_ones(log, 2)
    while_open = len(content_of(world, "00000000000000000000.log"))
    log.close()

    reopened = world.open(config, clean=True)
    append(reopened)

    assert while_open == 4096
    assert reopened.segments.active.size == 3 * ONE_BYTES
    assert offsets(all_records(reopened)) == [0, 1, 2]


def test_preallocated_segment_loses_its_zeros_after_an_unclean_stop() -> None:
    world = World()
    config = LogConfig(preallocate=True, segment_bytes=4096)
    append_ones(world.open(config), 2)

    reopened = killed(world).open(config)
    append(reopened)

    assert reopened.log_end_offset == 3
    assert offsets(all_records(reopened)) == [0, 1, 2]


def test_leftover_file_under_the_name_of_a_new_segment_does_not_come_back() -> None:
    world = World()
    log = world.open()
    append_ones(log, 2)
    put(disk(world), f"{world.directory}/00000000000000000002.log", stored(2, "old"))

    log.roll()
    append(log)

    assert [record.key for record in all_records(log)] == [b"k"] * 3


@pytest.mark.parametrize("epoch", [0, 5])
def test_roll_leaves_offsets_and_epochs_alone(epoch: int) -> None:
    log = World().open()
    append_ones(log, 3, leader_epoch=epoch)
    replicate_all(log)

    log.roll()

    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 3, 3)
    assert log.epochs.entries() == [(epoch, 0)]
