"""Which partitions are being looked at, and what the analysing worker last said of each. Grade D.

An analysis is asked for by looking: `look` returns what is known and notes that it is wanted newer.
One is under way at a time, and a partition rests after each for ten times as long as it took, so
that pages which stay open cost a tenth of a core at most. A partition that was not looked at for a
while is forgotten. The plan is made when the analysis begins; `state.anatomy_reading` does the
work.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.delta import Delta
from ledgerstone.records.compression import stored_limit
from ledgerstone.server.anatomy.queue import QueueLook
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import Analyse, Effect, GiveUp, WorkerName
from ledgerstone.server.results import AnalysisFailed, Result, StillAtWork
from ledgerstone.state.anatomy_plan import (
    AnatomyPlan,
    AnatomyReport,
    SegmentDivision,
    SegmentSpan,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.segment import Segment
from ledgerstone.types import TopicPartition
from ledgerstone.workers.watch import Watch

_LOG: Final = logging.getLogger(__name__)
# What a larger partition holds is not divided: reading it for a page would take minutes.
MAX_BYTES: Final = 16 << 30
MAX_PARTITIONS: Final = 256
SHORTEST_REST_MS: Final = 1_000
LONGEST_REST_MS: Final = 60_000
REST_FACTOR: Final = 10
FORGET_MS: Final = 60_000
SAMPLE_EVERY_MS: Final = 2_000
_SAMPLES: Final = 300


class RatioSample(NamedTuple):
    at_ms: int
    dirty_ratio: float


@dataclass(slots=True, kw_only=True)
class _Entry:
    looked_ms: int
    report: AnatomyReport | None = None
    failure: str | None = None
    # What the report speaks of.
    spans: tuple[SegmentSpan, ...] = ()
    end_offset: int = -1
    rest_until_ms: int = 0
    # The segments as they were seen last: one that was swapped in is another object.
    segments: list[Segment] = field(default_factory=list)
    truncations: int = 0
    generations: dict[int, int] = field(default_factory=dict)
    ratios: deque[RatioSample] = field(default_factory=lambda: deque(maxlen=_SAMPLES))


class Known(NamedTuple):
    """What is known of a partition at this moment."""

    report: AnatomyReport | None
    divisions: Mapping[int, SegmentDivision]  # by base; not of segments that a pass has replaced
    is_current: bool  # nothing has changed since the report
    is_under_way: bool
    failure: str | None = None


def not_known(reason: str) -> Known:
    return Known(None, {}, is_current=True, is_under_way=False, failure=reason)


class _UnderWay(NamedTuple):
    number: int
    topic_partition: TopicPartition
    plan: AnatomyPlan
    began_ms: int


@dataclass(slots=True, kw_only=True)
class AnatomyBook:
    """An agent (`server.agent`)."""

    clock: Clock
    # Its settings bound the worker, too.
    cleaning: CleaningWork
    queue: QueueLook = field(init=False)
    # Searches that pages began, by number: a hash of what was searched for.
    key_searches: dict[int, bytes] = field(default_factory=dict)
    _entries: dict[TopicPartition, _Entry] = field(default_factory=dict)
    _wanted: dict[TopicPartition, None] = field(default_factory=dict)
    _under_way: _UnderWay | None = None
    _watch: Watch = field(default_factory=Watch)
    _next_number: int = 1
    # Called by a look that makes the next tick due sooner.
    wake: Callable[[], None] = lambda: None
    # Never given out twice: the worker may remember a partition that was forgotten here.
    _generation: int = 0

    def __post_init__(self) -> None:
        self.queue = QueueLook(self.cleaning)

    def __len__(self) -> int:
        return len(self._entries)

    def look(self, log: PartitionLog) -> Known:
        """What is known; something newer comes soon if there is any."""
        tp, now_ms = log.topic_partition, log.clock.monotonic_ms()
        if log.size_bytes > MAX_BYTES:
            failure = f"{log.size_bytes} bytes are more than the {MAX_BYTES} that are divided"
            return not_known(failure)
        entry = self._seen(tp, now_ms)
        spans = self._spans(entry, log)
        is_current = (spans, log.last_stable_offset) == (entry.spans, entry.end_offset)
        is_under_way = self._under_way is not None and self._under_way.topic_partition == tp
        if not is_current and not is_under_way and tp not in self._wanted:
            self._wanted[tp] = None
            self.wake()
        return Known(
            entry.report, _still_true(entry, spans), is_current, is_under_way, entry.failure
        )

    def sample(self, log: PartitionLog, dirty_ratio: float) -> list[RatioSample]:
        """Notes how dirty the log is, now and then; returns what was noted since the first look."""
        ratios = self._seen(log.topic_partition, log.clock.monotonic_ms()).ratios
        now_ms = log.clock.now_ms()
        if not ratios or not 0 <= now_ms - ratios[-1].at_ms < SAMPLE_EVERY_MS:
            ratios.append(RatioSample(now_ms, dirty_ratio))
        return list(ratios)

    def _seen(self, tp: TopicPartition, now_ms: int) -> _Entry:
        entry = self._entries.pop(tp, None) or _Entry(looked_ms=now_ms)
        entry.looked_ms = now_ms
        # The one looked at last is at the end.
        self._entries[tp] = entry
        self._forget(now_ms)
        return entry

    def _forget(self, now_ms: int) -> None:
        while self._entries:
            oldest = next(iter(self._entries))
            is_old = now_ms - self._entries[oldest].looked_ms > FORGET_MS
            if not is_old and len(self._entries) <= MAX_PARTITIONS:
                return
            del self._entries[oldest]
            self._wanted.pop(oldest, None)

    def _spans(self, entry: _Entry, log: PartitionLog) -> tuple[SegmentSpan, ...]:
        segments = list(log.segments)
        known = {each.base_offset: each for each in entry.segments}
        if entry.truncations != log.truncations:
            known, entry.truncations = {}, log.truncations
        self._generation += 1
        for each in segments:
            if known.get(each.base_offset) is not each:
                entry.generations[each.base_offset] = self._generation
        entry.segments = segments
        entry.generations = {
            each.base_offset: entry.generations[each.base_offset] for each in segments
        }
        return tuple(
            SegmentSpan(each.base_offset, each.size, entry.generations[each.base_offset])
            for each in segments
        )

    # -- asking --------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if self._under_way is not None:
            return self._watch.next_look_ms
        if not self._wanted:
            return None
        return min(self._entries[tp].rest_until_ms for tp in self._wanted)

    def tick(self) -> list[Effect]:
        now_ms, timeout_ms = self.clock.monotonic_ms(), self.cleaning.settings.worker_timeout_ms
        effects: list[Effect] = []
        for number in self._watch.look(now_ms=now_ms, timeout_ms=timeout_ms):
            reason = f"it said nothing for {timeout_ms} ms"
            _LOG.warning("worker given up worker=analysing analysis=%d reason=%s", number, reason)
            effects.append(GiveUp(number, reason, WorkerName.ANALYSING))
        for tp in list(self._wanted) if self._under_way is None else ():
            entry, partition = self._entries[tp], self.cleaning.partitions.find(tp)
            if partition is None or now_ms - entry.looked_ms > FORGET_MS:
                del self._wanted[tp]
                if partition is None:
                    del self._entries[tp]
            elif entry.rest_until_ms <= now_ms:
                del self._wanted[tp]
                effects.append(self._begin(entry, partition.log, now_ms))
                break
        return effects

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        match effect, result:
            case Analyse(number), StillAtWork():
                self._goes_on(number)
            case Analyse(number), AnatomyReport():
                self._ended(number, result)
            case Analyse(number), AnalysisFailed(reason):
                self._ended(number, reason)
            case _:
                raise AssertionError(f"anatomy asked for no {type(effect).__name__}")
        return []

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """A partition that is gone is forgotten with the next tick."""
        return []

    def _begin(self, entry: _Entry, log: PartitionLog, now_ms: int) -> Analyse:
        plan = AnatomyPlan(
            topic_partition=log.topic_partition,
            directory=log.directory,
            segments=self._spans(entry, log),
            end_offset=log.last_stable_offset,
            decompression_limit_bytes=stored_limit(log.config.max_message_bytes),
            bytes_per_second=self.cleaning.settings.bytes_per_second,
        )
        number = self._next_number
        self._next_number += 1
        self._under_way = _UnderWay(number, log.topic_partition, plan, now_ms)
        return Analyse(number, plan)

    def _goes_on(self, number: int) -> None:
        """Its worker has begun, or says that it is still at it."""
        if self._under_way is not None and self._under_way.number == number:
            timeout_ms = self.cleaning.settings.worker_timeout_ms
            now_ms = self.clock.monotonic_ms()
            self._watch.begin(number, now_ms=now_ms, timeout_ms=timeout_ms)

    def _ended(self, number: int, result: AnatomyReport | str) -> None:
        under_way, now_ms = self._under_way, self.clock.monotonic_ms()
        assert under_way is not None
        assert under_way.number == number, f"{number} ended, {under_way.number} is under way"
        self._under_way = None
        self._watch.end(number)
        entry = self._entries.get(under_way.topic_partition)
        if entry is None:
            return
        rest_ms = REST_FACTOR * (now_ms - under_way.began_ms)
        entry.rest_until_ms = now_ms + min(max(rest_ms, SHORTEST_REST_MS), LONGEST_REST_MS)
        if isinstance(result, str):
            # Not current: files that a pass replaced under the worker are read the next time.
            entry.failure = result
            return
        entry.report, entry.failure = result, None
        entry.spans, entry.end_offset = under_way.plan.segments, under_way.plan.end_offset

    def check_invariants(self) -> None:
        assert len(self._entries) <= MAX_PARTITIONS
        for tp in self._wanted:
            assert tp in self._entries, tp


def _still_true(entry: _Entry, spans: tuple[SegmentSpan, ...]) -> dict[int, SegmentDivision]:
    generations = {each.base_offset: each.generation for each in entry.spans}
    now = {each.base_offset: each.generation for each in spans}
    return {
        each.base_offset: each
        for each in (entry.report.segments if entry.report else ())
        if each.base_offset in now and now[each.base_offset] == generations[each.base_offset]
    }
