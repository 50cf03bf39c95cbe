"""A shortcut for the Produce request that most producers send: one batch for one partition. Pure.

The codecs are the reference; this reads and writes the same bytes in a third of the steps. A
request of any other shape is left to the codec, which also reports what is wrong with it.
tests/property/test_single_produce_against_codec.py compares the two.
"""

import struct
from functools import lru_cache
from typing import ClassVar, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)
from ledgerstone.protocol.wire import BrokenBytes, read_uvarint

# Flexible versions.
FIRST_VERSION: Final = 9
LAST_VERSION: Final = 13
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
# No transactional id, acks, timeout, one topic, the length of its name plus one.
_START: Final = struct.Struct(">bhibb")
# The same with a topic id.
_START_WITH_ID: Final = struct.Struct(">bhib16s")
# One partition, its index.
_PARTITION: Final = struct.Struct(">bi")
# No tags on partition, topic or request.
_END: Final = bytes(3)
_ONE: Final = 2  # a count plus one
# Index, error code, base offset, log append time, log start offset.
_NUMBERS: Final = struct.Struct(">ihqqq")
# Any numbers that cannot occur in a topic name.
_ANY: Final = (1, 0, 2, 3, 4)
_TOPICS_REMEMBERED: Final = 256
# How an answer ends: the throttle time, and no tags.
_THROTTLE: Final = struct.Struct(">i")
_NO_TAGS_BYTES: Final = 1


@dataclass(slots=True)
class SingleProduce(ApiMessage):
    """A ProduceRequest with one topic, one partition, records and no transactional id. The topic
    has a name, or from version 13 on an id."""

    api_key: ClassVar[int] = 0
    name: ClassVar[str] = "Produce"

    acks: int
    timeout_ms: int
    topic: str
    index: int
    records: memoryview
    topic_id: bytes = b""


def read_single_produce(version: int, frame: memoryview, position: int) -> SingleProduce | None:
    """The request whose body begins at `position`; None if the codec must read it."""
    if not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    topic, topic_id = "", b""
    try:
        if version < FIRST_VERSION_WITH_TOPIC_IDS:
            no_id, acks, timeout_ms, topics, name_length = _START.unpack_from(frame, position)
            if no_id or topics != _ONE or name_length < _ONE:
                return None
            name_at = position + _START.size
            topic_end = name_at + name_length - 1
            topic = str(frame[name_at:topic_end], "utf-8")
        else:
            no_id, acks, timeout_ms, topics, topic_id = _START_WITH_ID.unpack_from(frame, position)
            if no_id or topics != _ONE:
                return None
            topic_end = position + _START_WITH_ID.size
        partitions, index = _PARTITION.unpack_from(frame, topic_end)
        length, start = read_uvarint(frame, topic_end + _PARTITION.size)
    except (struct.error, IndexError, BrokenBytes, UnicodeDecodeError):
        return None
    end = start + length - 1
    if partitions != _ONE or length < _ONE or frame[end:] != _END:
        return None
    return SingleProduce(acks, timeout_ms, topic, index, frame[start:end], topic_id)


def single_produce_answer(
    version: int,
    topic: str | bytes,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The body of a ProduceResponse that says where one batch was appended. `topic` is a name, or
    from version 13 on an id."""
    before, after = _around_numbers(version, topic)
    numbers = _NUMBERS.pack(index, 0, base_offset, log_append_time_ms, log_start_offset)
    return before + numbers + after


def with_throttle_time(version: int, body: bytes, throttle_ms: int) -> bytes:
    """Such an answer, which says how long its client has to wait. The time is the last field."""
    assert FIRST_VERSION <= version <= LAST_VERSION, version
    end = len(body) - _NO_TAGS_BYTES
    return body[: end - _THROTTLE.size] + _THROTTLE.pack(throttle_ms) + body[end:]


@lru_cache(_TOPICS_REMEMBERED)
def _around_numbers(version: int, topic: str | bytes) -> tuple[bytes, bytes]:
    """The codec's bytes before and after the numbers of a response."""
    answer = ProduceTopicResponse(partition_responses=[ProducePartitionResponse(*_ANY)])
    if isinstance(topic, str):
        answer.name = topic
    else:
        answer.topic_id = topic
    (body,) = encode_response(ProduceResponse(responses=[answer]), version)
    assert isinstance(body, bytes)
    # From behind: a topic id may have any bytes.
    before, _, after = body.rpartition(_NUMBERS.pack(*_ANY))
    return before, after
