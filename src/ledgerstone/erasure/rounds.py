"""The steps of many erasures made one piece of work. Grade P.

A thousand erasures must cost the passes of one: searches and scans look for many prints at once,
and a partition is compacted when no tombstone is about to follow. Contract: README.md, "Rounds".
"""

from collections.abc import Iterable
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.steps import (
    AbortOpen,
    Advance,
    Ask,
    AskVerifiers,
    Issue,
    ScanStep,
    Search,
    Step,
    WaitStep,
    WriteTombstones,
)
from ledgerstone.types import TopicPartition

# How long a compaction waits for tombstones of others; those who never stop asking must not stop
# everybody else.
HOLD_BACK_MS: Final = 10_000

_TOMBSTONES_TO_COME: Final = (Stage.REQUESTED, Stage.SEARCHED)


@dataclass(slots=True, kw_only=True)
class Round:
    """Ids are in the order of the erasures; every list is what one piece of work takes."""

    advances: list[Erasure] = field(default_factory=list)
    searches: dict[str, list[str]] = field(default_factory=dict)  # topic: ids
    writes: dict[str, WriteTombstones] = field(default_factory=dict)
    asks: dict[TopicPartition, list[str]] = field(default_factory=dict)
    # With several brokers: the replicas to ask, by broker.
    remote_asks: dict[tuple[int, TopicPartition], list[str]] = field(default_factory=dict)
    ask_journal: bool = False
    aborts: dict[str, AbortOpen] = field(default_factory=dict)
    scans: dict[int, list[str]] = field(default_factory=dict)  # node: ids
    verifiers: dict[str, tuple[str, ...]] = field(default_factory=dict)  # id: names
    issues: list[str] = field(default_factory=list)
    waits: dict[str, WaitStep] = field(default_factory=dict)

    @property
    def next_ms(self) -> int | None:
        """When to look again if nothing happens before."""
        times = (wait.until_ms for wait in self.waits.values() if wait.until_ms is not None)
        return min(times, default=None)


def make_round(steps: Iterable[tuple[Erasure, Step]], *, now_ms: int) -> Round:
    pairs = list(steps)
    busy = {each.topic: None for each, _ in pairs if each.stage in _TOMBSTONES_TO_COME}
    made = Round()
    for erasure, step in pairs:
        match step:
            case Advance():
                made.advances.append(step.erasure)
            case Search():
                made.searches.setdefault(erasure.topic, []).append(erasure.id)
            case WriteTombstones():
                made.writes[erasure.id] = step
            case Ask() if erasure.topic in busy and now_ms < erasure.stage_ms + HOLD_BACK_MS:
                until_ms = erasure.stage_ms + HOLD_BACK_MS
                text = f"a pass over {erasure.topic} waits for tombstones that are being written"
                made.waits[erasure.id] = WaitStep(until_ms, text)
            case Ask():
                made.ask_journal = made.ask_journal or step.journal
                for partition in step.partitions:
                    asked = made.asks.setdefault(TopicPartition(erasure.topic, partition), [])
                    asked.append(erasure.id)
                for partition, node_id in step.replicas:
                    place = (node_id, TopicPartition(erasure.topic, partition))
                    made.remote_asks.setdefault(place, []).append(erasure.id)
            case AbortOpen():
                made.aborts[erasure.id] = step
            case ScanStep():
                for node_id in step.node_ids:
                    made.scans.setdefault(node_id, []).append(erasure.id)
            case AskVerifiers():
                made.verifiers[erasure.id] = step.names
            case Issue():
                made.issues.append(erasure.id)
            case WaitStep():
                made.waits[erasure.id] = step
    return made
