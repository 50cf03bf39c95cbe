"""The time index: Kafka's rules, and lookups against a sorted list."""

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import CorruptFile, IndexFull, IndexOutOfOrder, SegmentOffsetOverflow
from ledgerstone.fs import Filesystem
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.time_index import ENTRY, TimeIndex, decode_entries
from ledgerstone.types import INT32_MAX

PATH = "/log/00000000000000000045.timeindex"
BASE = 45


def _disk() -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/log")
    return fs


def _index(fs: Filesystem, max_bytes: int = 10_485_760) -> TimeIndex:
    return TimeIndex(fs, PATH, BASE, max_bytes)


def _filled(fs: Filesystem, *entries: tuple[int, int]) -> TimeIndex:
    index = _index(fs)
    for timestamp, offset in entries:
        index.maybe_append(timestamp, offset)
    return index


def _content(fs: Filesystem) -> bytes:
    return fs.open(PATH).pread(fs.size_of(PATH), 0)


def test_an_empty_index_ends_at_no_timestamp_and_the_base_offset() -> None:
    index = _index(_disk())

    assert index.last_entry() == (-1, BASE)
    assert index.lookup(100) == (-1, BASE)


@pytest.mark.parametrize("sealed", [False, True])
def test_lookup_gives_the_largest_entry_at_or_below_the_timestamp(sealed: bool) -> None:
    index = _filled(_disk(), (10, 55), (20, 65), (30, 75))
    if sealed:
        index.seal()

    assert [index.lookup(timestamp) for timestamp in (9, 10, 25, 30, 99)] == [
        (-1, BASE),
        (10, 55),
        (20, 65),
        (30, 75),
        (30, 75),
    ]
    assert index.last_entry() == (30, 75)
    assert index.last_offset == 75


def test_one_slot_is_reserved_for_the_forced_entry() -> None:
    index = _index(_disk(), max_bytes=3 * 12 + 11)
    index.maybe_append(10, 55)
    index.maybe_append(20, 65)

    with pytest.raises(IndexFull, match="2 of 3"):
        index.maybe_append(30, 75)
    index.maybe_append(30, 75, skip_full_check=True)

    assert index.is_full
    assert index.last_entry() == (30, 75)


@pytest.mark.parametrize(("timestamp", "offset"), [(40, 74), (29, 76)])
def test_an_entry_that_goes_back_is_refused(timestamp: int, offset: int) -> None:
    index = _filled(_disk(), (30, 75))

    with pytest.raises(IndexOutOfOrder, match="after timestamp 30 offset 75"):
        index.maybe_append(timestamp, offset)

    assert index.last_entry() == (30, 75)


def test_the_same_timestamp_again_changes_nothing() -> None:
    index = _filled(_disk(), (30, 75))

    index.maybe_append(30, 80)

    assert (index.entry_count, index.last_entry()) == (1, (30, 75))


def test_no_timestamp_makes_no_entry() -> None:
    index = _index(_disk())

    index.maybe_append(-1, BASE + 3)

    assert index.entry_count == 0


def test_an_offset_that_does_not_fit_in_31_bits_is_an_overflow() -> None:
    with pytest.raises(SegmentOffsetOverflow):
        _index(_disk()).maybe_append(1, BASE + INT32_MAX + 1)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(("offset", "kept"), [(76, 3), (75, 2), (66, 2), (65, 1), (55, 0), (0, 0)])
def test_truncation_drops_entries_at_or_above_the_offset(
    offset: int, kept: int, sealed: bool
) -> None:
    fs = _disk()
    entries = [(10, 55), (20, 65), (30, 75)]
    index = _filled(fs, *entries)
    if sealed:
        index.seal()

    index.truncate_to(offset)
    index.seal()

    assert decode_entries(_content(fs), BASE) == entries[:kept]


@pytest.mark.parametrize(
    ("content", "position"),
    [
        (ENTRY.pack(10, 1) + b"\0", 13),
        (ENTRY.pack(10, -1), 0),
        (ENTRY.pack(10, 1) + ENTRY.pack(9, 2), 12),
        (ENTRY.pack(99, 1) + ENTRY.pack(10, 2) + ENTRY.pack(20, 3), 24),
        (ENTRY.pack(10, 1) + ENTRY.pack(20, 3) + ENTRY.pack(30, 2), 24),
        (ENTRY.pack(0, 1) + bytes(24), 24),
        (bytes(12), 0),
    ],
    ids=[
        "torn",
        "below base",
        "timestamp goes back",
        "below the first",
        "offset goes back",
        "zero tail",
        "zeros",
    ],
)
def test_sanity_check_calls_a_broken_file_corrupt(content: bytes, position: int) -> None:
    fs = _disk()
    fs.open(PATH, create=True).pwrite(content, 0)

    with pytest.raises(CorruptFile) as raised:
        _index(fs).sanity_check()

    assert (raised.value.path, raised.value.position) == (PATH, position)


def test_a_sealed_index_is_sane_and_has_twelve_bytes_an_entry() -> None:
    fs = _disk()
    _filled(fs, (1_700_000_000_000, 46), (1_700_000_000_001, 50)).seal()

    _index(fs).sanity_check()

    assert _content(fs).hex() == "0000018bcfe5680000000001" + "0000018bcfe5680100000005"


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60),
    seal_at=st.integers(0, 60),
)
def test_lookups_agree_with_a_sorted_list(steps: list[tuple[int, int]], seal_at: int) -> None:
    index = _index(_disk())
    entries: list[tuple[int, int]] = []
    timestamp, offset = 0, BASE
    for at, (later, further) in enumerate(steps):
        if at == seal_at:
            index.seal()
        timestamp += later
        offset += further
        index.maybe_append(timestamp, offset)
        if not entries or timestamp > entries[-1][0]:
            entries.append((timestamp, offset))

    for target in range(-2, timestamp + 3):
        slot = bisect_right(entries, target, key=lambda entry: entry[0])
        assert index.lookup(target) == (entries[slot - 1] if slot else (-1, BASE))
