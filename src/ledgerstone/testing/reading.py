"""A topic as a reader sees it, from its start to its end. Shell, over a `Client`."""

from collections.abc import Iterable
from typing import NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import FetchConfig, Fetcher
from ledgerstone.client.groups import describe_group, group_lags, list_groups
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.testing.findings import show
from ledgerstone.types import TopicPartition


class TopicRecord(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def is_tombstone(self) -> bool:
        return self.value is None


class GroupFacts(NamedTuple):
    """A consumer group. `lag` is the sum over its commits; None before the first."""

    state: str
    members: int
    committed: dict[TopicPartition, int]
    lag: int | None


def read_topic(client: Client, topic: str, *, isolation_level: int) -> list[TopicRecord]:
    """Every record that may be read now, by partition and offset."""
    partitions = [TopicPartition(topic, each) for each in sorted(client.topic(topic).partitions)]
    starts = list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(client, dict.fromkeys(partitions, LATEST), isolation_level=isolation_level)
    fetcher = Fetcher(client, FetchConfig(isolation_level=isolation_level))
    found = []
    for partition in partitions:
        start, end = starts[partition].offset, ends[partition].offset
        for fetched in fetcher.read_range(partition, start, end):
            found += [
                TopicRecord(partition.partition, *record)
                for record in records_of(fetched, isolation_level=isolation_level)
                if record.offset < end
            ]
    return found


def fold(records: Iterable[TopicRecord]) -> dict[bytes, bytes]:
    """The live keys. A key that is live in two partitions is ambiguous, and raises ValueError."""
    latest: dict[tuple[int, bytes], bytes | None] = {}
    for record in records:
        if record.key is not None:
            latest[record.partition, record.key] = record.value
    state: dict[bytes, bytes] = {}
    home: dict[bytes, int] = {}
    for (partition, key), value in latest.items():
        if value is None:
            continue
        if key in state:
            raise ValueError(
                f"{show(key)} is live in partitions {home[key]} and {partition}; "
                "ask for the state of one of them"
            )
        state[key], home[key] = value, partition
    return state


def read_groups(client: Client) -> dict[str, GroupFacts]:
    found = {}
    for listed in list_groups(client):
        group = describe_group(client, listed.group_id)
        lags = [each for each in group_lags(client, group) if each.committed_offset is not None]
        found[listed.group_id] = GroupFacts(
            state=group.state,
            members=len(group.members),
            committed={each.partition: each.committed_offset or 0 for each in lags},
            lag=sum(each.lag or 0 for each in lags) if lags else None,
        )
    return found
