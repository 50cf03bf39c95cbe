"""`hash_keys`: SipHash-2-4-128 as its authors publish it."""

import numpy as np
import pytest

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels import hash_key, hash_keys
from ledgerstone.records.kernels.abi import LANE_WORDS
from ledgerstone.records.kernels.source import siphash
from tests.oracles.plain_siphash import siphash128

SEED = bytes(range(16))
INPUT = bytes(range(64))

# Of the reference implementation's table: key 00..0f, input 00 01 02 … of this many bytes.
REFERENCE = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
    4: "f88164c12d9c8faf7d0f6e7c7bcd5579",
    5: "1368875980776f8854527a07690e9627",
    6: "14eeca338b208613485ea0308fd7a15e",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    9: "264499060ad9baabc47f8b02bb6d71ed",
    63: "5150d1772f50834a503e069a973fbd7c",
}


def _hex(low: int, high: int) -> str:
    return (low.to_bytes(8, "little") + high.to_bytes(8, "little")).hex()


def test_hashes_are_those_of_the_reference() -> None:
    lengths = np.array(list(REFERENCE), np.int32)

    low, high = hash_keys(INPUT, np.zeros(len(lengths), np.int64), lengths, SEED)

    found = [_hex(*words) for words in zip(low.tolist(), high.tolist(), strict=True)]
    assert found == list(REFERENCE.values())


@pytest.mark.parametrize("key", [b"", b"k", b"eight by", b"x" * 1000])
def test_one_key_alone_hashes_as_among_others(key: bytes) -> None:
    seed = bytes(range(16))
    low, high = hash_keys(key, np.zeros(1, np.int64), np.array([len(key)], np.int32), seed)

    assert hash_key(key, seed) == (int(low[0]), int(high[0]))


def test_plain_twin_is_right_too() -> None:
    for length, expected in REFERENCE.items():
        assert _hex(*siphash128(INPUT[:length], SEED)) == expected


@pytest.mark.parametrize("longest", [3, 8, 15, 40])
def test_many_keys_side_by_side_hash_as_each_alone(longest: int) -> None:
    lengths = np.random.default_rng(longest).integers(-1, longest + 1, 300).astype(np.int32)
    starts = np.arange(300) % (len(INPUT) - longest)

    words = hash_keys(INPUT, starts, lengths, SEED)

    spans = zip(starts.tolist(), lengths.tolist(), strict=True)
    alone = [
        (0, 0) if length < 0 else siphash128(INPUT[start : start + length], SEED)
        for start, length in spans
    ]
    assert list(zip(*(word.tolist() for word in words), strict=True)) == alone


def test_lanes_have_the_room_the_source_asks_for() -> None:
    assert LANE_WORDS == siphash.LANE_WORDS


def test_null_key_hashes_to_zero_and_an_empty_one_does_not() -> None:
    low, high = hash_keys(b"", np.array([0, 0]), np.array([-1, 0], np.int32), SEED)

    assert (low[0], high[0]) == (0, 0)
    assert _hex(int(low[1]), int(high[1])) == REFERENCE[0]


def test_spans_past_the_source_lie_in_the_arena() -> None:
    low, high = hash_keys(b"xxx", np.array([3]), np.array([2], np.int32), SEED, arena=INPUT)

    assert _hex(int(low[0]), int(high[0])) == REFERENCE[2]


@pytest.mark.parametrize(
    ("start", "length"), [(-1, 1), (0, 4), (2, 2), (3, 3), (6, 0), (4, 2), (2**62, 2**31 - 1)]
)
def test_span_outside_its_source_is_refused(start: int, length: int) -> None:
    with pytest.raises(InvariantViolation, match="outside"):
        hash_keys(b"abc", np.array([start]), np.array([length], np.int32), SEED, arena=b"de")


def test_seed_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        hash_keys(b"", np.array([0]), np.array([0], np.int32), b"short")
