"""Whatever bytes arrive: a message, or our own error, at a bounded price."""

import random
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.codec import api_class, decode, encode
from ledgerstone.protocol.decoding import MAX_REQUEST_ELEMENTS, MAX_REQUEST_NUMBERS
from ledgerstone.protocol.headers import decode_request_header
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.offset_fetch import OffsetFetchRequest
from ledgerstone.protocol.messages.produce import ProduceRequest
from ledgerstone.protocol.wire import MOST_TAGS, MalformedMessage, uvarint
from tests.kit.sized import examples
from tests.unit.protocol.random_messages import random_message

KEYS = sorted(key for key, api in APIS.items() if api.module is not None)
BOMB = b"\xff\xff\xff\xff\x07"  # a varint of 2**31 - 1
MIB = 1 << 20


def sample(key: int, side: str, version: int, seed: int) -> bytes:
    message = random_message(api_class(key, side), version, random.Random(seed))
    return b"".join(encode(message, version))  # type: ignore[arg-type]


def edge_versions(key: int) -> list[int]:
    first, last = APIS[key].first_version, APIS[key].last_version
    return sorted({first, last})


@pytest.mark.parametrize("side", ["Request", "Response"])
@pytest.mark.parametrize("key", KEYS)
def test_every_truncation_is_refused_by_our_own_error(key: int, side: str) -> None:
    message_class = api_class(key, side)
    for version in edge_versions(key):
        body = sample(key, side, version, seed=7)
        cuts = range(len(body)) if len(body) < 100 else range(0, len(body), len(body) // 100)
        for size in cuts:
            with pytest.raises(MalformedMessage):
                decode(message_class, version, body[:size])


@examples(200)
@given(
    key=st.sampled_from(KEYS),
    side=st.sampled_from(["Request", "Response"]),
    seed=st.integers(0, 1000),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_flipped_bytes_give_a_message_or_our_own_error(
    key: int, side: str, seed: int, flips: list[tuple[int, int]]
) -> None:
    version = edge_versions(key)[seed % len(edge_versions(key))]
    body = bytearray(sample(key, side, version, seed))
    for position, value in flips:
        if body:
            body[position % len(body)] = value

    with suppress(MalformedMessage):
        message, end = decode(api_class(key, side), version, bytes(body))
        assert isinstance(message, api_class(key, side))
        assert end <= len(body)


@examples(200)
@given(key=st.sampled_from(KEYS), seed=st.integers(0, 100), body=st.binary(max_size=300))
def test_noise_gives_a_message_or_our_own_error(key: int, seed: int, body: bytes) -> None:
    version = edge_versions(key)[seed % len(edge_versions(key))]

    with suppress(MalformedMessage):
        _, end = decode(api_class(key, "Request"), version, body)
        assert end <= len(body)


@examples(200)
@given(body=st.binary(max_size=60))
def test_noise_as_a_header_gives_a_header_or_our_own_error(body: bytes) -> None:
    with suppress(MalformedMessage):
        _, position = decode_request_header(body)
        assert position <= len(body)


@pytest.mark.parametrize("side", ["Request", "Response"])
@pytest.mark.parametrize("key", KEYS)
def test_count_bomb_anywhere_allocates_next_to_nothing(key: int, side: str) -> None:
    message_class, version = api_class(key, side), APIS[key].last_version
    body = sample(key, side, version, seed=3)[:400]
    decode_quietly(message_class, version, body)  # compiles, outside of the measurement

    tracemalloc.start()
    for position in range(0, len(body), 1 + len(body) // 30):
        decode_quietly(message_class, version, body[:position] + BOMB + body[position:])
        decode_quietly(message_class, version, body[:position] + b"\x7f\xff\xff\xff" + body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < MIB // 4


def decode_quietly(message_class: type, version: int, body: bytes) -> None:
    with suppress(MalformedMessage):
        decode(message_class, version, body)


def test_count_of_tags_does_not_cost_more_than_the_bytes_that_came() -> None:
    body = b"\x00" + bytes(6) + b"\x01" + BOMB + b"\x05\x00" * 50

    with pytest.raises(MalformedMessage):
        decode(ProduceRequest, 9, body)


def test_request_may_not_hold_more_elements_than_its_budget() -> None:
    count = MAX_REQUEST_ELEMENTS + 1
    head = b"\x00" + bytes(6)
    body = head + uvarint(count + 1) + b"\x01\x01\x00" * count + b"\x00"

    with pytest.raises(MalformedMessage, match="topic_data"):
        decode(ProduceRequest, 9, body)


@pytest.mark.parametrize("topics", [1, 4])
def test_request_may_not_hold_more_numbers_than_its_budget(topics: int) -> None:
    """The answer has a struct for each partition, which is a hundred times as large."""
    each = MAX_REQUEST_NUMBERS // topics
    head = b"\x02g" + uvarint(topics + 1)
    topic = b"\x02t" + uvarint(each + 1) + bytes(4 * each) + b"\x00"
    too_many = b"\x02t" + uvarint(each + 2) + bytes(4 * each + 4) + b"\x00"
    rest = b"\x00\x00"

    few = decode(OffsetFetchRequest, 7, head + topic * topics + rest)[0]

    assert sum(len(one.partition_indexes) for one in few.topics or ()) == MAX_REQUEST_NUMBERS
    with pytest.raises(MalformedMessage, match="partition_indexes"):
        decode(OffsetFetchRequest, 7, head + topic * (topics - 1) + too_many + rest)


@pytest.mark.parametrize("at_once", [1, 100, MAX_REQUEST_ELEMENTS])
def test_request_may_not_hold_more_tagged_fields_than_its_budget(at_once: int) -> None:
    """Of the topics, or of the request: a frame of 100 MiB has room for fifty million."""
    head = b"\x00" + bytes(6)
    topics = MAX_REQUEST_ELEMENTS // (at_once + 1) + 1
    tags = uvarint(at_once) + bytes(2 * at_once)
    few = head + uvarint(2) + b"\x01\x01" + tags
    many = head + uvarint(topics + 1) + (b"\x01\x01" + tags) * topics + tags

    if at_once < MAX_REQUEST_ELEMENTS:
        assert len(decode(ProduceRequest, 9, few + b"\x00")[0].topic_data) == 1
    with pytest.raises(MalformedMessage, match="tags"):
        decode(ProduceRequest, 9, many)


def test_header_may_not_hold_more_tagged_fields_than_there_can_be() -> None:
    fixed = b"\x00\x00" + b"\x00\x09" + b"\x00\x00\x00\x01" + b"\xff\xff"
    few, many = MOST_TAGS, MOST_TAGS + 1

    header, position = decode_request_header(fixed + uvarint(few) + bytes(2 * few))

    assert header.correlation_id == 1
    assert position == len(fixed) + 3 + 2 * few
    with pytest.raises(MalformedMessage, match="tags"):
        decode_request_header(fixed + uvarint(many) + bytes(2 * many))
