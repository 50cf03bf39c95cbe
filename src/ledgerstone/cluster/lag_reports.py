"""How far replicas are behind, as their leaders report it. Pure.

A report is the answer of `GET /api/v1/lags` of one broker: the lags of those who follow it. A
broker that did not answer leaves the lags of its followers unknown.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ledgerstone.types import TopicPartition


class LagReports:
    def __init__(self, reports: Iterable[Mapping[str, Any]] = ()) -> None:
        self.by_node: dict[int, int] = {}
        self._by_replica: dict[tuple[TopicPartition, int], int] = {}
        for each in reports:
            self._take(each)

    def _take(self, report: Mapping[str, Any]) -> None:
        """Rubbish is left out: it comes from another machine."""
        try:
            nodes = {int(node): int(lag) for node, lag in report["nodes"].items()}
            replicas = {
                (
                    TopicPartition(str(each["topic"]), int(each["partition"])),
                    int(each["node"]),
                ): int(each["lag"])
                for each in report["largest"]
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            return
        for node, lag in nodes.items():
            self.by_node[node] = self.by_node.get(node, 0) + lag
        self._by_replica |= replicas

    def of(self, partition: TopicPartition, node: int) -> int | None:
        """Only the largest lags are reported one by one."""
        return self._by_replica.get((partition, node))
