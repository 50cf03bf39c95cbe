"""Keys numbered as they come: the source over checked pointers, and the compiled code."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels import Hashes, new_table
from ledgerstone.records.kernels.descriptors import NumberCall
from ledgerstone.records.kernels.numbering import number_keys
from ledgerstone.records.kernels.source import numbering as source
from tests.kit.sized import examples
from tests.oracles.checked_pointer import int32s, int64s, uint64s


def numbered(keys: Sequence[int], *, slots: int, limit: int) -> tuple[list[int], int, int]:
    """(numbers, keys in the table, rows done) by the source, over checked memory."""
    number, state = int64s([-7] * len(keys)), int64s([0, 0])
    lengths = int32s([-1 if key < 0 else 1 for key in keys])
    words = uint64s([max(key, 0) for key in keys])
    source.number_keys(
        NumberCall(
            table=uint64s([0] * (3 * slots)),
            slots=slots,
            limit=limit,
            low=words,
            high=words,
            key_length=lengths,
            start=0,
            count=len(keys),
            number=number,
            state=state,
        )
    )
    return number.numbers, state.numbers[0], state.numbers[1]


@examples(100)
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
