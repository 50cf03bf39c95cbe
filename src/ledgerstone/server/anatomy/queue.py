"""The cleaner's queue as people are shown it: what is cleaned, what is next, and why. Grade D.

To judge a log takes a fraction of a millisecond, and there may be thousands: each look judges a few
and remembers the rest from before, so that a page that is looked at costs the same whatever there
is. Order and reasons are those of `cleaner.selection`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ledgerstone.cleaner.deadlines import Due, Pending, reason_now
from ledgerstone.cleaner.selection import CleaningReason, LogToClean, kafka_candidates
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.parts import RunningPass
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.types import TopicPartition

JUDGED_AT_ONCE: Final = 25
_RANKS: Final = {reason: rank for rank, reason in enumerate(CleaningReason)}


class QueueRow(NamedTuple):
    topic_partition: TopicPartition
    dirty_ratio: float
    min_ratio: float
    cleanable_bytes: int
    total_bytes: int
    reason: CleaningReason | None  # why a pass would begin now; None while nothing asks for one
    next_due: Due | None  # the first thing that will

    def rank(self) -> tuple[int, int, float, TopicPartition]:
        """As passes are chosen; after those, what is due next, and then the dirtiest."""
        first = _RANKS[self.reason] if self.reason is not None else len(_RANKS)
        at_ms = self.next_due.at_ms if self.reason is None and self.next_due is not None else 0
        waits = at_ms or (1 << 62 if self.reason is None else 0)
        return first, waits, -self.dirty_ratio, self.topic_partition


class RunningRow(NamedTuple):
    topic_partition: TopicPartition
    reason: str
    for_ms: int
    segments: int
    swapped_segments: int
    size_bytes: int
    swapped_bytes: int


class TroubleRow(NamedTuple):
    topic_partition: TopicPartition
    detail: str
    failures: int
    since_ms: int
    retry_in_ms: int | None  # None: not before a restart


@dataclass(slots=True)
class QueueLook:
    """What was found the last time each partition was looked at."""

    cleaning: CleaningWork
    _rows: dict[TopicPartition, QueueRow] = field(default_factory=dict)
    _behind: TopicPartition | None = None

    def look(self) -> list[QueueRow]:
        """In the order in which they would be cleaned."""
        compacted = {
            each.topic_partition: each
            for each in self.cleaning.partitions
            if each.log.config.compacts
        }
        for tp in [tp for tp in self._rows if tp not in compacted]:
            del self._rows[tp]
        for partition in self._turn(sorted(compacted), compacted):
            row = _judged(self.cleaning, partition)
            if row is None:
                self._rows.pop(partition.topic_partition, None)
            else:
                self._rows[partition.topic_partition] = row
        return self.known()

    def known(self) -> list[QueueRow]:
        """As the last looks found them."""
        return sorted(self._rows.values(), key=QueueRow.rank)

    def _turn(
        self,
        ordered: Sequence[TopicPartition],
        compacted: dict[TopicPartition, Partition],
    ) -> Iterator[Partition]:
        """Those with a ticket, and the next few behind the last one."""
        for tp in self.cleaning.asked:
            if tp in compacted:
                yield compacted[tp]
        behind = self._behind
        start = 0
        if behind is not None and len(ordered) > JUDGED_AT_ONCE:
            start = next((at for at, tp in enumerate(ordered) if tp > behind), 0)
        for tp in [*ordered[start:], *ordered[:start]][:JUDGED_AT_ONCE]:
            self._behind = tp
            yield compacted[tp]


def _judged(cleaning: CleaningWork, partition: Partition) -> QueueRow | None:
    """None for a log that cannot be looked at; what is wrong with it is reported elsewhere."""
    tp, log = partition.topic_partition, partition.log
    try:
        appraisal = cleaning.appraise(log)
    except (OSError, StorageError, KafkaError):
        return None
    found: LogToClean = appraisal.log
    now_ms = cleaning.clock.now_ms()
    pending = cleaning.pending.get(tp, Pending())
    reason = reason_now(found, pending, appraisal.dues, now_ms=now_ms)
    if tp in cleaning.asked:
        reason = CleaningReason.ASKED
    if reason is None:
        reason = next((each.reason for each in kafka_candidates([found])), None)
    return QueueRow(
        topic_partition=tp,
        dirty_ratio=found.dirty_ratio,
        min_ratio=found.min_cleanable_dirty_ratio,
        cleanable_bytes=found.cleanable_bytes,
        total_bytes=found.total_bytes,
        reason=reason,
        next_due=min(appraisal.dues, key=lambda due: due.at_ms, default=None),
    )


def running_rows(cleaning: CleaningWork) -> list[RunningRow]:
    now_ms = cleaning.clock.monotonic_ms()
    return [_running(cleaning, each, now_ms) for each in cleaning.running.values()]


def _running(cleaning: CleaningWork, running: RunningPass, now_ms: int) -> RunningRow:
    """A source that is gone, or has another size, was swapped: the log itself tells how far."""
    partition = cleaning.partitions.find(running.topic_partition)
    swapped = []
    for source in running.plan.segments:
        segment = partition.log.segments.at_base(source.base_offset) if partition else None
        if segment is None or segment.size != source.size_bytes:
            swapped.append(source.size_bytes)
    return RunningRow(
        topic_partition=running.topic_partition,
        reason=running.reason.value,
        for_ms=now_ms - running.started_monotonic_ms,
        segments=len(running.plan.segments),
        swapped_segments=len(swapped),
        size_bytes=sum(each.size_bytes for each in running.plan.segments),
        swapped_bytes=sum(swapped),
    )


def trouble_rows(cleaning: CleaningWork) -> list[TroubleRow]:
    now_ms = cleaning.clock.monotonic_ms()
    return [
        TroubleRow(
            tp,
            each.detail,
            each.failures,
            each.since_ms,
            None if each.retry_at_ms is None else max(each.retry_at_ms - now_ms, 0),
        )
        for tp, each in sorted(cleaning.troubles.items())
    ]
