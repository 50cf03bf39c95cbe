"""The owner's side of cleaning: picks logs, makes plans, swaps what workers wrote. Grade D.

A worker writes `.cleaned` files and nothing else; everything that makes them count happens here, in
this order: each group is swapped in, then the history with the earliest horizon is written, then
the checkpoint, both at most every few seconds. Crash here, between any two: the log is the one
before or the one after the swap, and the range not checkpointed is cleaned once more. Differs from
Kafka: a partition whose pass failed is tried again, ever more rarely, and never given up; what is
due goes before what is dirty.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ledgerstone.cleaner.history import Outcome, Run
from ledgerstone.cleaner.plan import CleanedGroup, PassReport, PassStats
from ledgerstone.cleaner.planning import CleanerSettings
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import ResourceType
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.choice import start_next
from ledgerstone.server.cleaning.files import remove_cleaned
from ledgerstone.server.cleaning.needs import DiskTrouble, Retains, SharedFlushes
from ledgerstone.server.cleaning.parts import PassFailed, RunningPass
from ledgerstone.server.cleaning.swap import Swaps
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import Clean, Effect, Flush, GiveUp, Proceed, SyncSwap
from ledgerstone.server.results import Done, Failed, GroupCleaned, Result, StillAtWork
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
# Looking for work goes through every log, so not without any pause, whatever is configured.
SHORTEST_BACKOFF_MS: Final = 100


@dataclass(slots=True, kw_only=True)
class Cleaning(CleaningWork):
    """An agent (`server.agent`). Made by bootstrap; `load` once the partitions are hosted."""

    log_dirs: LogDirs
    disk: DiskTrouble
    flushes: SharedFlushes
    retention: Retains
    # The settings as the metadata has them now.
    read_settings: Callable[[], CleanerSettings]
    # Called when a pass has ended: the leader wants to know how far it came.
    on_cleaned: Callable[[TopicPartition], None] | None = None
    swaps: Swaps = field(init=False)
    is_stopped: bool = False
    # Logs are opened one by one; until all are, what passes rest on is not known.
    is_loaded: bool = False

    def __post_init__(self) -> None:
        CleaningWork.__post_init__(self)
        self.swaps = Swaps(self, self.flushes, self.disk)

    # -- life cycle ---------------------------------------------------------------------------

    def load(self) -> None:
        """At start. Of a partition that is no longer here nothing is remembered: its name may come
        back."""
        for tp in list(self.files.first_dirty_offsets):
            if self.partitions.find(tp) is None and tp not in self.partitions.offline:
                self.files.forget(tp)
        self.files.write_now()
        self.log_dirs.listen_to_truncations(self.truncating)
        self._watch_all()
        self.is_loaded = True

    def _watch_all(self) -> None:
        for partition in self.partitions:
            self.hosted(partition)

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return list(self._follow(delta))

    def _follow(self, delta: Delta) -> Iterator[Effect]:
        for topic in delta.topics_deleted:
            for number in topic.partitions:
                yield from self._drop(TopicPartition(topic.name, number))
        removed = self.partitions.take_removed()
        for tp in removed:
            yield from self._drop(tp, "the replica was removed from this broker")
        if (delta.topics_deleted or removed) and not self.files.write_now():
            self.files.write_soon(self.clock.monotonic_ms())
        if delta.topics_created or delta.partitions_added:
            self._watch_all()
        for change in delta.partitions_changed:
            # Perhaps a replica that was added to this broker.
            partition = self.partitions.find(TopicPartition(change.topic, change.partition))
            if partition is not None:
                self.hosted(partition)
        for resource in delta.configs_changed:
            if resource.resource_type == ResourceType.GROUP:
                continue
            if resource.resource_type == ResourceType.BROKER:
                self.settings = self.read_settings()
            # What was changed may be what made a pass fail.
            is_topic = resource.resource_type == ResourceType.TOPIC
            for tp in list(self.troubles):
                if not is_topic or tp.topic == resource.name:
                    del self.troubles[tp]
            self.look_now()
        if delta.configs_changed:
            self._watch_compacted()
            yield from self._abort_uncompacted()

    def _watch_compacted(self) -> None:
        """Tombstones count from the moment that a topic becomes compacted."""
        for partition in self.partitions:
            log, pending = partition.log, self.pending.get(partition.topic_partition)
            if pending is not None and pending.is_watched != log.config.compacts:
                pending.watch(
                    is_compacted=log.config.compacts,
                    end_offset=log.log_end_offset,
                    now_ms=log.clock.now_ms(),
                )

    def _abort_uncompacted(self) -> Iterator[Effect]:
        for running in list(self.running.values()):
            partition = self.partitions.find(running.topic_partition)
            if partition is not None and not partition.log.config.compacts:
                yield from self.abort(running.topic_partition)

    def _drop(self, tp: TopicPartition, why: str = "the topic was deleted") -> Iterator[Effect]:
        yield from self.abort(tp)
        self.files.forget(tp)
        for known in (self.pending, self.troubles):
            known.pop(tp, None)
        self.refuse(tp, why)

    def directory_failed(self, path: str, partitions: Iterable[TopicPartition]) -> list[Effect]:
        """Nothing more is cleaned or written down there."""
        effects: list[Effect] = []
        self.files.directory_failed(path)
        for tp in partitions:
            effects += self._drop(tp, f"its log directory {path} is offline")
        return effects

    def abort(self, tp: TopicPartition) -> Iterator[Effect]:
        """Nothing the pass has not swapped yet will be used; a later pass is not kept away."""
        if self.states.is_cleaned(tp):
            self.states.abort(tp)
            yield from (
                Proceed(each.number, go_on=False)
                for each in self.running.values()
                if each.topic_partition == tp
            )

    def pause(self, tp: TopicPartition) -> list[Effect]:
        """No pass starts before `resume`; one at work is called off."""
        calls_off = [
            Proceed(each.number, go_on=False)
            for each in self.running.values()
            if each.topic_partition == tp and self.states.is_cleaned(tp)
        ]
        self.states.abort_and_pause(tp)
        return list(calls_off)

    def resume(self, tp: TopicPartition) -> None:
        self.states.resume(tp)
        self.look_now()

    def is_at_work(self, tp: TopicPartition) -> bool:
        return any(each.topic_partition == tp for each in self.running.values())

    def moved(self, tp: TopicPartition) -> None:
        """Its checkpoint lies beside its log. Crash here: it is cleaned once more."""
        if not self.files.write_now():
            self.files.write_soon(self.clock.monotonic_ms())

    def stop(self) -> Iterator[Effect]:
        self.is_stopped = True
        self.files.write_now()
        for running in list(self.running.values()):
            yield from self.abort(running.topic_partition)

    def truncating(self, log: PartitionLog, offset: int) -> None:
        """The log is about to be cut at `offset`, so what a checkpoint above says is taken back.

        Before, not after. Crash between: some of the log is cleaned twice. The other way round
        new records would pass for cleaned, and a tombstone among them would go while the values
        it deletes stay. Down to the segment's base, as in Kafka: batches go whole."""
        tp, floor = log.topic_partition, log.segments.floor(offset)
        base_offset = offset if floor is None else floor.base_offset
        if self.states.is_cleaned(tp):
            # The worker hears of it when it hands over its next group.
            self.states.abort(tp)
        if tp in self.pending:
            self.pending[tp].truncated(base_offset, now_ms=self.clock.now_ms())
            ledger = self.files.ledger(log)
            if (cut := ledger.truncated(base_offset)) != ledger:
                self.files.set_ledger(log, cut)
        known = self.files.first_dirty_offsets.get(tp, 0)
        if known > base_offset:
            try:
                self.files.set_first_dirty_offset(tp, base_offset)
            except OSError:
                # The disk says what it said, so the next attempt must write as well.
                self.files.cleaned_up_to(tp, known)
                raise

    # -- choosing -----------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int:
        return min(self._due_ms, self.watch.next_look_ms, self.files.write_due_ms)

    def tick(self) -> list[Effect]:
        return list(self._look())

    def _look(self) -> Iterator[Effect]:
        now_ms = self.clock.monotonic_ms()
        timeout_ms = self.settings.worker_timeout_ms
        for number in self.watch.look(now_ms=now_ms, timeout_ms=timeout_ms):
            yield self._give_up(number, timeout_ms)
        self.files.write_if_due(now_ms)
        if now_ms < self._due_ms:
            return
        self.last_look_ms = self.clock.now_ms()
        self._due_ms = now_ms + max(self.settings.backoff_ms, SHORTEST_BACKOFF_MS)
        if not self.settings.enable or self.is_stopped or not self.is_loaded:
            return
        while len(self.running) < self.settings.threads:
            started = start_next(self)
            if started is None:
                break
            self.watch.begin(started.number, now_ms=now_ms, timeout_ms=timeout_ms)
            yield started

    def _give_up(self, number: int, timeout_ms: int) -> GiveUp:
        """Nothing is decided about the pass yet: its worker may be hard to kill, and until it is
        dead it may write."""
        reason = f"it said nothing for {timeout_ms} ms"
        self.worker_failure = f"the cleaning worker hangs: {reason}"
        self.totals.silent_workers += 1
        tp = self.running[number].topic_partition
        _LOG.warning("worker given up worker=cleaning partition=%s reason=%s", tp, reason)
        return GiveUp(number, reason)

    # -- what the worker says -----------------------------------------------------------------

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        match effect, result:
            case Flush(tp), _:
                return list(self._flushed(tp))
            case SyncSwap(), Done():
                return list(self.swaps.synced(effect, None))
            case SyncSwap(), Failed(error):
                return list(self.swaps.synced(effect, error))
            case Clean(number), StillAtWork():
                self._heard(number)
            case Clean(number), GroupCleaned(group):
                return list(self._group_cleaned(number, group))
            case Clean(number), PassReport() | PassFailed():
                self.ended(number, result)
            case _:
                raise AssertionError(f"cleaning asked for no {type(effect).__name__}")
        return []

    def _heard(self, number: int) -> None:
        self.watch.heard(number)
        if number in self.running:
            self.worker_failure = None

    def _group_cleaned(self, number: int, group: CleanedGroup) -> Iterator[Effect]:
        running = self.running.get(number)
        if running is None:
            yield Proceed(number, go_on=False)
            return
        self.worker_failure = None
        self.watch.end(number)
        running.held = group
        yield from self.swaps.attempt(running)

    def _flushed(self, tp: TopicPartition) -> Iterator[Effect]:
        for running in list(self.running.values()):
            if running.topic_partition == tp and running.held is not None:
                yield from self.swaps.attempt(running)

    def ended(self, number: int, outcome: PassReport | PassFailed) -> None:
        running = self.running.pop(number)
        self.watch.end(number)
        tp = running.topic_partition
        counts = self.states.done(tp)
        partition = self.partition_of(running)
        self.look_now()
        try:
            remove_cleaned(self.log_dirs.fs, running.plan.directory)
        except OSError as error:
            _LOG.warning("cleaned files stay partition=%s reason=%s", tp, error)
        result: Outcome = "cleaned"
        detail = ""
        if not counts or partition is None or partition.log.failure is not None:
            result, detail = "aborted", "the log changed, or cleaning was called off"
        elif isinstance(outcome, PassFailed):
            result, detail = "failed", outcome.detail
        self._note_worker(outcome)
        run = self._run_of(running, outcome, result, detail)
        self._finish_ticket(running, run)
        if partition is None:
            return
        self._note_down(partition, run)
        report = outcome if isinstance(outcome, PassReport) else None
        self.guard.pass_ended(partition, report, is_swapped=run.outcome == "cleaned")
        self.files.write_soon(self.clock.monotonic_ms())
        if run.outcome == "failed":
            self.failed(tp, PassFailed(run.detail))
        elif run.outcome == "cleaned":
            self._succeeded(partition, running, run)

    def _note_worker(self, outcome: PassReport | PassFailed) -> None:
        if not isinstance(outcome, PassFailed):
            self.worker_failure = None
        elif outcome.worker_died:
            self.worker_failure = outcome.detail
            self.totals.worker_deaths += 1

    def _run_of(
        self,
        running: RunningPass,
        outcome: PassReport | PassFailed,
        result: Outcome,
        detail: str,
    ) -> Run:
        report = outcome if isinstance(outcome, PassReport) else None
        plan = running.plan
        return Run(
            started_ms=plan.now_ms,
            ended_ms=self.clock.now_ms(),
            duration_ms=self.clock.monotonic_ms() - running.started_monotonic_ms,
            reason=running.reason.value,
            outcome=result,
            detail=detail,
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=report.end_offset if report else plan.first_dirty_offset,
            segments_before=len(plan.segments),
            segments_after=len(report.groups) if report else len(plan.segments),
            stats=report.stats if report else PassStats(),
        )

    def _finish_ticket(self, running: RunningPass, run: Run) -> None:
        if running.ticket is not None:
            self.tickets[running.ticket].run = run

    def _note_down(self, partition: Partition, run: Run) -> None:
        self.files.add_run(partition.log, run, keep=self.settings.history_runs)
        if run.outcome == "cleaned":
            # A pass for horizons maps from below the first dirty offset and may end below it.
            first_dirty = self.files.first_dirty_offsets.get(partition.topic_partition, 0)
            end_offset = max(run.end_offset, first_dirty)
            self.files.cleaned_up_to(partition.topic_partition, end_offset)
            if partition.removal is not None and self.on_cleaned is not None:
                self.on_cleaned(partition.topic_partition)

    def _succeeded(self, partition: Partition, running: RunningPass, run: Run) -> None:
        tp, stats = partition.topic_partition, run.stats
        self.troubles.pop(tp, None)
        self.totals.passes += 1
        self.totals.last = run
        removed = self.totals.tombstones_removed
        removed[tp] = removed.get(tp, 0) + stats.dropped_tombstones
        pending, now_ms = self.pending[tp], self.clock.now_ms()
        pending.cleaned(
            run.end_offset,
            stats.earliest_horizon_ms,
            marker_horizon_ms=stats.earliest_marker_horizon_ms,
            ranges=self.files.ledger(partition.log).pending,
        )
        dues = self.appraise(partition.log).dues
        is_still_due = any(due.reason is running.reason and due.at_ms <= now_ms for due in dues)
        pending.rested(is_still_due=is_still_due, now_ms=now_ms)
        _LOG.info(
            "cleaning finished partition=%s end_offset=%d bytes_before=%d bytes_after=%d "
            "records_before=%d records_after=%d tombstones_stamped=%d tombstones_removed=%d ms=%d",
            tp, run.end_offset, stats.bytes_read, stats.bytes_written, stats.records_read,
            stats.records_kept, stats.tombstones_stamped, stats.dropped_tombstones,
            run.duration_ms,
        )  # fmt: skip
        self.retention.apply(partition)
