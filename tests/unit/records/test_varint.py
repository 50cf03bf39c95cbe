"""Zigzag varints: the known encodings, both ways, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.varint import (
    VarintCutShort,
    VarintTooLong,
    decode_varint,
    decode_varlong,
    encode_varint,
    encode_varlong,
    size_of_varint,
)

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (64, "8001"),
    (-64, "7f"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
    (-86401000, "cfffb252"),
]
KNOWN_LONG = [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]


@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_varint_has_the_known_bytes(value: int, encoded: str) -> None:
    out = bytearray(b"before")

    encode_varint(out, value)

    assert out.hex() == b"before".hex() + encoded
    assert decode_varint(out, 6, len(out)) == (value, len(out))


@pytest.mark.parametrize(("value", "encoded"), KNOWN + KNOWN_LONG)
def test_varlong_has_the_known_bytes(value: int, encoded: str) -> None:
    out = bytearray()

    encode_varlong(out, value)

    assert out.hex() == encoded
    assert decode_varlong(out, 0, len(out)) == (value, len(out))
    assert size_of_varint(value) == len(out)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_reads_back_what_was_written(value: int) -> None:
    out = bytearray()

    encode_varlong(out, value)

    assert decode_varlong(bytes(out) + b"\x00", 0, len(out) + 1) == (value, len(out))
    assert size_of_varint(value) == len(out)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_writing_what_is_no_int32_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match=f"{value} is not an int32"):
        encode_varint(bytearray(), value)


def test_varint_that_passes_the_end_is_cut_short() -> None:
    encoded = bytes.fromhex("feffffff0f")

    for end in range(len(encoded)):
        with pytest.raises(VarintCutShort, match=f"end at {end}"):
            decode_varint(encoded, 0, end)


@pytest.mark.parametrize("encoded", ["808080808000", "ffffffffff0f", "8080808010", "ffffffff1f"])
def test_varint_of_more_than_32_bits_is_refused(encoded: str) -> None:
    data = bytes.fromhex(encoded)

    with pytest.raises(VarintTooLong):
        decode_varint(data, 0, len(data))


@pytest.mark.parametrize("encoded", ["80" * 10 + "00", "80" * 9 + "02", "ff" * 9 + "03"])
def test_varlong_of_more_than_64_bits_is_refused(encoded: str) -> None:
    data = bytes.fromhex(encoded)

    with pytest.raises(VarintTooLong):
        decode_varlong(data, 0, len(data))


def test_longer_forms_of_a_small_number_are_read() -> None:
    assert decode_varint(bytes.fromhex("8280808000"), 0, 5) == (1, 5)


def test_both_faults_are_corrupt_records() -> None:
    assert issubclass(VarintCutShort, CorruptRecord)
    assert issubclass(VarintTooLong, CorruptRecord)
