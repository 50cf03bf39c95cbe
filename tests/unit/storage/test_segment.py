"""One segment on its own: find, truncate, search by time, rebuild, rename."""

import errno
import zlib

import pytest

from ledgerstone.errors import InvariantViolation, LogStorageError, UnsupportedForMessageFormat
from ledgerstone.records.batch import BatchHeader, read_header
from ledgerstone.records.record import iter_records
from ledgerstone.storage.filenames import DELETED, Kind
from ledgerstone.storage.segment import Segment
from ledgerstone.types import INT32_MAX
from tests.kit.logs import T0, World, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    batches_in,
    content_of,
    disk,
    fill,
    names,
    new_segment,
    put,
    records_in,
    stored,
)


def read_from(segment: Segment, offset: int) -> list[tuple[int, int]]:
    piece = segment.read(offset, max_bytes=1 << 20, end_position=segment.size, min_one_batch=True)
    return batches_in(piece)


def ignore(header: BatchHeader, batch: memoryview) -> None:
    """Ignores the batches that recovery reports."""


# -- read -----------------------------------------------------------------------------------------


def test_read_before_the_first_offset_starts_at_the_first_batch() -> None:
    segment = fill(new_segment(World(), 40), stored(50, "a", "b", "c"))

    assert read_from(segment, 41) == [(50, 52)]


def test_read_past_the_last_offset_finds_nothing() -> None:
    segment = fill(new_segment(World(), 40), stored(50, "a", "b"))

    assert read_from(segment, 51) == [(50, 51)]
    assert segment.find(52) is None


def test_read_in_a_gap_starts_at_the_first_batch_after_it() -> None:
    segment = fill(new_segment(World(), 40), stored(50, "a", "b"), stored(60, "c", "d"))

    assert read_from(segment, 55) == [(60, 61)]


@pytest.mark.parametrize("interval", [0, 100, 4096])
def test_every_offset_is_found_whatever_the_index_density(interval: int) -> None:
    segment = new_segment(World(), 0, index_interval_bytes=interval)
    fill(segment, *[stored(2 * n, "a", "b") for n in range(50)])

    for offset in range(100):
        found = segment.find(offset)
        assert found is not None
        assert found.last_offset == offset | 1


def test_first_batch_of_a_segment_gets_no_index_entry() -> None:
    segment = fill(new_segment(World(), 7, index_interval_bytes=0), stored(7, "a"), stored(8, "b"))

    assert segment.offset_index.entry_count == 1
    assert segment.offset_index.lookup(8) == (8, ONE_BYTES)
    assert segment.offset_index.lookup(7) == (7, 0)


def test_index_entry_is_made_only_past_the_interval() -> None:
    segment = new_segment(World(), 0, index_interval_bytes=2 * ONE_BYTES)

    fill(segment, *[stored(n, "a") for n in range(8)])

    # More than two batches lie between the entries: after three, and after three more.
    segment.offset_index.flush()
    assert segment.offset_index.lookup(3) == (3, 3 * ONE_BYTES)
    assert segment.offset_index.lookup(7) == (6, 6 * ONE_BYTES)
    assert segment.offset_index.entry_count == 2


def test_read_returns_whole_batches_within_the_limit() -> None:
    segment = new_segment(World(), 0, index_interval_bytes=0)
    fill(segment, *[stored(n, "a") for n in range(10)])

    piece = segment.read(
        2, max_bytes=3 * ONE_BYTES + 69, end_position=segment.size, min_one_batch=False
    )

    assert batches_in(piece) == [(2, 2), (3, 3), (4, 4)]


def test_read_of_a_batch_that_is_too_large_is_empty_unless_one_is_wanted() -> None:
    segment = fill(new_segment(World(), 0), stored(0, "a"), stored(1, "b"))

    refused = segment.read(0, max_bytes=69, end_position=segment.size, min_one_batch=False)
    granted = segment.read(0, max_bytes=69, end_position=segment.size, min_one_batch=True)

    assert refused is not None
    assert refused.size == 0
    assert batches_in(granted) == [(0, 0)]


# -- append ---------------------------------------------------------------------------------------


def test_append_beyond_31_bits_is_an_error_before_a_byte_is_written() -> None:
    segment = new_segment(World(), 0)
    data = stored(INT32_MAX + 1, "a")

    with pytest.raises(InvariantViolation, match="does not fit segment 0"):
        segment.append(data, [read_header(data)])

    assert segment.file.size() == 0


def test_failed_write_leaves_neither_bytes_nor_memory_behind() -> None:
    world = World()
    segment = fill(new_segment(world, 0), stored(0, "a"))
    disk(world).fail_matching("pwrite", "*.log", errno.ENOSPC, torn=True)

    with pytest.raises(LogStorageError, match="at 70"):
        fill(segment, stored(1, "b"))

    assert segment.size == segment.file.size() == ONE_BYTES
    assert segment.next_offset() == 1


def test_full_index_takes_no_more_entries_and_every_offset_is_still_found() -> None:
    segment = new_segment(World(), 0, index_interval_bytes=0, segment_index_bytes=36)
    batches = [stored(n, "a", timestamp=T0 + n) for n in range(20)]

    segment.append(b"".join(batches), [read_header(data) for data in batches])

    # Three slots of 12 bytes, one of them for the entry that seals the segment.
    assert segment.time_index.is_full
    assert segment.time_index.entry_count == segment.offset_index.entry_count == 2
    assert [segment.find(n) is not None for n in range(21)] == [True] * 20 + [False]
    segment.seal()
    assert segment.time_index.last_entry() == (T0 + 19, 19)


# -- truncate -------------------------------------------------------------------------------------


def test_truncation_drops_the_batch_that_holds_the_offset_and_all_after_it() -> None:
    segment = new_segment(World(), 40)
    fill(segment, stored(50, "a", "b"), stored(52, "c", "d"), stored(54, "e"))

    dropped = segment.truncate_to(53, now_ms=T0)

    assert read_from(segment, 40) == [(50, 51)]
    assert dropped == len(stored(52, "c", "d")) + ONE_BYTES
    assert segment.file.size() == segment.size
    assert segment.next_offset() == 52


def test_truncation_before_the_first_offset_empties_the_segment() -> None:
    world = World()
    segment = fill(new_segment(world, 40), stored(50, "a", "b"))
    world.clock.advance(hours=1)

    segment.truncate_to(42, now_ms=world.clock.now_ms())

    assert segment.size == 0
    assert segment.next_offset() == 40
    assert segment.created_ms == T0 + 3_600_000
    assert segment.first_timestamp is None


def test_truncation_to_a_gap_keeps_what_lies_before_it() -> None:
    segment = fill(new_segment(World(), 40), stored(40, "a"), stored(50, "b"), stored(60, "c"))

    segment.truncate_to(55, now_ms=T0)

    assert read_from(segment, 40) == [(40, 40), (50, 50)]


def test_truncation_takes_the_index_entries_with_it() -> None:
    segment = new_segment(World(), 0, index_interval_bytes=0)
    fill(segment, *[stored(n, "a", timestamp=T0 + n) for n in range(30)])

    segment.truncate_to(15, now_ms=T0)
    fill(segment, stored(15, "x", timestamp=T0 + 99), stored(16, "y", timestamp=T0))

    assert segment.offset_index.last_offset == 16
    assert segment.max_timestamp == (T0 + 99, 15)
    assert [segment.find(n) is not None for n in (14, 15, 16, 17)] == [True, True, True, False]


def test_truncation_finds_the_largest_timestamp_of_what_is_left() -> None:
    segment = new_segment(World(), 0)
    times = [T0, T0 + 5, T0 + 3, T0 + 9]
    fill(segment, *[stored(n, "a", timestamp=time) for n, time in enumerate(times)])

    segment.truncate_to(3, now_ms=T0)

    assert segment.max_timestamp == (T0 + 5, 1)


def test_truncation_finds_the_first_of_several_largest_timestamps() -> None:
    segment = new_segment(World(), 0)
    times = [T0, T0 + 5, T0 + 5, T0 + 9]
    fill(segment, *[stored(n, "a", timestamp=time) for n, time in enumerate(times)])

    segment.truncate_to(3, now_ms=T0)

    assert segment.max_timestamp == (T0 + 5, 1)


# -- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 2 * ONE_BYTES - 1, 4096])
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (420, (420, 42)),
        (421, (430, 43)),
        (430, (430, 43)),
        (431, (440, 44)),
        (491, None),
        (401, (410, 41)),
        (399, (400, 40)),
    ],
)
def test_search_by_time_finds_the_first_record_at_or_after_it(
    timestamp: int, expected: tuple[int, int] | None, interval: int
) -> None:
    segment = new_segment(World(), 40, index_interval_bytes=interval)
    fill(segment, *[stored(n, "a", timestamp=10 * n) for n in range(40, 50)])

    assert segment.find_by_timestamp(timestamp, 40) == expected


def test_search_by_time_looks_into_batches_and_never_below_the_start_offset() -> None:
    segment = fill(new_segment(World(), 0), stored(0, "a", timestamp=10), stored(1, "b", "c"))

    assert segment.find_by_timestamp(11, 0) == (T0, 1)
    assert segment.find_by_timestamp(11, 2) == (T0, 2)


def test_time_index_entry_names_the_first_batch_with_the_largest_timestamp() -> None:
    segment = new_segment(World(), 0)
    times = [10, 30, 20, 30]
    fill(segment, *[stored(n, "a", timestamp=time) for n, time in enumerate(times)])

    segment.seal()

    assert segment.time_index.last_entry() == (30, 1)
    assert segment.time_index.entry_count == 1


def test_segment_without_timestamps_is_as_old_as_its_file() -> None:
    world = World()
    segment = new_segment(world, 0)
    world.clock.advance(hours=5)

    fill(segment, stored(0, "a", timestamp=None))
    segment.seal()

    assert segment.largest_timestamp == T0 + 5 * 3_600_000
    assert segment.time_index.entry_count == 0


def test_time_zero_is_a_time() -> None:
    segment = fill(new_segment(World(), 0), stored(0, "a", timestamp=0))

    segment.seal()

    assert segment.largest_timestamp == 0
    assert segment.time_index.last_entry() == (0, 0)
    assert segment.time_index.entry_count == 1


# -- rebuild --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.INDEX, Kind.TIME_INDEX])
def test_corrupt_index_bytes_are_rebuilt_by_recovery(kind: Kind) -> None:
    world = World()
    segment = new_segment(world, 0, index_interval_bytes=0)
    fill(segment, *[stored(n, "a", timestamp=10 * n) for n in range(100)])
    segment.seal()
    intact = {name: content_of(world, name) for name in names(world)}
    put(disk(world), segment.path(kind), b"\xa5" * 777, 5)

    damaged = Segment(
        disk(world), world.directory, 0, segment.config, created_ms=T0, size=segment.size
    )
    cut = damaged.recover(ignore, now_ms=T0)

    assert cut == 0
    assert {name: content_of(world, name) for name in names(world)} == intact
    for n in range(100):
        found = damaged.find(n)
        assert found is not None
        assert found.last_offset == n
        assert damaged.find_by_timestamp(10 * n, 0) == (10 * n, n)


@pytest.mark.parametrize("damaged", range(0, 20, 3))
def test_recovery_keeps_exactly_the_batches_before_the_damaged_one(damaged: int) -> None:
    world = World()
    segment = fill(new_segment(world, 0), *[stored(n, "a") for n in range(20)])
    put(disk(world), segment.path(Kind.LOG), b"\xff", damaged * ONE_BYTES + 66)

    cut = segment.recover(ignore, now_ms=T0)

    assert cut == (20 - damaged) * ONE_BYTES
    assert segment.file.size() == segment.size == damaged * ONE_BYTES
    assert read_from(segment, 0) == [(n, n) for n in range(damaged)]


def test_recovery_ends_where_offsets_stop_rising() -> None:
    world = World()
    segment = fill(new_segment(world, 0), stored(0, "a"), stored(1, "b"))
    put(disk(world), segment.path(Kind.LOG), stored(1, "b"), 2 * ONE_BYTES)

    cut = segment.recover(ignore, now_ms=T0)

    assert cut == ONE_BYTES
    assert segment.next_offset() == 2


def test_recovery_with_a_smaller_index_limit_than_before_leaves_entries_out() -> None:
    world = World()
    before = new_segment(world, 0, index_interval_bytes=0)
    fill(before, *[stored(n, "a", timestamp=T0 + n) for n in range(20)])
    before.seal()
    config = new_segment(World(), 0, index_interval_bytes=0, segment_index_bytes=36).config

    after = Segment(disk(world), world.directory, 0, config, created_ms=T0, size=before.size)
    cut = after.recover(ignore, now_ms=T0)

    assert cut == 0
    assert after.next_offset() == 20
    assert after.time_index.last_entry() == (T0 + 19, 19)


def test_segment_that_recovery_empties_begins_its_life_then() -> None:
    world = World()
    segment = fill(new_segment(world, 0), stored(0, "a"))
    put(disk(world), segment.path(Kind.LOG), b"\xff", 66)

    segment.recover(ignore, now_ms=T0 + 1)

    assert segment.size == 0
    assert segment.created_ms == T0 + 1
    assert segment.first_timestamp is None


def test_noise_that_looks_like_an_old_format_is_cut_off() -> None:
    world = World()
    segment = fill(new_segment(world, 0), stored(0, "a"))
    noise = bytearray(b"\x5a" * 90)
    noise[8:12] = (40).to_bytes(4, "big")
    noise[16] = 1
    put(disk(world), segment.path(Kind.LOG), noise, ONE_BYTES)

    cut = segment.recover(ignore, now_ms=T0 + 1)

    assert cut == 90
    assert segment.created_ms == T0
    assert segment.next_offset() == 1


@pytest.mark.parametrize("count", [1, 3])
def test_real_batches_of_an_old_format_are_refused_and_not_cut_off(count: int) -> None:
    world = World()
    segment = new_segment(world, 0)
    # Magic 1: after the crc magic, attributes, timestamp, key and value.
    message = bytes.fromhex("01 00 0000018bcfe56800 00000001 61 00000040") + b"b" * 64
    crc = zlib.crc32(message)
    entry = bytes(8) + (4 + len(message)).to_bytes(4, "big") + crc.to_bytes(4, "big") + message
    put(disk(world), segment.path(Kind.LOG), entry * count)

    with pytest.raises(UnsupportedForMessageFormat, match="magic 1"):
        segment.recover(ignore, now_ms=T0)

    assert segment.file.size() == count * len(entry)


# -- life cycle -----------------------------------------------------------------------------------


def test_indexes_are_created_lazily_and_absent_ones_are_not_renamed_into_being() -> None:
    world = World()
    segment = fill(new_segment(world, 0), stored(0, "a"))
    before = names(world)

    segment.change_suffix(DELETED)

    assert before == ["00000000000000000000.log"]
    assert names(world) == ["00000000000000000000.log.deleted"]


def test_sealing_writes_both_indexes_even_without_entries() -> None:
    world = World()
    segment = new_segment(world, 3)

    segment.seal()

    assert names(world) == [
        "00000000000000000003.index",
        "00000000000000000003.log",
        "00000000000000000003.timeindex",
    ]


def test_renamed_segment_is_read_through_the_handle_it_had() -> None:
    world = World()
    segment = fill(new_segment(world, 0, index_interval_bytes=0), stored(0, "a"), stored(1, "b"))
    piece = segment.read(0, max_bytes=1000, end_position=segment.size, min_one_batch=True)

    segment.change_suffix(DELETED)
    segment.unlink()

    assert names(world) == []
    assert offsets(records_in(piece)) == [0, 1]


def test_preallocated_segment_is_trimmed_when_it_is_sealed() -> None:
    world = World()
    segment = new_segment(world, 0, preallocate=True, segment_bytes=1024)
    fill(segment, stored(0, "a"))
    preallocated = segment.file.size()

    segment.seal()

    assert preallocated == 1024
    assert segment.file.size() == segment.size == ONE_BYTES
    assert [r.key for r in iter_records(segment.file.pread(ONE_BYTES, 0))] == [b"a"]
