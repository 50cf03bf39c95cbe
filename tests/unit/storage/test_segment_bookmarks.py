"""A segment remembers where readers stopped, and that never changes what they get."""

import pytest

from ledgerstone.records.batch import BatchHeader
from ledgerstone.storage.log_reader import read
from ledgerstone.storage.log_shrink import truncate_to
from ledgerstone.storage.offset_index import OffsetIndex, OffsetPosition
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.segment_reader import MAX_BOOKMARKS, FoundBatch
from tests.kit.logs import T0, World
from tests.kit.scenario import ONE_BYTES, append_ones, batches_in, fill, new_segment, stored


def read_some(segment: Segment, offset: int, max_bytes: int) -> list[tuple[int, int]]:
    piece = segment.read(offset, max_bytes=max_bytes, end_position=segment.size, min_one_batch=True)
    segment.check_invariants()
    return batches_in(piece)


def ignore(header: BatchHeader, batch: memoryview) -> None:
    """Ignores the batches that recovery reports."""


@pytest.mark.parametrize("max_bytes", [1, ONE_BYTES, 3 * ONE_BYTES + 7, 1 << 16])
@pytest.mark.parametrize("interval", [0, 300])
def test_reader_that_goes_on_where_it_stopped_meets_every_batch_once(
    max_bytes: int, interval: int
) -> None:
    segment = new_segment(World(), 0, index_interval_bytes=interval)
    fill(segment, *[stored(2 * n, "a") for n in range(700)])
    met: list[tuple[int, int]] = []

    # Each batch leaves a gap behind it, as compaction does.
    while met[-1:] != [(1398, 1398)]:
        met += read_some(segment, met[-1][1] + 1 if met else 0, max_bytes)

    assert met == [(2 * n, 2 * n) for n in range(700)]


def test_reader_that_goes_on_asks_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = new_segment(World(), 0, index_interval_bytes=0)
    fill(segment, *[stored(n, "a") for n in range(10)])
    read_some(segment, 0, 4 * ONE_BYTES)

    def refuse(_: OffsetIndex, offset: int) -> OffsetPosition:
        raise AssertionError(f"the index was asked for {offset}")

    monkeypatch.setattr(OffsetIndex, "lookup", refuse)

    assert read_some(segment, 4, 2 * ONE_BYTES) == [(4, 4), (5, 5)]
    with pytest.raises(AssertionError, match="asked for 5"):
        segment.find(5)


def test_more_readers_than_are_remembered_all_get_what_they_ask_for() -> None:
    segment = new_segment(World(), 0)
    fill(segment, *[stored(n, "a") for n in range(4 * MAX_BOOKMARKS)])
    readers = range(0, 4 * MAX_BOOKMARKS, 2)

    first = [read_some(segment, offset, ONE_BYTES) for offset in readers]
    second = [read_some(segment, offset + 1, ONE_BYTES) for offset in readers]

    assert first == [[(offset, offset)] for offset in readers]
    assert second == [[(offset + 1, offset + 1)] for offset in readers]


def test_reader_that_follows_another_asks_no_index_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segment = new_segment(World(), 0, index_interval_bytes=0)
    fill(segment, *[stored(n, "a") for n in range(10)])
    for offset in range(0, 8, 2):
        read_some(segment, offset, 2 * ONE_BYTES)

    def refuse(_: OffsetIndex, offset: int) -> OffsetPosition:
        raise AssertionError(f"the index was asked for {offset}")

    monkeypatch.setattr(OffsetIndex, "lookup", refuse)

    followed = [read_some(segment, offset, 2 * ONE_BYTES) for offset in range(2, 8, 2)]
    assert followed == [[(n, n), (n + 1, n + 1)] for n in range(2, 8, 2)]


@pytest.mark.parametrize("bookmarked", [False, True])
def test_batch_larger_than_allowed_is_left_out_where_none_is_due(bookmarked: bool) -> None:
    segment = new_segment(World(), 0, index_interval_bytes=0)
    fill(segment, stored(0, "a"), stored(1, "b" * 100_000), stored(2, "c"))
    if bookmarked:
        read_some(segment, 0, ONE_BYTES)

    pieces = [
        segment.read(1, max_bytes=50_000, end_position=segment.size, min_one_batch=is_due)
        for is_due in (False, True)
    ]

    assert [batches_in(piece) for piece in pieces] == [[], [(1, 1)]]


def test_truncation_forgets_where_readers_stopped() -> None:
    segment = fill(new_segment(World(), 0), stored(0, "a", "b"), stored(2, "c"), stored(3, "d"))
    first_bytes = len(stored(0, "a", "b"))
    read_some(segment, 0, first_bytes + ONE_BYTES)

    segment.truncate_to(2, now_ms=T0)
    fill(segment, stored(2, "other", "sizes"), stored(4, "e"))

    assert read_some(segment, 3, 1) == [(2, 3)]


def test_recovery_forgets_where_readers_stopped() -> None:
    segment = fill(new_segment(World(), 0), stored(0, "a"), stored(1, "b"), stored(2, "c"))
    read_some(segment, 0, 2 * ONE_BYTES)
    segment.file.pwrite(b"\xff" * 8, ONE_BYTES + 30)

    segment.recover(ignore, now_ms=T0)

    assert segment.size == ONE_BYTES
    segment.check_invariants()


def test_reader_at_the_end_of_the_log_goes_on_without_a_look_at_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = World().open()
    append_ones(log, 3)
    read(log, 0, max_bytes=1 << 20)
    append_ones(log, 2)

    def refuse(_: Segment, offset: int) -> FoundBatch | None:
        raise AssertionError(f"the file was searched for {offset}")

    monkeypatch.setattr(Segment, "find", refuse)

    assert batches_in(read(log, 3, max_bytes=1 << 20).slice) == [(3, 3), (4, 4)]
    assert batches_in(read(log, 3, max_bytes=ONE_BYTES).slice) == [(3, 3)]
    with pytest.raises(AssertionError, match="searched for 1"):
        read(log, 1, max_bytes=ONE_BYTES)


def test_reader_at_the_end_meets_what_was_written_after_a_truncation() -> None:
    log = World().open()
    append_ones(log, 3)
    read(log, 0, max_bytes=1 << 20)

    truncate_to(log, 1)
    append_ones(log, 4)

    assert batches_in(read(log, 3, max_bytes=1 << 20).slice) == [(3, 3), (4, 4)]


def test_readers_at_the_end_are_forgotten_when_there_are_too_many_and_still_served() -> None:
    log = World().open()

    for offset in range(3 * MAX_BOOKMARKS):
        append_ones(log, 1)
        assert batches_in(read(log, offset, max_bytes=1 << 20).slice) == [(offset, offset)]

    log.segments.active.check_invariants()
    assert batches_in(read(log, 3, max_bytes=ONE_BYTES).slice) == [(3, 3)]
