"""What nodes report of the replicas they host, and who is behind whom. Pure.

A report is the answer of `GET /api/v1/replicas`. Reports of different nodes are of different
moments: a lag is an estimate, and never below zero.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ledgerstone.types import TopicPartition


class ReplicaReport(NamedTuple):
    node: int
    partition: TopicPartition
    is_leader: bool
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int


class ReplicaReports:
    def __init__(self, reports: Iterable[ReplicaReport] = ()) -> None:
        self._of: dict[TopicPartition, dict[int, ReplicaReport]] = {}
        for each in reports:
            self._of.setdefault(each.partition, {})[each.node] = each

    def of(self, partition: TopicPartition) -> Mapping[int, ReplicaReport]:
        """By node; without nodes that did not answer."""
        return self._of.get(partition, {})

    def lag_of(self, partition: TopicPartition, node: int) -> int | None:
        """Records that the leader has and this replica lacks; None if either did not report."""
        found = self.of(partition)
        ends = [each.log_end_offset for each in found.values() if each.is_leader]
        if node not in found or not ends:
            return None
        return max(max(ends) - found[node].log_end_offset, 0)

    def lag_by_node(self) -> dict[int, int]:
        """Of each node that reported: the sum over its replicas, as far as leaders are known."""
        lags: dict[int, int] = {}
        for partition, found in self._of.items():
            for node in found:
                lags[node] = lags.get(node, 0) + (self.lag_of(partition, node) or 0)
        return lags


def parse_report(content: Mapping[str, Any]) -> list[ReplicaReport]:
    """Empty for anything that is not a report: it comes from another machine."""
    try:
        node = int(content["node"])
        return [
            ReplicaReport(
                node=node,
                partition=TopicPartition(str(each["topic"]), int(each["partition"])),
                is_leader=bool(each["is_leader"]),
                log_start_offset=int(each["log_start_offset"]),
                high_watermark=int(each["high_watermark"]),
                log_end_offset=int(each["log_end_offset"]),
                size_bytes=int(each["size_bytes"]),
            )
            for each in content["replicas"]
        ]
    except (KeyError, TypeError, ValueError):
        return []
