"""The index of aborted transactions: format, search, truncation."""

import pytest

from ledgerstone.errors import CorruptFile, IndexOutOfOrder
from ledgerstone.fs import Filesystem
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.txn_index import (
    PIECE_ENTRIES,
    AbortedTxnEntry,
    TxnIndex,
    decode_entries,
    encode_entry,
)

PATH = "/log/00000000000000000000.txnindex"
GOLDEN = bytes.fromhex("0000000000000000002a0000000000000064000000000000006e000000000000006f")
GOLDEN_ENTRY = AbortedTxnEntry(42, 100, 110, 111)
ENTRIES = [
    AbortedTxnEntry(0, 0, 10, 11),
    AbortedTxnEntry(1, 5, 15, 13),
    AbortedTxnEntry(2, 18, 35, 25),
    AbortedTxnEntry(3, 32, 50, 40),
]


def _disk() -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/log")
    return fs


def _filled(fs: Filesystem) -> TxnIndex:
    index = TxnIndex(fs, PATH, 0)
    for entry in ENTRIES:
        index.append(entry)
    return index


def test_an_entry_has_kafkas_bytes() -> None:
    assert encode_entry(GOLDEN_ENTRY) == GOLDEN
    assert decode_entries(GOLDEN) == [GOLDEN_ENTRY]


def test_there_is_no_file_before_the_first_entry() -> None:
    fs = _disk()
    index = TxnIndex(fs, PATH, 0)
    before = fs.operation_count

    index.sanity_check()
    index.truncate_to(0)
    index.reset()
    index.flush()
    index.rename(PATH + ".swap")
    index.unlink()
    index.close()

    assert (index.entries(), index.collect(0, 100)) == ([], ([], False))
    assert fs.operation_count == before


def test_entries_are_written_through_at_once() -> None:
    fs = _disk()

    _filled(fs)

    assert TxnIndex(fs, PATH, 0).entries() == ENTRIES
    assert fs.size_of(PATH) == 34 * len(ENTRIES)


@pytest.mark.parametrize(
    ("start", "end", "expected", "is_complete"),
    [
        (0, 100, ENTRIES, False),
        (0, 32, ENTRIES[:3], True),
        (0, 40, ENTRIES, True),
        (11, 35, ENTRIES[1:], True),
        (20, 41, ENTRIES[2:], False),
        (20, 25, ENTRIES[2:3], True),
        (51, 60, [], False),
    ],
)
def test_collect_finds_overlapping_transactions_and_says_when_these_are_all(
    start: int, end: int, expected: list[AbortedTxnEntry], is_complete: bool
) -> None:
    index = _filled(_disk())

    assert index.collect(start, end) == (expected, is_complete)


@pytest.mark.parametrize("start", [0, 1, 3999, 4000, 4001, 20_000, 50_000])
@pytest.mark.parametrize("length", [1, 7, 5000])
def test_long_index_is_searched_and_gives_what_a_plain_walk_gives(start: int, length: int) -> None:
    """Transactions of two offsets and a marker, every fourth open until the next three are over."""
    fs = _disk()
    entries = []
    for number in range(4 * PIECE_ENTRIES):
        first = 4 * number if number % 4 else 4 * (number - number % 4)
        last = 4 * number + 3 if number % 4 else 4 * number + 2
        entries.append(AbortedTxnEntry(number, first, last, min(last + 1, first + 4)))
    file = fs.open(PATH, create=True)
    file.pwrite(b"".join(map(encode_entry, entries)), 0)
    index, end = TxnIndex(fs, PATH, 0), start + length

    expected = []
    for entry in entries:
        if entry.last_offset >= start and entry.first_offset < end:
            expected.append(entry)
        if entry.last_stable_offset >= end:
            break
    found, is_complete = index.collect(start, end)

    assert found == expected
    assert is_complete == (entry.last_stable_offset >= end)


@pytest.mark.parametrize("last_offset", [50, 49])
def test_a_last_offset_that_does_not_increase_is_refused(last_offset: int) -> None:
    fs = _disk()
    _filled(fs)
    index = TxnIndex(fs, PATH, 0)

    with pytest.raises(IndexOutOfOrder, match=f"{last_offset} after 50"):
        index.append(AbortedTxnEntry(9, 40, last_offset, 60))

    assert index.entries() == ENTRIES


@pytest.mark.parametrize(("offset", "kept"), [(51, 4), (50, 3), (11, 1), (10, 0), (0, 0)])
def test_truncation_cuts_at_the_first_transaction_that_ends_there_or_later(
    offset: int, kept: int
) -> None:
    fs = _disk()
    index = _filled(fs)

    index.truncate_to(offset)

    assert index.entries() == ENTRIES[:kept]
    assert fs.size_of(PATH) == 34 * kept


def test_an_index_of_another_segment_is_corrupt() -> None:
    fs = _disk()
    _filled(fs)
    TxnIndex(fs, PATH, 0).sanity_check()

    with pytest.raises(CorruptFile, match="last offset 10 is below base offset 100"):
        TxnIndex(fs, PATH, 100).sanity_check()


def test_a_torn_entry_is_corrupt_and_the_whole_ones_stay_readable() -> None:
    fs = _disk()
    _filled(fs)
    fs.open(PATH).truncate(34 * 3 + 20)
    index = TxnIndex(fs, PATH, 0)

    with pytest.raises(CorruptFile, match="length 122"):
        index.sanity_check()

    assert index.entries() == ENTRIES[:3]


def test_an_unknown_version_is_corrupt() -> None:
    with pytest.raises(CorruptFile, match="at 34: version 1"):
        decode_entries(GOLDEN + b"\0\1" + GOLDEN[2:])


def test_reset_starts_over() -> None:
    fs = _disk()
    index = _filled(fs)

    index.reset()
    index.append(GOLDEN_ENTRY)

    assert fs.open(PATH).pread(100, 0) == GOLDEN


def test_a_renamed_index_goes_on_under_its_new_name() -> None:
    fs = _disk()
    index = _filled(fs)

    index.rename(PATH + ".swap")
    index.append(GOLDEN_ENTRY)

    assert fs.list_dir("/log") == ["00000000000000000000.txnindex.swap"]
    assert index.entries() == [*ENTRIES, GOLDEN_ENTRY]
