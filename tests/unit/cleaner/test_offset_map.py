"""The map from keys to offsets."""

from collections.abc import Iterable

import numpy as np
import pytest

from ledgerstone.cleaner.offset_map import FIRST_SLOTS, SLOT_BYTES, FullAt, OffsetMap
from ledgerstone.errors import CorruptRecord
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import (
    BatchAction,
    Hashes,
    Scratch,
    hash_keys,
    new_table,
    walk,
)
from ledgerstone.records.kernels.key_offsets import grown_in_place, slots_of
from ledgerstone.records.kernels.source import key_offsets as source
from ledgerstone.records.kernels.source.words import Pointer
from tests.kit.payloads import opened
from tests.oracles.checked_pointer import CheckedPointer, OutOfBounds, uint64s

SEED = bytes(range(16))


def _window(*keys: str | None, base_offset: int = 0) -> bytes:
    encoded = [None if key is None else key.encode() for key in keys]
    return bytes(build_batch([(1, key, b"v", ()) for key in encoded], base_offset=base_offset))


def _map(slots: int, *, load_factor: float = 1.0) -> OffsetMap:
    scratch = Scratch()
    # The windows here are batches of any length, so the test allocates room for them.
    scratch.reserve(200_000)
    return OffsetMap(
        slots * SLOT_BYTES, scratch, load_factor=load_factor, seed=SEED, latest_offset=-1
    )


def _hashes(window: bytes) -> Hashes:
    columns = walk(window)
    return Hashes(*hash_keys(window, columns.key_start, columns.key_length, SEED))


def _offsets(offset_map: OffsetMap, *keys: str) -> list[int]:
    hashes = _hashes(_window(*keys))
    words = zip(hashes.low.tolist(), hashes.high.tolist(), strict=True)
    return _found(offset_map._table.data, slots_of(offset_map._table), words)


def _found(table: Pointer, slots: int, hashes: Iterable[tuple[int, int]]) -> list[int]:
    """The last offset of each key, -1 for one that was never put."""
    places = [source.find_place(table, slots, low, high) for low, high in hashes]
    return [-1 if at < 0 else int(table[at + source.OFFSET_WORD]) - 1 for at in places]


@pytest.mark.parametrize("count", [10, 100, 1000, 10_000])
def test_every_key_is_found_with_its_last_offset(count: int) -> None:
    """A map filled with 10 to 10,000 keys, up to its last slot."""
    offset_map = _map(2 * count)
    keys = [f"key {n}" for n in range(count)]

    assert offset_map.put(*opened(_window(*keys))) is None

    assert _offsets(offset_map, *keys) == list(range(count))
    assert offset_map.size == count
    assert offset_map.utilization == 0.5


def test_later_offset_replaces_the_earlier_one_and_takes_no_slot() -> None:
    offset_map = _map(10)
    offset_map.put(*opened(_window("a", "b", "a")))

    offset_map.put(*opened(_window("a", base_offset=100)))

    assert _offsets(offset_map, "a", "b", "c") == [100, 1, -1]
    assert offset_map.size == 2


def test_unknown_key_is_not_found_in_a_map_without_an_empty_slot() -> None:
    """A map filled with 10 to 10,000 keys, up to its last slot."""
    offset_map = _map(3)
    offset_map.put(*opened(_window("a", "b", "c")))

    assert offset_map.utilization == 1.0
    assert _offsets(offset_map, "d", "a") == [-1, 0]


def test_full_map_takes_no_further_record_even_of_a_key_it_has() -> None:
    """A map filled with 10 to 10,000 keys, up to its last slot."""
    offset_map = _map(10, load_factor=0.25)

    full_at = offset_map.put(*opened(_window("a", "b", None, "a", "c")))

    assert offset_map.limit == 2
    # The record without a key passes, the next one with a key does not.
    assert full_at == FullAt(batch=0, last_put_offset=1)
    assert _offsets(offset_map, "a", "b", "c") == [0, 1, -1]


def test_records_without_a_key_are_passed_over() -> None:
    offset_map = _map(10)

    assert offset_map.put(*opened(_window(None, "", None))) is None

    assert offset_map.size == 1
    assert _offsets(offset_map, "") == [1]


def test_map_that_holds_no_key_is_refused() -> None:
    with pytest.raises(ValueError, match="hold no key"):
        _map(1, load_factor=0.9)


def test_table_grows_with_its_keys_and_the_limit_stays() -> None:
    offset_map = _map(5_592_405, load_factor=0.9)
    sizes = [slots_of(offset_map._table)]
    count = 800_000
    for start in range(0, count, 100_000):
        keys = [str(n) for n in range(start, start + 100_000)]
        assert offset_map.put(*opened(_window(*keys, base_offset=start))) is None
        sizes.append(slots_of(offset_map._table))

    assert (offset_map.slots, offset_map.limit) == (5_592_405, 5_033_164)
    assert sizes[0] == 43_690 >= FIRST_SLOTS
    steps = [43_690, *(5_592_405 >> halvings for halvings in (5, 4, 3, 2))]
    assert sorted(set(sizes)) == steps
    # All in one piece of memory, which is the dedupe buffer and never more.
    assert offset_map._table.base is offset_map._memory
    assert offset_map._memory.nbytes == 5_592_405 * SLOT_BYTES
    assert offset_map.size == count
    sample = range(0, count, 977)
    assert _offsets(offset_map, *[str(n) for n in sample], "none") == [*sample, -1]


def test_full_map_is_full_after_it_has_grown_too() -> None:
    offset_map = _map(2 * FIRST_SLOTS, load_factor=0.75)

    full_at = offset_map.put(*opened(_window(*[str(n) for n in range(2 * FIRST_SLOTS)])))

    assert offset_map.size == offset_map.limit == 3 * FIRST_SLOTS // 2
    assert full_at == FullAt(batch=0, last_put_offset=offset_map.limit - 1)
    assert slots_of(offset_map._table) == offset_map.slots


def test_full_map_says_where_a_window_of_many_batches_ended() -> None:
    window = b"".join(_window(key, base_offset=offset) for offset, key in enumerate("abcab"))

    full_at = _map(2).put(*opened(window))

    assert full_at == FullAt(batch=2, last_put_offset=None)


def test_records_below_the_least_offset_and_discarded_batches_stay_out() -> None:
    offset_map = _map(10)
    window = _window("a", "b") + _window("c", base_offset=2) + _window("d", base_offset=3)
    payloads, actions = opened(window)
    actions[1] = BatchAction.DISCARD

    offset_map.put(payloads, actions, min_offset=1)

    assert _offsets(offset_map, *"abcd") == [-1, 1, -1, 3]


def test_negative_offset_is_refused_rather_than_taken_for_an_empty_slot() -> None:
    payloads, actions = opened(_window("a", "b", base_offset=5))
    payloads.batches.base_offset[0] = -2

    with pytest.raises(CorruptRecord, match="a record has the offset -2"):
        _map(10).put(payloads, actions)


# -- the kernels over pointers that check each access ---------------------------------------------


def _put_uncompiled(
    table: CheckedPointer, slots: int, hashes: Iterable[tuple[int, int]]
) -> list[int]:
    """What each put answers; the offsets are 0, 1, 2, …"""
    return [
        source.put_offset(table, slots, low, high, offset)
        for offset, (low, high) in enumerate(hashes)
    ]


def test_search_wraps_around_and_stays_inside_the_table() -> None:
    slots = 3
    table = uint64s([0] * (slots * source.SLOT_WORDS))
    # All three start at the last slot.
    hashes = [(2**64 - 1, n) for n in range(slots)]

    answers = _put_uncompiled(table, slots, [*hashes, hashes[1]])

    assert answers == [0, 0, 0, 2]
    assert _found(table, slots, [*hashes, (2**64 - 1, 9)]) == [0, 3, 2, -1]


def test_put_beyond_the_slots_is_a_fault_and_no_write_out_of_bounds() -> None:
    table = uint64s([0] * source.SLOT_WORDS)

    assert _put_uncompiled(table, 1, [(1, 1), (2, 2)]) == [0, -1]


def test_moving_to_a_larger_table_keeps_everything_and_stays_inside_both() -> None:
    small, large = uint64s([0] * (3 * source.SLOT_WORDS)), uint64s([0] * (5 * source.SLOT_WORDS))
    hashes = [(2**64 - 1, 1), (0, 2), (2**63, 3)]
    _put_uncompiled(small, 3, hashes)

    assert source.move_offsets(small, 3, large, 5) == 0

    assert _found(large, 5, hashes) == [0, 1, 2]
    tiny = uint64s([0] * source.SLOT_WORDS)
    assert source.move_offsets(small, 3, tiny, 1) == source.NO_SLOT


def _spread(slots: int, larger: int, hashes: list[tuple[int, int]]) -> tuple[int, list[int]]:
    """(status, what is found of each): a table grown in place, over pointers that check."""
    table = uint64s([0] * (larger * source.SLOT_WORDS))
    _put_uncompiled(table, slots, hashes)
    stash = uint64s([0] * (min(slots, source.STASH_SLOTS) * source.SLOT_WORDS))
    status = source.spread_offsets(table, slots, larger, stash)
    return status, _found(table, larger, hashes)


@pytest.mark.parametrize("stash_slots", [16, 4096])
def test_table_grows_in_its_own_memory_without_losing_a_key(
    monkeypatch: pytest.MonkeyPatch, stash_slots: int
) -> None:
    monkeypatch.setattr(source, "STASH_SLOTS", stash_slots)
    words = np.random.default_rng(5).integers(0, 2**64, (40, 2), np.uint64).tolist()
    hashes = [(low, high) for low, high in words]

    status, found = _spread(64, 128, hashes)

    assert (status, found) == (0, list(range(40)))


def test_keys_at_both_ends_of_a_table_are_found_after_it_grew() -> None:
    ends = [(2**64 - 1, n) for n in range(5)] + [(0, n) for n in range(5)]

    status, found = _spread(16, 33, ends)

    assert (status, found) == (0, list(range(10)))


def test_search_that_would_pass_slots_still_to_move_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "STASH_SLOTS", 1)
    # All start at slot 1, so the last of them lies far behind where it is to go.
    crowded = [(2**60, n) for n in range(9)]

    status, _ = _spread(16, 32, crowded)

    assert status == source.NO_SLOT


def test_growing_in_place_takes_at_least_twice_the_slots_of_memory_that_is_there() -> None:
    for larger in (15, 33):
        with pytest.raises(ValueError, match=f"8 slots to {larger} of 32"):
            grown_in_place(new_table(32), 8, larger)


def test_checked_table_notices_a_wrong_slot_count() -> None:
    """The pointers do check: a kernel told of slots that are not there would be caught."""
    table = uint64s([0] * source.SLOT_WORDS)

    with pytest.raises(OutOfBounds):
        _put_uncompiled(table, 2, [(2**64 - 1, 1)])


def test_compiled_and_uncompiled_tables_are_the_same() -> None:
    rng = np.random.default_rng(1)
    keys = [f"key {n}" for n in rng.integers(0, 60, 200)]
    window = _window(*keys)
    compiled = _map(80)
    compiled.put(*opened(window))
    hashes = _hashes(window)
    table = uint64s([0] * (80 * source.SLOT_WORDS))

    answers = _put_uncompiled(
        table, 80, zip(hashes.low.tolist(), hashes.high.tolist(), strict=True)
    )

    assert answers.count(0) == compiled.size
    assert table.numbers == compiled._table.tolist()
