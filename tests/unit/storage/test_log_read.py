"""Reading: bounds by reader, whole batches, gaps, aborted transactions, search by time."""

import errno
from itertools import count

import pytest

from ledgerstone.errors import LogStorageError, OffsetOutOfRange
from ledgerstone.records import record
from ledgerstone.records.batch import BATCH_LENGTH_AT, BatchHeader, Codec, write_crc
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.filenames import DELETED
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_reader import (
    FetchIsolation,
    collect_aborted,
    offset_for_timestamp,
    offset_of_max_timestamp,
    read,
)
from ledgerstone.storage.log_shrink import delete_old_segments, swap_segments
from ledgerstone.storage.segment import Segment
from ledgerstone.types import INT64_MAX, Buffer
from tests.kit.logs import T0, World, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    append_txn,
    batches_in,
    cleaned_copy,
    end_txn,
    names,
    records_in,
    replicate_all,
    stored,
)

SMALL = LogConfig(segment_bytes=3 * ONE_BYTES, index_interval_bytes=0)


def ten_ones(config: LogConfig | None = None) -> PartitionLog:
    log = World().open(config or LogConfig())
    append_ones(log, 10)
    return log


def read_all(log: PartitionLog, isolation: FetchIsolation = FetchIsolation.LOG_END) -> list[int]:
    """Fetches as a client does: from the end of the last batch, until nothing comes."""
    found: list[int] = []
    offset = log.log_start_offset
    while True:
        result = read(log, offset, max_bytes=1 << 20, isolation=isolation)
        batches = batches_in(result.slice)
        if not batches:
            return found
        found.extend(offsets(records_in(result.slice)))
        offset = batches[-1][1] + 1


# -- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-1, 1, 11, INT64_MAX])
def test_read_outside_the_log_is_out_of_range(offset: int) -> None:
    log = ten_ones()
    replicate_all(log)
    log.raise_log_start_offset(2)

    with pytest.raises(OffsetOutOfRange, match=r"outside \[2, 10\]"):
        read(log, offset, max_bytes=1000)


@pytest.mark.parametrize("isolation", list(FetchIsolation))
def test_what_a_failed_append_left_behind_the_end_is_not_read(isolation: FetchIsolation) -> None:
    """The marker is in the file, its entry in the index is not: the append has failed."""
    world = World()
    log = world.open()
    append_txn(log, 1, 0)
    replicate_all(log)
    assert isinstance(world.fs, SimFilesystem)
    world.fs.fail_matching("pwrite", "*.txnindex", errno.EIO)
    with pytest.raises(LogStorageError):
        end_txn(log, 1, commit=False)

    result = read(log, 0, max_bytes=1 << 20, isolation=isolation)

    assert all(last < log.log_end_offset for _, last in batches_in(result.slice))


def test_read_at_the_end_finds_nothing_yet() -> None:
    result = read(ten_ones(), 10, max_bytes=1000)

    assert result.slice is None
    assert (result.log_start_offset, result.high_watermark, result.last_stable_offset) == (0, 0, 0)


@pytest.mark.parametrize("config", [LogConfig(), SMALL])
def test_each_reader_sees_as_far_as_it_may(config: LogConfig) -> None:
    log = World().open(config)
    append_ones(log, 4)
    append_txn(log, 7, 0)
    append_ones(log, 5)
    log.advance_high_watermark(8)

    assert read_all(log, FetchIsolation.LOG_END) == list(range(10))
    assert read_all(log, FetchIsolation.HIGH_WATERMARK) == list(range(8))
    assert read_all(log, FetchIsolation.TXN_COMMITTED) == list(range(4))
    assert log.last_stable_offset == 4


def test_decided_transaction_is_stable_once_its_marker_is_replicated() -> None:
    log = World().open()
    append_txn(log, 7, 0)
    end_txn(log, 7, commit=True)
    append_ones(log, 1)

    log.advance_high_watermark(1)
    before = log.last_stable_offset
    log.advance_high_watermark(2)

    assert before == 0
    assert log.last_stable_offset == 2
    assert log.first_unstable_offset is None


def test_stable_offset_follows_the_oldest_open_transaction() -> None:
    log = World().open()
    append_ones(log, 1)
    append_txn(log, 7, 0)
    append_txn(log, 8, 0)
    append_ones(log, 1)
    stable = []

    replicate_all(log)
    stable.append(log.last_stable_offset)
    end_txn(log, 7, commit=False)
    replicate_all(log)
    stable.append(log.last_stable_offset)
    end_txn(log, 8, commit=True)
    replicate_all(log)
    stable.append(log.last_stable_offset)

    assert stable == [1, 2, 6]


def test_batch_across_the_high_watermark_is_not_returned() -> None:
    log = World().open()
    append(log, ("a", "1"), ("b", "2"))
    append(log, ("c", "3"), ("d", "4"))
    log.advance_high_watermark(3)

    result = read(log, 0, max_bytes=1000, isolation=FetchIsolation.HIGH_WATERMARK)

    assert batches_in(result.slice) == [(0, 1)]


def test_high_watermark_never_passes_the_end_and_never_goes_back() -> None:
    log = ten_ones()

    moved = [log.advance_high_watermark(offset) for offset in (5, 3, 99, 10)]

    assert moved == [True, False, True, False]
    assert log.high_watermark == 10


# -- how much -------------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 4096])
@pytest.mark.parametrize(
    ("max_bytes", "batches"),
    [(ONE_BYTES, 1), (2 * ONE_BYTES - 1, 1), (2 * ONE_BYTES, 2), (5 * ONE_BYTES + 1, 5)],
)
def test_read_returns_as_many_whole_batches_as_fit(
    max_bytes: int, batches: int, interval: int
) -> None:
    log = ten_ones(LogConfig(index_interval_bytes=interval))

    result = read(log, 3, max_bytes=max_bytes)

    assert batches_in(result.slice) == [(3 + n, 3 + n) for n in range(batches)]


@pytest.mark.parametrize("max_bytes", [0, 1, ONE_BYTES - 1])
def test_first_batch_comes_whole_however_small_the_limit(max_bytes: int) -> None:
    log = ten_ones()

    assert batches_in(read(log, 3, max_bytes=max_bytes).slice) == [(3, 3)]


def test_first_batch_is_held_back_where_another_partition_has_had_its_turn() -> None:
    log = ten_ones()

    result = read(log, 3, max_bytes=ONE_BYTES - 1, min_one_batch=False)

    assert result.slice is not None
    assert result.slice.size == 0


def test_read_inside_a_batch_returns_the_whole_batch() -> None:
    log = World().open()
    append(log, ("a", "1"), ("b", "2"), ("c", "3"))

    assert batches_in(read(log, 1, max_bytes=1000).slice) == [(0, 2)]


def test_batch_across_the_log_start_is_served_whole() -> None:
    log = World().open()
    append(log, ("a", "1"), ("b", "2"), ("c", "3"))
    replicate_all(log)
    log.raise_log_start_offset(1)

    assert batches_in(read(log, 1, max_bytes=1000).slice) == [(0, 2)]


def test_read_does_not_cross_into_the_next_segment() -> None:
    log = ten_ones(SMALL)

    assert batches_in(read(log, 1, max_bytes=1000).slice) == [(1, 1), (2, 2)]
    assert read_all(log) == list(range(10))


# -- gaps and files that go -----------------------------------------------------------------------


def test_read_in_a_gap_continues_with_the_next_segment_that_has_something() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)
    first_two = list(log.segments)[:2]
    new = cleaned_copy(world, log, 0, keep=[0, 1])

    swap_segments(log, new=[new], old=first_two)

    assert log.segments.bases() == [0, 6, 9]
    assert batches_in(read(log, 1, max_bytes=1000).slice) == [(1, 1)]
    for offset in range(2, 6):
        assert batches_in(read(log, offset, max_bytes=1000).slice)[0] == (6, 6)
    assert read_all(log) == [0, 1, 6, 7, 8, 9]


def test_read_in_a_gap_respects_the_bound_of_its_reader() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)
    swap_segments(log, new=[cleaned_copy(world, log, 0, keep=[0])], old=list(log.segments)[:2])
    log.advance_high_watermark(5)

    result = read(log, 3, max_bytes=1000, isolation=FetchIsolation.HIGH_WATERMARK)

    assert result.slice is None


def test_read_in_a_gap_before_the_high_watermark_waits_for_the_batch_after_it() -> None:
    log = World().open()
    log.append_as_follower(stored(0, "a") + stored(10, "b"))
    log.advance_high_watermark(5)

    result = read(log, 3, max_bytes=1000, isolation=FetchIsolation.HIGH_WATERMARK)

    assert result.slice is None


def test_slice_stays_readable_after_its_segment_was_swapped_out_and_unlinked() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 7)
    piece = read(log, 0, max_bytes=1000).slice
    swap_segments(log, new=[cleaned_copy(world, log, 0, keep=[2])], old=[log.segments.first])

    renamed = offsets(records_in(piece))
    world.clock.advance(ms=log.config.file_delete_delay_ms)
    log.deleted_files.unlink_due(world.clock.now_ms())

    assert renamed == [0, 1, 2]
    assert names(world, DELETED) == []
    assert offsets(records_in(piece)) == [0, 1, 2]
    assert offsets(records_in(read(log, 0, max_bytes=1000).slice)) == [2]


def test_slice_stays_readable_after_retention_took_its_segment() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=3 * ONE_BYTES, retention_bytes=0))
    append_ones(log, 7)
    replicate_all(log)
    piece = read(log, 3, max_bytes=1000).slice

    delete_old_segments(log)
    world.clock.advance(days=1)
    log.deleted_files.unlink_due(world.clock.now_ms())

    assert log.log_start_offset == 7
    assert offsets(records_in(piece)) == [3, 4, 5]


# -- aborted transactions -------------------------------------------------------------------------


def test_read_committed_lists_the_aborted_transactions_of_its_range() -> None:
    log = World().open(LogConfig(index_interval_bytes=0))
    append_txn(log, 1, 0)
    end_txn(log, 1, commit=False)
    append_txn(log, 2, 0)
    end_txn(log, 2, commit=True)
    append_txn(log, 3, 0)
    end_txn(log, 3, commit=False)
    replicate_all(log)

    everything = read(log, 0, max_bytes=10_000, isolation=FetchIsolation.TXN_COMMITTED)
    only_first = read(log, 0, max_bytes=1, isolation=FetchIsolation.TXN_COMMITTED)
    uncommitted = read(log, 0, max_bytes=10_000, isolation=FetchIsolation.HIGH_WATERMARK)

    assert everything.aborted == ((1, 0), (3, 4))
    assert only_first.aborted == ((1, 0),)
    assert uncommitted.aborted == ()


def test_marker_in_a_later_segment_still_tells_about_the_records_before() -> None:
    log = World().open(SMALL)
    append_txn(log, 1, 0)
    append_ones(log, 8)
    end_txn(log, 1, commit=False)
    append_ones(log, 4)
    replicate_all(log)

    first = read(log, 0, max_bytes=ONE_BYTES, isolation=FetchIsolation.TXN_COMMITTED)
    after = read(log, 10, max_bytes=ONE_BYTES, isolation=FetchIsolation.TXN_COMMITTED)

    assert len(log.segments) > 3
    assert first.aborted == ((1, 0),)
    assert after.aborted == ()


def test_interleaved_transactions_are_listed_by_the_order_of_their_markers() -> None:
    log = World().open(SMALL)
    append_txn(log, 1, 0)
    append_txn(log, 2, 0)
    append_txn(log, 3, 0)
    end_txn(log, 2, commit=False)
    end_txn(log, 3, commit=True)
    end_txn(log, 1, commit=False)
    replicate_all(log)

    assert collect_aborted(log, 0, 6) == ((2, 1), (1, 0))
    assert collect_aborted(log, 1, 2) == ((2, 1), (1, 0))
    assert collect_aborted(log, 4, 6) == ((1, 0),)
    assert collect_aborted(log, 0, 1) == ((1, 0),)


# -- search by time -------------------------------------------------------------------------------


def timed(*timestamps: int | None, config: LogConfig = SMALL) -> PartitionLog:
    log = World().open(config)
    for timestamp in timestamps:
        append(log, timestamp=timestamp)
    return log


def test_search_by_time_crosses_segments() -> None:
    log = timed(*[T0 + 10 * n for n in range(10)])

    assert offset_for_timestamp(log, T0 - 5) == (T0, 0)
    assert offset_for_timestamp(log, T0 + 31) == (T0 + 40, 4)
    assert offset_for_timestamp(log, T0 + 90) == (T0 + 90, 9)
    assert offset_for_timestamp(log, T0 + 91) is None


def test_search_by_time_skips_segments_that_are_too_old() -> None:
    log = timed(T0 + 500, T0, T0, T0 + 1, T0 + 2, T0 + 3, T0 + 600)

    assert offset_for_timestamp(log, T0 + 2) == (T0 + 500, 0)
    assert offset_for_timestamp(log, T0 + 501) == (T0 + 600, 6)


def test_search_by_time_never_answers_below_the_log_start() -> None:
    log = timed(*[T0 + 10 * n for n in range(10)])
    replicate_all(log)
    log.raise_log_start_offset(4)

    assert offset_for_timestamp(log, T0) == (T0 + 40, 4)


def test_search_by_time_in_a_log_without_records_finds_nothing() -> None:
    log = World().open()

    assert offset_for_timestamp(log, 0) is None
    assert offset_of_max_timestamp(log) is None


def test_search_by_time_where_no_record_has_a_time_finds_nothing() -> None:
    log = timed(None, None, None)

    assert offset_for_timestamp(log, T0 - 1) is None


def test_search_by_time_finds_the_record_behind_segments_without_times() -> None:
    log = timed(None, None, None, T0 + 5, T0 + 6)

    assert offset_for_timestamp(log, T0 + 6) == (T0 + 6, 4)


def test_largest_timestamp_is_found_wherever_it_is_and_the_first_of_equals_wins() -> None:
    log = timed(T0, T0 + 70, T0 + 1, T0 + 2, T0 + 70, T0 + 3, T0 + 4)

    assert offset_of_max_timestamp(log) == (T0 + 70, 1)


def test_largest_timestamp_is_known_after_a_restart() -> None:
    world = World()
    log = world.open()
    for timestamp in (T0, T0 + 70, T0 + 1):
        append(log, timestamp=timestamp)
    log.close()

    assert offset_of_max_timestamp(world.open(clean=True)) == (T0 + 70, 1)


def test_largest_timestamp_below_the_log_start_does_not_count() -> None:
    log = timed(T0 + 70, T0 + 1, T0 + 2, T0 + 3, T0 + 4)
    replicate_all(log)
    log.raise_log_start_offset(1)

    assert offset_of_max_timestamp(log) == (T0 + 4, 4)


def test_largest_timestamp_may_lie_at_the_log_start_inside_a_batch() -> None:
    log = World().open()
    times = [T0 + 90, T0 + 80, T0 + 70]
    log.append_as_leader(build_batch([(t, b"k", b"v", ()) for t in times]), leader_epoch=0)
    replicate_all(log)
    log.raise_log_start_offset(1)

    assert offset_of_max_timestamp(log) == (T0 + 80, 1)


@pytest.mark.parametrize("first", [T0, T0 + 900])
def test_largest_timestamp_is_found_without_reading_all_batches_behind_the_log_start(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Every batch has a larger timestamp than all before it, but perhaps one that was deleted."""
    log = timed(first, *(T0 + number for number in range(1, 100)), config=LogConfig())
    replicate_all(log)
    log.raise_log_start_offset(1)
    payloads = count()
    payload_at = Segment.payload_at

    def counted(segment: Segment, position: int, header: BatchHeader) -> Buffer:
        next(payloads)
        return payload_at(segment, position, header)

    monkeypatch.setattr(Segment, "payload_at", counted)

    assert offset_of_max_timestamp(log) == (T0 + 99, 99)
    assert next(payloads) <= 2


def test_search_by_time_takes_no_step_of_python_for_each_of_very_many_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = World().open()
    times = [T0] * 20_000 + [T0 + 1]
    log.append_as_leader(build_batch([(t, b"k", b"", ()) for t in times]), leader_epoch=0)
    steps = count()
    read_span = record._read_span
    monkeypatch.setattr(record, "_read_span", lambda *at: (next(steps), read_span(*at))[1])

    assert offset_for_timestamp(log, T0 + 1) == (T0 + 1, 20_000)
    assert offset_of_max_timestamp(log) == (T0 + 1, 20_000)
    assert next(steps) < 10_000


def test_search_by_time_does_not_mind_a_header_key_that_is_no_text() -> None:
    log = World().open()
    data = build_batch([(T0, b"k", b"v", (("key", b"1"),)), (T0 + 1, b"k", b"v", ())])
    data[data.index(b"key")] = 0xFF
    write_crc(data, 0, len(data))
    log.append_as_leader(data, leader_epoch=0)

    assert offset_for_timestamp(log, T0 + 1) == (T0 + 1, 1)


def test_search_by_time_unpacks_what_the_topic_lets_in() -> None:
    log = World().open(LogConfig(max_message_bytes=16 << 20))
    parts: list[RecordParts] = [(T0, b"k", bytes(50 << 20), ()), (T0 + 1, b"k", b"", ())]
    log.append_as_leader(build_batch(parts, codec=Codec.ZSTD), leader_epoch=0)

    assert offset_for_timestamp(log, T0 + 1) == (T0 + 1, 1)


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reaches", [1 << 12, 1 << 30])
def test_batch_whose_length_reaches_too_far_is_damage_when_it_is_first_read(reaches: int) -> None:
    world = World()
    config = LogConfig(index_interval_bytes=0)
    log = world.open(config)
    append_ones(log, 10)
    log.close()
    flip_length(world, 3 * ONE_BYTES, reaches)

    log = world.open(config, clean=True, recovery_point=10)
    found = read(log, 0, max_bytes=1 << 20)

    assert offsets(records_in(found.slice)) == [0, 1, 2]
    assert log.damage is not None
    assert [(each.position, each.size_bytes) for each in log.damage] == [(3 * ONE_BYTES, ONE_BYTES)]
    assert offsets(records_in(read(log, 4, max_bytes=1 << 20).slice)) == [4, 5, 6, 7, 8, 9]


def flip_length(world: World, position: int, bits: int) -> None:
    assert world.fs is not None
    file = world.fs.open(f"{world.directory}/00000000000000000000.log")
    length = int.from_bytes(file.pread(4, position + BATCH_LENGTH_AT), "big")
    file.pwrite((length ^ bits).to_bytes(4, "big"), position + BATCH_LENGTH_AT)
