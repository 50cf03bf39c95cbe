"""The offset index: Kafka's rules, the life cycle, and lookups against a sorted list."""

import sys
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import CorruptFile, IndexFull, IndexOutOfOrder, SegmentOffsetOverflow
from ledgerstone.fs import Filesystem
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.index_file import BLOCK_ENTRIES, WARM_ENTRIES
from ledgerstone.storage.offset_index import ENTRY, OffsetIndex, decode_entries
from ledgerstone.types import INT32_MAX

PATH = "/log/00000000000000000045.index"
BASE = 45


def _disk() -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/log")
    return fs


def _index(fs: Filesystem, max_bytes: int = 10_485_760) -> OffsetIndex:
    return OffsetIndex(fs, PATH, BASE, max_bytes)


def _filled(fs: Filesystem, *entries: tuple[int, int]) -> OffsetIndex:
    index = _index(fs)
    for offset, position in entries:
        index.append(offset, position)
    return index


def _content(fs: Filesystem) -> bytes:
    return fs.open(PATH).pread(fs.size_of(PATH), 0)


def _write(fs: Filesystem, data: bytes) -> None:
    fs.open(PATH, create=True).pwrite(data, 0)


def test_lookup_on_an_empty_index_gives_the_beginning() -> None:
    index = _index(_disk())

    assert index.lookup(92) == (BASE, 0)
    assert (index.entry_count, index.last_offset) == (0, BASE)


def test_lookup_below_the_first_entry_gives_the_beginning() -> None:
    index = _filled(_disk(), (50, 100), (60, 200))

    assert index.lookup(49) == (BASE, 0)
    assert index.lookup(0) == (BASE, 0)


def test_lookup_gives_the_largest_entry_at_or_below_the_target() -> None:
    index = _filled(_disk(), (50, 100), (60, 200))

    assert [index.lookup(target) for target in (50, 59, 60, 10_000)] == [
        (50, 100),
        (50, 100),
        (60, 200),
        (60, 200),
    ]


def test_append_to_a_full_index_fails() -> None:
    index = _index(_disk(), max_bytes=30)
    for offset in (46, 47, 48):
        index.append(offset, offset)

    with pytest.raises(IndexFull, match="all 3 entries"):
        index.append(49, 49)

    assert index.is_full
    assert index.last_offset == 48


@pytest.mark.parametrize("offset", [51, 50, BASE])
def test_append_out_of_order_fails(offset: int) -> None:
    index = _filled(_disk(), (51, 0))

    with pytest.raises(IndexOutOfOrder, match=f"offset {offset} after 51"):
        index.append(offset, 1)

    assert index.entry_count == 1


@pytest.mark.parametrize("offset", [BASE - 1, BASE + INT32_MAX + 1])
def test_an_offset_that_does_not_fit_in_31_bits_is_an_overflow(offset: int) -> None:
    with pytest.raises(SegmentOffsetOverflow, match=str(offset)):
        _index(_disk()).append(offset, 0)


def test_the_largest_relative_offset_fits() -> None:
    fs = _disk()
    _filled(fs, (BASE + INT32_MAX, INT32_MAX)).seal()

    assert _index(fs).lookup(BASE + INT32_MAX) == (BASE + INT32_MAX, INT32_MAX)


@pytest.mark.parametrize("sealed", [False, True])
def test_upper_bound_is_the_first_entry_at_or_past_the_end_of_the_read(sealed: bool) -> None:
    index = _filled(_disk(), (BASE + 0, 0), (BASE + 1, 10), (BASE + 2, 23), (BASE + 3, 37))
    if sealed:
        index.seal()

    bounds = [
        index.upper_bound_position(start, size)
        for start, size in [(0, 0), (0, 5), (10, 0), (10, 10), (10, 13), (23, 14), (23, 15)]
    ]

    assert bounds == [
        (BASE + 0, 0),
        (BASE + 1, 10),
        (BASE + 1, 10),
        (BASE + 2, 23),
        (BASE + 2, 23),
        (BASE + 3, 37),
        None,
    ]


def test_upper_bound_of_an_empty_index_is_none() -> None:
    assert _index(_disk()).upper_bound_position(0, 5) is None


def test_floor_position_is_the_last_set_that_begins_at_or_before_the_limit() -> None:
    index = _filled(_disk(), (50, 100), (60, 200))

    assert [index.floor_position(at) for at in (0, 99, 100, 199, 200, 999)] == [
        0,
        0,
        100,
        100,
        200,
        200,
    ]


def test_a_reopened_index_has_what_was_sealed() -> None:
    fs = _disk()
    _filled(fs, (51, 10), (52, 20)).seal()

    index = _index(fs)

    assert (index.entry_count, index.last_offset, index.size_bytes) == (2, 52, 16)
    assert [index.lookup(offset) for offset in (50, 51, 52)] == [(BASE, 0), (51, 10), (52, 20)]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("offset", "kept"), [(12, range(1, 10)), (10, range(1, 10)), (9, range(1, 9)), (5, range(1, 5))]
)
def test_truncation_drops_entries_at_or_above_the_offset(
    offset: int, kept: range, sealed: bool
) -> None:
    fs = _disk()
    index = OffsetIndex(fs, PATH, 0, 10 * 8)
    for entry in range(1, 10):
        index.append(entry, entry)
    if sealed:
        index.seal()

    index.truncate_to(offset)

    assert (index.entry_count, index.last_offset) == (len(kept), kept[-1])
    index.append(100, 100)
    index.flush()
    assert decode_entries(_content(fs)) == [*((i, i) for i in kept), (100, 100)]


def test_truncation_of_written_and_unwritten_entries_leaves_none_behind() -> None:
    fs = _disk()
    index = _filled(fs, (51, 1), (52, 2))
    index.flush()
    index.append(53, 3)

    index.truncate_to(52)
    index.append(60, 9)
    index.seal()

    assert decode_entries(_content(fs), BASE) == [(51, 1), (60, 9)]


def test_truncation_may_reach_below_what_is_in_memory() -> None:
    fs = _disk()
    entries = [(BASE + i, 10 * i) for i in range(2 * BLOCK_ENTRIES)]
    _filled(fs, *entries).seal()
    index = _index(fs)
    index.append(BASE + 5_000, 50_000)

    index.truncate_to(BASE + 5)

    assert (index.entry_count, index.last_offset) == (5, BASE + 4)
    assert index.lookup(BASE + 9_000) == (BASE + 4, 40)
    index.append(BASE + 7, 70)
    index.seal()
    assert decode_entries(_content(fs), BASE) == [*entries[:5], (BASE + 7, 70)]


def test_truncate_all_starts_over_even_from_a_length_that_makes_no_sense() -> None:
    fs = _disk()
    _write(fs, bytes(13))
    index = _index(fs)

    index.truncate_all()
    index.append(46, 7)
    index.flush()

    assert _content(fs) == ENTRY.pack(1, 7)
    index.sanity_check()


def test_the_base_offset_as_the_only_entry_is_sane() -> None:
    fs = _disk()
    _filled(fs, (BASE, 0)).seal()

    _index(fs).sanity_check()

    assert _index(fs).lookup(BASE) == (BASE, 0)


@pytest.mark.parametrize(
    ("content", "position"),
    [
        (ENTRY.pack(1, 1) + b"\0", 9),
        (ENTRY.pack(-1, 1), 0),
        (ENTRY.pack(1, -1), 0),
        (ENTRY.pack(1, 1) + ENTRY.pack(1, 2), 8),
        (ENTRY.pack(3, 1) + ENTRY.pack(0, 0), 8),
        (bytes(10_485_760), 10_485_752),
    ],
    ids=["torn", "below base", "negative position", "repeated", "zero tail", "preallocated"],
)
def test_sanity_check_calls_a_broken_file_corrupt(content: bytes, position: int) -> None:
    fs = _disk()
    _write(fs, content)

    with pytest.raises(CorruptFile) as raised:
        _index(fs).sanity_check()

    assert (raised.value.path, raised.value.position) == (PATH, position)


def test_a_file_shorter_than_its_count_is_corrupt_when_read() -> None:
    fs = _disk()
    index = _filled(fs, (51, 1), (52, 2))
    index.seal()
    fs.open(PATH).truncate(8)

    with pytest.raises(CorruptFile, match="2 entries expected, 8 bytes found"):
        index.lookup(51)


def test_making_and_closing_an_index_touches_nothing() -> None:
    fs = _disk()
    before = fs.operation_count
    index = _index(fs)

    index.flush()
    index.close()

    assert fs.operation_count == before
    assert not index.exists()


def test_entries_are_written_behind_and_only_once() -> None:
    fs = _disk()
    index = _filled(fs, (51, 1))

    existed_before_flush = index.exists()
    index.flush()
    index.append(52, 2)
    index.flush()
    index.flush()

    assert not existed_before_flush
    assert [line for line in fs.trace if line.startswith("pwrite")] == [
        f"pwrite {PATH} 0+8",
        f"pwrite {PATH} 8+8",
    ]


def test_sealing_an_index_without_entries_leaves_an_empty_file() -> None:
    fs = _disk()

    _index(fs).seal()

    assert fs.size_of(PATH) == 0


def test_a_sealed_index_can_become_active_again() -> None:
    fs = _disk()
    _filled(fs, (51, 1), (52, 2)).seal()
    index = _index(fs)

    with pytest.raises(IndexOutOfOrder):
        index.append(52, 3)
    index.append(53, 3)
    index.seal()

    assert decode_entries(_content(fs), BASE) == [(51, 1), (52, 2), (53, 3)]


def test_a_failed_write_is_repeated_by_the_next_flush() -> None:
    fs = _disk()
    index = _filled(fs, (51, 1), (52, 2))
    fs.fail_matching("pwrite", PATH, 28)

    with pytest.raises(OSError, match="No space"):
        index.flush()
    index.flush()

    assert decode_entries(_content(fs), BASE) == [(51, 1), (52, 2)]


def test_renaming_an_index_without_a_file_creates_none() -> None:
    fs = _disk()
    index = _filled(fs, (51, 1))

    index.rename(PATH + ".swap")
    existed = index.exists()
    index.flush()

    assert not existed
    assert fs.list_dir("/log") == ["00000000000000000045.index.swap"]


def test_an_unlinked_index_is_empty_and_stays_away() -> None:
    fs = _disk()
    index = _filled(fs, (51, 1))
    index.flush()

    index.unlink()
    index.close()

    assert fs.list_dir("/log") == []
    assert index.entry_count == 0


def test_a_long_index_keeps_only_its_newest_entries_in_memory() -> None:
    fs = _disk()
    entries = [(BASE + i, 10 * i) for i in range(5 * WARM_ENTRIES)]

    index = _filled(fs, *entries)

    assert fs.size_of(PATH) >= 8 * 3 * WARM_ENTRIES
    assert [index.lookup(offset) for offset, _ in entries[::97]] == entries[::97]
    assert index.lookup(BASE + len(entries)) == entries[-1]


def test_an_idle_index_costs_little_memory() -> None:
    fs = _disk()
    index = _index(fs)
    index.append(51, 1)
    index.seal()
    own = [index.path, index.base_offset, index.max_entries, index.entry_count]

    assert sys.getsizeof(index) + sum(map(sys.getsizeof, own)) < 300
    assert not hasattr(index, "__dict__")


@st.composite
def _entries(draw: st.DrawFn) -> list[tuple[int, int]]:
    count = draw(st.sampled_from([0, 1, 7, BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 3 * BLOCK_ENTRIES]))
    gaps = draw(st.lists(st.integers(1, 1000), min_size=8, max_size=8))
    offset, position, entries = BASE, 0, []
    for i in range(count):
        offset += gaps[i % 8]
        position += gaps[(i * 3 + 1) % 8]
        entries.append((offset, position))
    return entries


@given(entries=_entries(), sealed_after=st.integers(0, 1600), targets=st.data())
def test_lookups_agree_with_a_sorted_list(
    entries: list[tuple[int, int]], sealed_after: int, targets: st.DataObject
) -> None:
    fs = _disk()
    index = _filled(fs, *entries[:sealed_after])
    index.seal()
    for offset, position in entries[sealed_after:]:
        index.append(offset, position)
    highest = entries[-1][0] + 2 if entries else BASE + 2

    for target in targets.draw(st.lists(st.integers(BASE - 2, highest), min_size=5, max_size=20)):
        slot = bisect_right(entries, target, key=lambda entry: entry[0])
        assert index.lookup(target) == (entries[slot - 1] if slot else (BASE, 0))
        above = [entry for entry in entries if entry[1] >= target]
        assert index.upper_bound_position(0, target) == (above[0] if above else None)


@given(
    entries=_entries(), cuts=st.lists(st.tuples(st.integers(0, 1600), st.booleans()), max_size=4)
)
def test_truncation_agrees_with_a_sorted_list(
    entries: list[tuple[int, int]], cuts: list[tuple[int, bool]]
) -> None:
    fs = _disk()
    index = _filled(fs, *entries)
    for slot, sealed in cuts:
        if sealed:
            index.seal()
        cut = entries[slot][0] if slot < len(entries) else BASE + 2_000_000
        index.truncate_to(cut)
        entries = [entry for entry in entries if entry[0] < cut]
        entries.append((cut, entries[-1][1] + 1 if entries else 0))
        index.append(*entries[-1])

    index.seal()

    assert decode_entries(_content(fs), BASE) == entries
