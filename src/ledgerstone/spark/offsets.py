"""Offsets of many partitions: as JSON, limited, and compared. Pure.

Spark compares offsets as text, so the same offsets must always be written in the same order: by
topic, then by the number of the partition. The layout is that of Spark's own Kafka connector, and
a checkpoint of one is read by the other. Ours also says which topics these are, for a topic may be
deleted and created again: `people#ID` without partitions, which no topic can be called and in which
the other connector finds no offset.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Final

from ledgerstone.errors import ConfigError
from ledgerstone.types import INT32_MAX, INT64_MAX, TopicPartition

# Kafka's numbers for "wherever that is", also as offsets in JSON.
LATEST: Final = -1
EARLIEST: Final = -2

Offsets = Mapping[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]
TopicIds = Mapping[str, str]  # by topic, as text; a topic of a broker without ids is missing

_ID_MARK: Final = "#"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def to_json(offsets: Offsets, topic_ids: TopicIds | None = None) -> OffsetJson:
    """For Spark, which keeps it in the checkpoint."""
    found: OffsetJson = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    for topic, topic_id in sorted((topic_ids or {}).items()):
        if topic in found:
            found[f"{topic}{_ID_MARK}{topic_id}"] = {}
    return found


def topic_ids_in(content: Mapping[str, object]) -> dict[str, str]:
    """From the output of `to_json`; empty if another connector wrote it."""
    marked = (name.partition(_ID_MARK) for name in content if _ID_MARK in name)
    return {topic: topic_id for topic, _, topic_id in marked}


def recreated(before: TopicIds, now: TopicIds) -> list[str]:
    """Topics with the same name but another id; topics with an unknown id are left out."""
    return sorted(topic for topic in now if before.get(topic, now[topic]) != now[topic])


def from_json(
    content: object, what: str = "offsets", *, minimum: int = 0
) -> dict[TopicPartition, int]:
    """From the output of `to_json`, and from what users write into an option."""
    found: dict[TopicPartition, int] = {}
    if not isinstance(content, dict):
        raise ConfigError(what, content, 'an object like {"topic": {"0": 23}}')
    for topic, partitions in content.items():
        if not isinstance(partitions, dict):
            raise ConfigError(what, content, f"topic {topic!r} needs an object of partitions")
        for number, offset in partitions.items():
            if not _NUMBER.fullmatch(str(number)) or int(number) > INT32_MAX:
                raise ConfigError(what, content, f"{number!r} is not the number of a partition")
            if type(offset) is not int or not minimum <= offset <= INT64_MAX:
                raise ConfigError(
                    what, content, f"{topic}-{number} has {offset!r}, not a number from {minimum}"
                )
            found[TopicPartition(topic, int(number))] = offset
    return found


def parse_offsets(text: str, what: str, *, minimum: int) -> dict[TopicPartition, int]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(what, text, f"not JSON: {error}") from None
    return from_json(content, what, minimum=minimum)


def limited(start: Offsets, end: Offsets, max_offsets: int) -> dict[TopicPartition, int]:
    """End offsets for about `max_offsets`, shared among partitions by how much each has.

    A partition with anything to read advances by at least one, so none starves. This counts
    offsets, not records: how many of them the log still has is unknown before they are read."""
    sizes = {each: end[each] - start[each] for each in end if end[each] > start[each]}
    total = sum(sizes.values())
    found = dict(end)
    for each, size in sizes.items():
        share = max_offsets * size / total
        step = math.ceil(share) if share < 1 else math.floor(share)
        found[each] = min(start[each] + step, end[each])
    return found


def backlog(start: Offsets, end: Offsets) -> int:
    return sum(max(end[each] - start.get(each, end[each]), 0) for each in end)
