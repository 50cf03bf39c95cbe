"""The things the owner's side of cleaning keeps: passes at work, troubles, tickets, totals. Pure.

What is done with them is in `work` and `agent`.
"""

from typing import NamedTuple

from ledgerstone.cleaner.deadlines import Due
from ledgerstone.cleaner.history import Run
from ledgerstone.cleaner.plan import CleanedGroup, CleaningPlan
from ledgerstone.cleaner.selection import CleaningReason, LogFacts, LogToClean
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.types import TopicPartition


class PassFailed(NamedTuple):
    """A pass that ended without a report."""

    detail: str
    worker_died: bool = False


@dataclass(slots=True, kw_only=True)
class RunningPass:
    number: int
    plan: CleaningPlan
    topic_id: bytes
    reason: CleaningReason
    truncations: int
    started_monotonic_ms: int
    ticket: int | None
    # A group that waits until its sources are durable.
    held: CleanedGroup | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return self.plan.topic_partition


@dataclass(slots=True, kw_only=True)
class Trouble:
    """Why a partition cannot be cleaned, and when it is tried again; None: after a restart."""

    detail: str
    since_ms: int
    failures: int
    retry_at_ms: int | None  # monotonic


@dataclass(slots=True, kw_only=True)
class PassTicket:
    """A request for a pass. `run` is what became of it; `refusal` says why there was none."""

    number: int
    topic_partition: TopicPartition
    run: Run | None = None
    refusal: str | None = None

    @property
    def is_done(self) -> bool:
        return self.run is not None or self.refusal is not None


class Appraisal(NamedTuple):
    """What selection knows of one log at one moment."""

    facts: LogFacts
    log: LogToClean
    dues: list[Due]


@dataclass(slots=True, kw_only=True)
class CleaningTotals:
    """Since start, for the metrics."""

    passes: int = 0
    failed_passes: int = 0
    worker_deaths: int = 0
    silent_workers: int = 0
    given_up: int = 0  # replicas that were silent for too long
    tombstones_removed: dict[TopicPartition, int] = field(default_factory=dict)
    last: Run | None = None
