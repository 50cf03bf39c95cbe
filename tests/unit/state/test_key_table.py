"""Numbers for keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.records.kernels import Hashes
from ledgerstone.records.kernels.key_offsets import slots_of
from ledgerstone.state.key_table import KeyTable, distinct_keys
from tests.kit.sized import examples


def hashes(*keys: int) -> Hashes:
    """Keys that differ in one word only, so that the other alone would mix them up."""
    low = np.array([key % 7 for key in keys], np.uint64)
    return Hashes(low, np.array(keys, np.uint64))


@examples(100)
@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=6))
def test_numbers_count_keys_without_a_hole(windows: list[list[int]]) -> None:
    table, known = KeyTable(), dict[int, int]()

    for window in windows:
        numbers = table.number(hashes(*window), np.zeros(len(window), np.int32)).tolist()
        for key, number in zip(window, numbers, strict=True):
            assert known.setdefault(key, number) == number

    assert sorted(known.values()) == list(range(table.size))
    stored, numbers = table.keys()
    assert dict(zip(stored.high.tolist(), numbers.tolist(), strict=True)) == known


def test_row_without_a_key_gets_no_number() -> None:
    table = KeyTable()

    numbers = table.number(hashes(1, 0, 2), np.array([4, -1, 4], np.int32))

    assert numbers.tolist() == [0, -1, 1]


def test_large_table_takes_at_most_forty_bytes_of_slots_for_a_key() -> None:
    table, rng = KeyTable(), np.random.default_rng(1)
    worst = 0.0

    for _ in range(30):
        drawn = rng.integers(0, 2**64, (2, 100_000), np.uint64)
        table.number(Hashes(drawn[0], drawn[1]), np.zeros(100_000, np.int32))
        if table.size > 1_000_000:
            worst = max(worst, slots_of(table._table) * 24 / table.size)

    assert table.size == 3_000_000
    assert worst <= 40


@examples(50)
@given(st.lists(st.sets(st.integers(0, 30)), max_size=5))
def test_keys_of_several_parts_are_counted_once(parts: list[set[int]]) -> None:
    everything = [key for part in parts for key in sorted(part)]
    expected = {key: everything.count(key) for key in everything}

    found = distinct_keys([hashes(*sorted(part)) for part in parts])

    assert found == (len(expected), sum(count > 1 for count in expected.values()))
