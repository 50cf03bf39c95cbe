"""The map from keys to offsets. Numbers in docstrings are scenarios of the storage fact sheet."""

import numpy as np
import pytest

from ledgerstone.cleaner.offset_map import FIRST_SLOTS, SLOT_BYTES, OffsetMap
from ledgerstone.errors import CorruptRecord
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import Columns, walk
from ledgerstone.records.kernels.key_offsets import slots_of
from ledgerstone.records.kernels.source import key_offsets as source
from tests.oracles.checked_pointer import CheckedPointer, OutOfBounds, int32s, int64s, uint64s

SEED = bytes(range(16))


def _window(*keys: str | None, base_offset: int = 0, value: bytes | None = b"v") -> Columns:
    encoded = [None if key is None else key.encode() for key in keys]
    return walk(
        build_batch([(1, key, value, ()) for key in encoded], base_offset=base_offset),
    )


def _map(slots: int, *, load_factor: float = 1.0) -> OffsetMap:
    return OffsetMap(slots * SLOT_BYTES, load_factor=load_factor, seed=SEED, latest_offset=-1)


@pytest.mark.parametrize("count", [10, 100, 1000, 10_000])
def test_every_key_is_found_with_its_last_offset(count: int) -> None:
    """69."""
    offset_map = _map(2 * count)
    window = _window(*[f"key {n}" for n in range(count)])

    assert offset_map.put(window) == count

    assert offset_map.offsets_of(window) == list(range(count))
    assert offset_map.size == count
    assert offset_map.utilization == 0.5


def test_later_offset_replaces_the_earlier_one_and_takes_no_slot() -> None:
    offset_map = _map(10)
    offset_map.put(_window("a", "b", "a"))

    offset_map.put(_window("a", base_offset=100))

    assert offset_map.offsets_of(_window("a", "b", "c")) == [100, 1, -1]
    assert offset_map.size == 2


def test_unknown_key_is_not_found_in_a_map_without_an_empty_slot() -> None:
    """69."""
    offset_map = _map(3)
    offset_map.put(_window("a", "b", "c"))

    assert offset_map.utilization == 1.0
    assert offset_map.offsets_of(_window("d", "a")) == [-1, 0]


def test_full_map_takes_no_further_record_even_of_a_key_it_has() -> None:
    """69."""
    offset_map = _map(10, load_factor=0.25)

    taken = offset_map.put(_window("a", "b", None, "a", "c"))

    assert offset_map.limit == 2
    # The record without a key passes, the next one with a key does not.
    assert taken == 3
    assert offset_map.offsets_of(_window("a", "b", "c")) == [0, 1, -1]


def test_records_without_a_key_are_passed_over() -> None:
    offset_map = _map(10)

    assert offset_map.put(_window(None, "", None)) == 3

    assert offset_map.size == 1
    assert offset_map.offsets_of(_window("")) == [1]


def test_map_that_holds_no_key_is_refused() -> None:
    with pytest.raises(ValueError, match="hold no key"):
        _map(1, load_factor=0.9)


def test_table_grows_with_its_keys_and_the_limit_stays() -> None:
    offset_map = _map(5_592_405, load_factor=0.9)
    sizes = [slots_of(offset_map._table)]
    count = 300_000
    for start in range(0, count, 50_000):
        keys = [str(n) for n in range(start, start + 50_000)]
        assert offset_map.put(_window(*keys, base_offset=start)) == 50_000
        sizes.append(slots_of(offset_map._table))

    assert (offset_map.slots, offset_map.limit) == (5_592_405, 5_033_164)
    assert sorted(set(sizes)) == [FIRST_SLOTS, 4 * FIRST_SLOTS, 16 * FIRST_SLOTS, 5_592_405]
    assert offset_map.size == count
    sample = range(0, count, 977)
    assert offset_map.offsets_of(_window(*[str(n) for n in sample], "none")) == [*sample, -1]


def test_full_map_is_full_after_it_has_grown_too() -> None:
    offset_map = _map(2 * FIRST_SLOTS, load_factor=0.75)

    taken = offset_map.put(_window(*[str(n) for n in range(2 * FIRST_SLOTS)]))

    assert taken == offset_map.size == offset_map.limit == 3 * FIRST_SLOTS // 2
    assert slots_of(offset_map._table) == offset_map.slots


def test_negative_offset_is_refused_rather_than_taken_for_an_empty_slot() -> None:
    window = _window("a", "b")
    window.offset[1] = -1

    with pytest.raises(CorruptRecord, match="record 1 has the offset -1"):
        _map(10).put(window)


# -- the kernels over pointers that check each access ---------------------------------------------


def _put_uncompiled(
    table: CheckedPointer, slots: int, hashes: list[tuple[int, int]], limit: int
) -> tuple[int, list[int]]:
    count = len(hashes)
    state = int64s([0, 0])
    low, high = (uint64s(word) for word in zip(*hashes, strict=True))
    status = source.put_offsets(
        table, slots, limit, low, high, int32s([1] * count), int64s(range(count)), count, state
    )
    return status, state.numbers


def test_search_wraps_around_and_stays_inside_the_table() -> None:
    slots = 3
    table = uint64s([0] * (slots * source.SLOT_WORDS))
    # All three start at the last slot.
    hashes = [(2**64 - 1, n) for n in range(slots)]

    status, state = _put_uncompiled(table, slots, hashes, slots)

    assert (status, state) == (0, [3, 3])
    low, high = (uint64s(word) for word in zip(*hashes, (2**64 - 1, 9), strict=True))
    found = int64s([0] * 4)
    source.find_offsets(table, slots, low, high, 4, found)
    assert found.numbers == [0, 1, 2, -1]


def test_put_beyond_the_slots_is_a_fault_and_no_write_out_of_bounds() -> None:
    table = uint64s([0] * source.SLOT_WORDS)

    status, _ = _put_uncompiled(table, 1, [(1, 1), (2, 2)], limit=5)

    assert status == source.NO_SLOT


def test_moving_to_a_larger_table_keeps_everything_and_stays_inside_both() -> None:
    small, large = uint64s([0] * (3 * source.SLOT_WORDS)), uint64s([0] * (5 * source.SLOT_WORDS))
    hashes = [(2**64 - 1, 1), (0, 2), (2**63, 3)]
    _put_uncompiled(small, 3, hashes, 3)

    assert source.move_offsets(small, 3, large, 5) == 0

    low, high = (uint64s(word) for word in zip(*hashes, strict=True))
    found = int64s([0] * 3)
    source.find_offsets(large, 5, low, high, 3, found)
    assert found.numbers == [0, 1, 2]
    tiny = uint64s([0] * source.SLOT_WORDS)
    assert source.move_offsets(small, 3, tiny, 1) == source.NO_SLOT


def test_checked_table_notices_a_wrong_slot_count() -> None:
    """The pointers do check: a kernel told of slots that are not there would be caught."""
    table = uint64s([0] * source.SLOT_WORDS)

    with pytest.raises(OutOfBounds):
        _put_uncompiled(table, 2, [(2**64 - 1, 1)], limit=5)


def test_batch_index_from_nowhere_is_a_fault() -> None:
    for batch in (-1, 1):
        status = source.judge_records(
            uint64s([0] * 3), 1, uint64s([0]), uint64s([0]), int32s([1]), int32s([1]), int64s([0]),
            int32s([batch]), 1, int64s([0]), CheckedPointer([0]), 1, int64s([0] * 4),
            CheckedPointer([0]), int64s([0] * 8),
        )  # fmt: skip
        assert status == source.BAD_BATCH_INDEX


def test_compiled_and_uncompiled_tables_are_the_same() -> None:
    rng = np.random.default_rng(1)
    keys = [f"key {n}" for n in rng.integers(0, 60, 200)]
    window = _window(*keys)
    compiled = _map(80)
    compiled.put(window)
    hashes = compiled._hash(window)
    table = uint64s([0] * (80 * source.SLOT_WORDS))

    status, state = _put_uncompiled(
        table, 80, list(zip(hashes.low.tolist(), hashes.high.tolist(), strict=True)), 80
    )

    assert (status, state) == (0, [compiled.size, 200])
    assert table.numbers == compiled._table.tolist()
