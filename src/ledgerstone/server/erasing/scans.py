"""Searches and scans that a broker has asked its scanning worker for. Grade D.

Whoever wants one hands in a plan and what is to be called with its end; the plan leaves as an
effect with the next tick. Plans hold secrets, so nothing of them is logged or answered. A start
imports this and none of the plans.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Union

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.server.effects import GiveUp, StartScan, WorkerName
from ledgerstone.types import TopicPartition
from ledgerstone.workers.watch import Watch

if TYPE_CHECKING:
    from ledgerstone.erasure.scan_plan import ScannedPartition, ScanPlan, ScanReport, SearchReport

_LOG: Final = logging.getLogger(__name__)
# Answers to "where is this key" that can still be asked for.
_TICKETS_KEPT: Final = 100


class ScanFailed(NamedTuple):
    reason: str
    worker_died: bool = False


ScanResult = Union["SearchReport", "ScanReport", ScanFailed]
WhenEnded = Callable[[ScanResult], None]


@dataclass(slots=True)
class Scans:
    """Every number that was given out is ended once, unless the broker stops before."""

    watch: Watch = field(default_factory=Watch)
    _under_way: dict[int, WhenEnded] = field(default_factory=dict)
    _wanted: list[StartScan] = field(default_factory=list)
    _next_number: int = 1

    def start(self, plan: "ScanPlan", when_ended: WhenEnded) -> int:
        number = self._next_number
        self._next_number += 1
        self._under_way[number] = when_ended
        self._wanted.append(StartScan(number, plan))
        return number

    @property
    def has_wanted(self) -> bool:
        return bool(self._wanted)

    def take_wanted(self) -> list[StartScan]:
        wanted, self._wanted = self._wanted, []
        return wanted

    def goes_on(self, number: int, *, now_ms: int, timeout_ms: int) -> None:
        """Watched from the first time on: until then it waits for the worker."""
        if number in self._under_way:
            self.watch.begin(number, now_ms=now_ms, timeout_ms=timeout_ms)

    def give_up_silent(self, *, now_ms: int, timeout_ms: int) -> Iterator[GiveUp]:
        """One worker does all scans, so one that hangs would hold up every erasure."""
        for number in self.watch.look(now_ms=now_ms, timeout_ms=timeout_ms):
            reason = f"it said nothing for {timeout_ms} ms"
            _LOG.warning("worker given up worker=scanning scan=%d reason=%s", number, reason)
            yield GiveUp(number, reason, WorkerName.SCANNING)

    def ended(self, number: int, result: ScanResult) -> None:
        self.watch.end(number)
        self._under_way.pop(number)(result)


class SearchTicket(NamedTuple):
    """Somebody asked where a key is."""

    number: int
    topic: str
    result: "SearchReport | ScanFailed | None" = None
    # Of every replica, where that was asked for; and those of which there is no word, with reasons.
    by_broker: "Mapping[int, SearchReport] | None" = None
    unseen: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        from ledgerstone.erasure.places import places_json, replicas_json

        found = None if isinstance(self.result, ScanFailed) else self.result
        answer = None if found is None else places_json(found)
        if self.by_broker is not None:
            answer = replicas_json(self.by_broker, self.unseen)
        return {
            "search": self.number,
            "topic": self.topic,
            "done": self.result is not None,
            "failure": self.result.reason if isinstance(self.result, ScanFailed) else None,
            "answer": answer,
        }


@dataclass(slots=True)
class SearchTickets:
    _tickets: dict[int, SearchTicket] = field(default_factory=dict)
    _next_number: int = 1

    def open(self, topic: str) -> SearchTicket:
        number = self._next_number
        self._next_number += 1
        self._tickets[number] = SearchTicket(number, topic)
        for oldest in list(self._tickets)[:-_TICKETS_KEPT]:
            del self._tickets[oldest]
        return self._tickets[number]

    def close(self, number: int, result: ScanResult) -> None:
        from ledgerstone.erasure.scan_plan import ScanReport

        assert not isinstance(result, ScanReport), "a search ends with what a search finds"
        known = self._tickets.get(number)
        if known is not None:
            self._tickets[number] = known._replace(result=result)

    def close_replicas(
        self,
        number: int,
        by_broker: "Mapping[int, SearchReport]",
        unseen: Sequence[str],
        all_of: "SearchReport",
    ) -> None:
        known = self._tickets.get(number)
        if known is not None:
            self._tickets[number] = known._replace(
                result=all_of, by_broker=by_broker, unseen=tuple(unseen)
            )

    def get(self, number: int) -> SearchTicket | None:
        return self._tickets.get(number)


def files_of(
    image: MetadataImage, partitions: HostedPartitions, topic: str
) -> "tuple[ScannedPartition, ...]":
    """The topic's partitions here, each as far as it reaches at this moment."""
    from ledgerstone.erasure.scan_plan import LiveSegment, ScannedPartition

    found = []
    for number in sorted(image.topics[topic].partitions):
        partition = partitions.find(TopicPartition(topic, number))
        if partition is not None:
            log = partition.log
            segments = tuple(LiveSegment(each.base_offset, each.size) for each in log.segments)
            found.append(
                ScannedPartition(
                    topic_partition=log.topic_partition,
                    directory=log.directory,
                    segments=segments,
                )
            )
    return tuple(found)


def missing_partition(image: MetadataImage, partitions: HostedPartitions, topic: str) -> str | None:
    """Why not all of the topic can be looked at; None where it can."""
    for number in sorted(image.topics[topic].partitions):
        tp = TopicPartition(topic, number)
        if partitions.find(tp) is None:
            return f"{tp} is not here: {partitions.offline.get(tp, 'it is being created')}"
    return None
