"""Folding kernels: the sources over checked pointers, and the compiled code against a dict."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import Hashes, new_table, walk
from ledgerstone.records.kernels.folding import hash_contents, mark_rows, number_keys
from ledgerstone.records.kernels.source import folding as source
from ledgerstone.records.kernels.source.siphash import BAD_SPAN
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s, uint64s
from tests.oracles.plain_siphash import siphash128

SEED = bytes(range(16))
NO_RECORD = source.NO_RECORD


def numbered(keys: Sequence[int], *, slots: int, limit: int) -> tuple[list[int], int, int]:
    """(numbers, keys in the table, rows done) by the source, over checked memory."""
    number, state = int64s([-7] * len(keys)), int64s([0, 0])
    lengths = int32s([-1 if key < 0 else 1 for key in keys])
    words = uint64s([max(key, 0) for key in keys])
    source.number_keys(
        uint64s([0] * (3 * slots)), slots, limit, words, words, lengths, 0, len(keys), number, state
    )
    return number.numbers, state.numbers[0], state.numbers[1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-1, 6), max_size=20), st.integers(0, 8))
def test_numbering_stays_in_bounds_and_compiled_gives_the_same(keys: list[int], limit: int) -> None:
    words = np.array([max(key, 0) for key in keys], np.uint64)
    lengths = np.array([-1 if key < 0 else 1 for key in keys], np.int32)
    numbers = np.full(len(keys), -7, np.int64)

    report = number_keys(
        new_table(8), Hashes(words, words), lengths, numbers, start=0, size=0, limit=limit
    )

    assert (numbers.tolist(), *report) == numbered(keys, slots=8, limit=limit)
    firsts = list(dict.fromkeys(key for key in keys if key >= 0))
    known = {key: number for number, key in enumerate(firsts[:limit])}
    assert numbers.tolist()[: report.done] == [known.get(key, -1) for key in keys[: report.done]]
    assert report.done == len(keys) or keys[report.done] not in known


def test_table_without_a_free_slot_is_refused() -> None:
    words = np.arange(3, dtype=np.uint64)

    with pytest.raises(InvariantViolation, match="leave no slot of 2"):
        number_keys(
            new_table(2),
            Hashes(words, words),
            np.ones(3, np.int32),
            np.empty(3, np.int64),
            start=0,
            size=0,
            limit=9,
        )


def test_number_above_the_marks_is_refused_and_nothing_is_written_there() -> None:
    columns = walk(build_batch([(1, b"k", b"v", ())]))
    numbers, marks = np.array([1], np.int64), np.full(1, NO_RECORD, np.int64)

    with pytest.raises(InvariantViolation, match="above 1 marks"):
        mark_rows(columns, numbers, marks)
    with pytest.raises(InvariantViolation, match="outside its window"):
        hash_contents(columns, numbers, marks, Hashes(*np.zeros((2, 1), np.uint64)), SEED)

    assert marks.tolist() == [NO_RECORD]


def test_marks_and_turns_follow_the_order_of_the_records() -> None:
    story = [(b"a", b"1"), (b"b", b"2"), (b"a", None), (b"a", b"3"), (b"c", None), (b"b", None)]
    columns = walk(build_batch([(1, key, value, ()) for key, value in story]))
    numbers = np.array([0, 1, 0, 0, 2, 1], np.int64)
    marks = np.full(3, NO_RECORD, np.int64)

    turns = mark_rows(columns, numbers, marks)

    assert marks.tolist() == [3, ~5, ~4]
    assert turns == (3, 2, 1)


def test_only_the_latest_live_record_of_a_key_is_hashed() -> None:
    batch = build_batch([(1, b"a", b"old", ()), (1, b"a", b"new", ()), (1, b"b", None, ())])
    columns = walk(batch)
    contents = Hashes(*np.full((2, 2), 9, np.uint64))

    odd = hash_contents(
        columns, np.array([0, 0, 1], np.int64), np.array([1, ~2], np.int64), contents, SEED
    )

    expected = siphash128(b"\x02a\x06new", SEED)
    assert odd.tolist() == []
    assert (contents.low.tolist(), contents.high.tolist()) == ([expected[0], 9], [expected[1], 9])


@pytest.mark.parametrize("key_start", [-1, 0, 3, 2**62, -(2**63)])
@pytest.mark.parametrize("value_start", [-5, 2, 9, 2**62])
@pytest.mark.parametrize("lengths", [(1, 3), (2**31 - 1, 0), (0, 2**31 - 1), (100, 4)])
def test_contents_believe_no_span(
    key_start: int, value_start: int, lengths: tuple[int, int]
) -> None:
    data = CheckedPointer(b"\x02a\x06new..")
    report = int64s([0])

    status = source.hash_contents(
        data, 8, CheckedPointer(b""), 8, int64s([1]), int64s([key_start]), int32s([lengths[0]]),
        int64s([value_start]), int32s([lengths[1]]), int64s([0]), 1, int64s([1]), 1, 1, 2,
        uint64s([0]), uint64s([0]), int64s([0]), report,
    )  # fmt: skip

    assert status in (0, BAD_SPAN)
