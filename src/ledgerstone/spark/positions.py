"""The partitions and offsets of a cluster, which the driver needs before a read. Shell.

Functions over a `Client`. They resolve what the options leave open, and refuse wrong options with
the name of the partition.
"""

import re
from collections.abc import Iterable, Mapping

from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.client.offsets import list_offsets
from ledgerstone.errors import ConfigError, UnknownTopicOrPartition
from ledgerstone.spark.offsets import EARLIEST, LATEST
from ledgerstone.spark.read_options import (
    Position,
    Topics,
)
from ledgerstone.types import NO_OFFSET, TopicPartition
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text


def partitions_of(client: Client, topics: Topics) -> list[TopicPartition]:
    """Sorted. Raises for a named topic that does not exist; a pattern has no missing topics, and
    matches no internal ones."""
    if topics.assign is not None:
        known = {
            topic: client.topic(topic) for topic in dict.fromkeys(p.topic for p in topics.assign)
        }
        for each in topics.assign:
            if each.partition not in known[each.topic].partitions:
                raise UnknownTopicOrPartition(f"assign names {each}, which does not exist")
        return sorted(topics.assign)
    if topics.pattern is not None:
        try:
            pattern = re.compile(topics.pattern)
        except re.error as error:
            raise ConfigError("subscribePattern", topics.pattern, str(error)) from None
        # As in Spark's own connector: a query's commits alone would keep `.*` busy for ever.
        others = [info for info in client.all_topics() if not info.is_internal]
        found = [info for info in others if pattern.fullmatch(info.name)]
    else:
        found = [client.topic(name) for name in topics.subscribe or ()]
    return sorted(TopicPartition(info.name, n) for info in found for n in info.partitions)


def topic_ids_of(client: Client, partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """From the last metadata; topics without an id are left out."""
    cluster = client.session.cluster
    ids = {topic: cluster.topic_id(topic) for topic in dict.fromkeys(p.topic for p in partitions)}
    return {topic: uuid_to_text(each) for topic, each in ids.items() if each != ZERO_UUID}


def offsets_at(
    client: Client, partitions: Iterable[TopicPartition], at: int, isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    """EARLIEST, or LATEST for this isolation level."""
    wanted = dict.fromkeys(partitions, at)
    listed = list_offsets(client, wanted, isolation_level=isolation.level) if wanted else {}
    return {each: found.offset for each, found in listed.items()}


def resolve(
    client: Client,
    position: Position,
    partitions: list[TopicPartition],
    isolation: IsolationLevel,
    *,
    what: str,
) -> dict[TopicPartition, int]:
    """The offset of every partition."""
    if position.timestamp_ms is not None:
        times = dict.fromkeys(partitions, position.timestamp_ms)
        return _by_time(client, times, isolation, position, what)
    if position.timestamps is not None:
        times = _for_each(position.timestamps, partitions, f"{what}OffsetsByTimestamp")
        return _by_time(client, times, isolation, position, what)
    if position.offsets is None:
        return offsets_at(client, partitions, position.at, isolation)
    given = _for_each(position.offsets, partitions, f"{what}Offsets")
    found = dict(given)
    for word in (EARLIEST, LATEST):
        said = [each for each in partitions if given[each] == word]
        found |= offsets_at(client, said, word, isolation)
    return found


def _for_each(
    given: Mapping[TopicPartition, int], partitions: list[TopicPartition], what: str
) -> dict[TopicPartition, int]:
    missing = [str(each) for each in partitions if each not in given]
    unknown = [str(each) for each in sorted(given) if each not in partitions]
    if missing or unknown:
        raise ConfigError(
            what,
            {str(each): offset for each, offset in sorted(given.items())},
            f"every partition has to be named, and no other; missing {missing}, unknown {unknown}",
        )
    return {each: given[each] for each in partitions}


def _by_time(
    client: Client,
    times: Mapping[TopicPartition, int],
    isolation: IsolationLevel,
    position: Position,
    what: str,
) -> dict[TopicPartition, int]:
    listed = list_offsets(client, times, isolation_level=isolation.level) if times else {}
    late = [each for each in times if listed[each].offset == NO_OFFSET]
    if late and position.late_is_error:
        raise ConfigError(
            f"{what}Timestamp",
            times[late[0]],
            f"{late[0]} has no record of that time or later; "
            f"startingOffsetsByTimestampStrategy=latest starts at the end",
        )
    ends = offsets_at(client, late, LATEST, isolation)
    return {each: ends.get(each, listed[each].offset) for each in times}
