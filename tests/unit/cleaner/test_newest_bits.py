"""Batches that a map knows to be superseded without a look at their keys."""

from typing import Any

import numpy as np
import pytest

from ledgerstone.cleaner.offset_map import SLOT_BYTES, OffsetMap
from ledgerstone.records.builder import build_batch
from ledgerstone.records.compression import Codecs
from ledgerstone.records.kernels import BatchAction, Scratch, walk
from ledgerstone.records.kernels.newest import MAX_BITS, NewestBits, discard_superseded
from ledgerstone.records.kernels.source import newest as source
from tests.kit.payloads import opened
from tests.oracles.checked_pointer import uint64s


def _map(*, slots: int = 50, first_offset: int = 0, end_offset: int = 1000) -> OffsetMap:
    return OffsetMap(
        slots * SLOT_BYTES,
        Scratch(),
        load_factor=1.0,
        seed=bytes(16),
        latest_offset=first_offset - 1,
        end_offset=end_offset,
    )


def _batch(base_offset: int, *keys: bytes | None, **fields: Any) -> bytes:
    return bytes(
        build_batch([(1, key, b"v", ()) for key in keys], base_offset=base_offset, **fields)
    )


def _discarded(offset_map: OffsetMap, window: bytes) -> tuple[int | None, list[int]]:
    payloads, actions = opened(window)
    return offset_map.discard_superseded(payloads.batches, actions), actions.tolist()


def test_batch_without_a_newest_record_is_discarded_and_its_records_are_counted() -> None:
    window = _batch(0, b"a", b"b") + _batch(2, b"a", b"c") + _batch(70, b"b", b"a")
    offset_map = _map()
    offset_map.put(*opened(window))
    offset_map.latest_offset = 71

    records, actions = _discarded(offset_map, window)

    # c is nowhere else.
    assert (records, actions) == (2, [BatchAction.DISCARD, 0, 0])


def test_batch_that_reaches_behind_the_map_is_left_alone() -> None:
    window = _batch(0, b"a") + _batch(1, b"a", b"a") + _batch(3, b"a")
    offset_map = _map()
    offset_map.put(*opened(window))
    offset_map.latest_offset = 1

    records, actions = _discarded(offset_map, window)

    assert (records, actions) == (1, [BatchAction.DISCARD, 0, 0])


def test_markers_and_batches_of_transactions_are_left_alone() -> None:
    window = _batch(0, b"a", transactional=True) + _batch(1, b"a", control=True) + _batch(2, b"a")
    offset_map = _map()
    offset_map.put(*opened(window))
    offset_map.latest_offset = 2

    assert _discarded(offset_map, window) == (0, [0, 0, 0])


@pytest.mark.parametrize(
    "window",
    [
        _batch(0, b"a") + _batch(1, None, b"a"),
        _batch(5, b"a") + _batch(3, b"a"),
        _batch(5, b"a") + _batch(5, b"b"),
        _batch(5, b"a") + _batch(1000, b"a"),
    ],
    ids=["without a key", "falling offsets", "two records at one offset", "behind the last bit"],
)
def test_bits_do_not_speak_of_a_log_they_cannot_tell_about(window: bytes) -> None:
    offset_map = _map()

    offset_map.put(*opened(window))

    assert (
        offset_map.discard_superseded(opened(window).payloads.batches, np.zeros(2, np.uint8))
        is None
    )


def test_record_outside_its_batch_ends_the_bits() -> None:
    payloads, actions = opened(_batch(5, b"a", b"b"))
    payloads.batches.last_offset[0] = 5
    offset_map = _map()

    offset_map.put(payloads, actions)

    assert offset_map.discard_superseded(payloads.batches, actions) is None


@pytest.mark.parametrize("end_offset", [100, 100 + MAX_BITS + 1, -5])
def test_no_offsets_or_too_many_have_no_bits(end_offset: int) -> None:
    offset_map = _map(first_offset=100, end_offset=end_offset)
    offset_map.put(*opened(_batch(100, b"a")))

    assert len(NewestBits(100, end_offset)) == 0
    assert _discarded(offset_map, _batch(100, b"a")) == (None, [0])


def test_bits_of_a_full_map_speak_of_what_went_in() -> None:
    keys = [b"%d" % n for n in range(60)]
    window = b"".join(_batch(n, key, key) for n, key in zip(range(0, 120, 2), keys, strict=True))
    offset_map = _map(slots=40)

    full_at = offset_map.put(*opened(window))

    assert full_at is not None
    offset_map.latest_offset = 79
    # Each batch has the newest record of its key, and those the map has no room for lie behind it.
    assert _discarded(offset_map, window) == (0, [0] * 60)


def test_judgement_by_bits_is_the_judgement_by_keys() -> None:
    window = _batch(0, b"a", b"b", b"a") + _batch(8, b"c", b"b") + _batch(64, b"d", b"c")
    offset_map = _map()
    offset_map.put(*opened(window))
    offset_map.latest_offset = 64

    by_bits, by_keys = (
        offset_map.clean(
            *opened(window),
            by_bits=by_bits,
            now_ms=1,
            held_from_offset=2**62,
            new_horizon_ms=2,
            out=np.empty(1000, np.uint8),
            codecs=Codecs(),
        )
        for by_bits in (True, False)
    )

    assert (
        walk(by_bits.data).offset.tolist() == walk(by_keys.data).offset.tolist() == [2, 9, 64, 65]
    )
    assert bytes(by_bits.data) == bytes(by_keys.data)
    assert by_bits[4:] == by_keys[4:]


@pytest.mark.parametrize("start", [0, 1, 63, 64, 65, 127])
@pytest.mark.parametrize("size", [1, 2, 64, 65])
def test_a_range_has_a_newest_record_where_one_of_its_bits_is_set(start: int, size: int) -> None:
    stop = start + size
    for at in (*range(max(start - 2, 0), start + 2), *range(stop - 2, stop + 2)):
        bits = [0, 0, 0, 0]
        bits[at >> 6] = 1 << (at & 63)

        assert source.has_newest(uint64s(bits), start, stop) == (start <= at < stop)


def test_actions_for_fewer_batches_than_there_are_reach_no_kernel() -> None:
    batches = opened(_batch(0, b"a") + _batch(1, b"a")).payloads.batches

    with pytest.raises(ValueError, match="1 actions for 2 batches"):
        discard_superseded(batches, np.zeros(1, np.uint8), NewestBits(0, 2), 1)
