"""How far followers are behind the partitions led here. Grade D, over the hosted partitions."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.types import NO_OFFSET


class ReplicaLag(NamedTuple):
    lag: int  # records that the leader has and the follower has not fetched
    topic: str
    partition: int
    node: int


def follower_lags(partitions: Iterable[Partition]) -> Iterator[ReplicaLag]:
    """Without followers that have not fetched from this leader: it does not know what they have."""
    for partition in partitions:
        role = partition.role
        if not isinstance(role, Leader):
            continue
        end_offset = partition.log.log_end_offset
        for node, follower in role.in_sync.followers.items():
            if follower.end_offset != NO_OFFSET:
                lag = max(end_offset - follower.end_offset, 0)
                yield ReplicaLag(lag, *partition.topic_partition, node)


def lag_by_node(lags: Iterable[ReplicaLag]) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in lags:
        found[each.node] = found.get(each.node, 0) + each.lag
    return found
