"""Varints and tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.codec import decode
from ledgerstone.protocol.messages.fetch import FetchRequest
from ledgerstone.protocol.wire import (
    BrokenBytes,
    MalformedMessage,
    read_uvarint,
    skip_tags,
    uvarint,
)

FETCH_V12 = bytes(25) + b"\x01\x01\x01"  # fixed fields, no topics, none forgotten, no rack


@given(value=st.integers(0, 2**32 - 1), before=st.binary(max_size=3), tail=st.binary(max_size=3))
def test_varint_comes_back_and_ends_where_it_ends(value: int, before: bytes, tail: bytes) -> None:
    data = uvarint(value)

    assert read_uvarint(before + data + tail, len(before)) == (value, len(before) + len(data))


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")],
)
def test_varint_has_seven_bits_a_byte_lowest_first(value: int, data: str) -> None:
    assert uvarint(value) == bytes.fromhex(data)


@pytest.mark.parametrize("data", ["ffffffff1f", "ffffffff7f", "8080808080"])
def test_varint_of_more_than_32_bits_is_refused(data: str) -> None:
    with pytest.raises(BrokenBytes):
        read_uvarint(bytes.fromhex(data) + bytes(5), 0)


def test_tags_end_where_their_sizes_say() -> None:
    data = b"\x02\x00\x01x\x07\x02yz" + b"tail"

    assert skip_tags(data, 1, data[0]) == len(data) - 4
    with pytest.raises(BrokenBytes, match="100 bytes"):
        skip_tags(b"\x01\x00\x64ab", 1, 1)


@pytest.mark.parametrize("size", [0, 2, 4])
def test_known_tag_must_be_as_long_as_it_says(size: int) -> None:
    cluster_id = b"\x03ab"
    right = FETCH_V12 + b"\x01\x00\x03" + cluster_id
    wrong = FETCH_V12 + b"\x01\x00" + bytes([size]) + cluster_id + bytes(4)

    request, _ = decode(FetchRequest, 12, right)

    assert request.cluster_id == "ab"
    with pytest.raises(MalformedMessage, match=f"tag 0 has {size} bytes"):
        decode(FetchRequest, 12, wrong)
