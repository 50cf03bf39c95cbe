"""A shortcut for the Produce request that most producers send: one batch for one partition. Pure.

The codecs are the reference; this reads and writes the same bytes in a third of the steps. A
request of any other shape is left to the codec, which also reports what is wrong with it.
tests/property/test_single_produce_against_codec.py compares the two.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)
from ledgerstone.protocol.wire import BrokenBytes, read_uvarint

# Flexible versions that name topics by their names.
FIRST_VERSION: Final = 9
LAST_VERSION: Final = 12
# No transactional id, acks, timeout, one topic, the length of its name plus one.
_START: Final = struct.Struct(">bhibb")
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


@dataclass(slots=True)
class SingleProduce(ApiMessage):
    """A ProduceRequest with one topic, one partition, records and no transactional id."""

    api_key: ClassVar[int] = 0
    name: ClassVar[str] = "Produce"

    acks: int
    timeout_ms: int
    topic: str
    index: int
    records: memoryview


def read_single_produce(version: int, frame: memoryview, position: int) -> SingleProduce | None:
    """The request whose body begins at `position`; None if the codec must read it."""
    if not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    try:
        no_id, acks, timeout_ms, topics, name_length = _START.unpack_from(frame, position)
        if no_id or topics != _ONE or name_length < _ONE:
            return None
        name_at = position + _START.size
        name_end = name_at + name_length - 1
        partitions, index = _PARTITION.unpack_from(frame, name_end)
        length, start = read_uvarint(frame, name_end + _PARTITION.size)
        topic = str(frame[name_at:name_end], "utf-8")
    except (struct.error, IndexError, BrokenBytes, UnicodeDecodeError):
        return None
    end = start + length - 1
    if partitions != _ONE or length < _ONE or frame[end:] != _END:
        return None
    return SingleProduce(acks, timeout_ms, topic, index, frame[start:end])


def single_produce_answer(
    version: int,
    topic: str,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The body of a ProduceResponse that says where one batch was appended."""
    before, after = _around_numbers(version, topic)
    numbers = _NUMBERS.pack(index, 0, base_offset, log_append_time_ms, log_start_offset)
    return before + numbers + after


@lru_cache(_TOPICS_REMEMBERED)
def _around_numbers(version: int, topic: str) -> tuple[bytes, bytes]:
    """The codec's bytes before and after the numbers of a response."""
    answer = ProducePartitionResponse(*_ANY)
    topics = [ProduceTopicResponse(name=topic, partition_responses=[answer])]
    (body,) = encode_response(ProduceResponse(responses=topics), version)
    assert isinstance(body, bytes)
    before, _, after = body.partition(_NUMBERS.pack(*_ANY))
    return before, after
