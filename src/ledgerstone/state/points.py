"""A point in a topic's past, and the offsets at which its partitions ended then. Shell."""

from collections.abc import Mapping
from typing import NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.client.offsets import offsets_at
from ledgerstone.errors import UnknownTopicOrPartition
from ledgerstone.state.reading import PartitionBounds
from ledgerstone.state.topic_state import (
    StateError,
)
from ledgerstone.types import TopicPartition


class AtTime(NamedTuple):
    """Records before the first one at or after this time."""

    timestamp_ms: int


class AtOffset(NamedTuple):
    """Records below this offset in every partition, or below its end if that is lower."""

    offset: int


class AtOffsets(NamedTuple):
    """Records below these offsets, one for each partition."""

    offsets: Mapping[int, int]


PointInTime = AtTime | AtOffset | AtOffsets


def end_offsets(
    client: Client, bounds: list[PartitionBounds], at: PointInTime | None, isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    """Where to stop reading each partition."""
    ends = {each.partition: each.end_offset(isolation) for each in bounds}
    match at:
        case None:
            return ends
        case AtTime(timestamp_ms):
            asked = offsets_at(client, ends, timestamp_ms)
        case AtOffset(offset):
            asked = dict.fromkeys(ends, offset)
        case AtOffsets(offsets):
            return _named_ends(ends, offsets)
    return {each: min(asked[each], end) for each, end in ends.items()}


def _named_ends(
    ends: Mapping[TopicPartition, int], offsets: Mapping[int, int]
) -> dict[TopicPartition, int]:
    numbers = {each.partition: each for each in ends}
    for number, offset in offsets.items():
        if number not in numbers:
            raise UnknownTopicOrPartition(f"there is no partition {number} to end at {offset}")
    for each, end in ends.items():
        offset_asked = offsets.get(each.partition)
        if offset_asked is None or not 0 <= offset_asked <= end:
            said = "no offset" if offset_asked is None else f"offset {offset_asked}"
            raise StateError(f"{said} is given for {each}, which can be read up to {end}")
    return {each: offsets[each.partition] for each in ends}
