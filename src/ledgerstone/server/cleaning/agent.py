"""The owner's side of cleaning: picks logs, makes plans, swaps what workers wrote. Grade D.

A worker writes `.cleaned` files and nothing else; everything that makes them count happens here, in
this order: each group is swapped in, then the history with the earliest horizon is written, then
the checkpoint, both at most every few seconds. Crash here, between any two: the log is the one
before or the one after the swap, and the range not checkpointed is cleaned once more. Differs from
Kafka: a partition whose pass failed is tried again, ever more rarely, and never given up; what is
due goes before what is dirty.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ledgerstone.cleaner.cleaning_state import CleaningStates
from ledgerstone.cleaner.deadlines import Due, Pending, due_times
from ledgerstone.cleaner.history import Outcome, Run
from ledgerstone.cleaner.holds import Holds
from ledgerstone.cleaner.plan import CleanedGroup, PassReport, PassStats
from ledgerstone.cleaner.planning import CleanerSettings, facts_of, needs_times
from ledgerstone.cleaner.selection import measure
from ledgerstone.clock import Clock
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import ResourceType
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.choice import start_next
from ledgerstone.server.cleaning.files import CleaningFiles, remove_cleaned
from ledgerstone.server.cleaning.parts import (
    Appraisal,
    CleaningTotals,
    PassFailed,
    RunningPass,
    Ticket,
    Trouble,
)
from ledgerstone.server.cleaning.swap import partition_of, swap_synced, try_swap
from ledgerstone.server.effects import Effect, GiveUp, Proceed, SyncSwap
from ledgerstone.server.tombstones.guard import TombstoneGuard
from ledgerstone.server.tombstones.holds import TombstoneHolds
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition
from ledgerstone.workers.watch import Watch

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker

_LOG: Final = logging.getLogger(__name__)
_DISK_REFUSED: Final = (OSError, StorageError, KafkaError)
LONGEST_RETRY_MS: Final = 3_600_000
# Looking for work goes through every log, so not without any pause, whatever is configured.
SHORTEST_BACKOFF_MS: Final = 100
# Tickets of finished requests that are still answered for.
_TICKETS_KEPT: Final = 1000


@dataclass(slots=True, kw_only=True)
class Cleaning:
    """Made by bootstrap; `load` once the partitions are hosted."""

    clock: Clock
    partitions: HostedPartitions
    holds: TombstoneHolds
    settings: CleanerSettings
    files: CleaningFiles
    guard: TombstoneGuard = field(init=False)
    states: CleaningStates = field(default_factory=CleaningStates)
    pending: dict[TopicPartition, Pending] = field(default_factory=dict)
    running: dict[int, RunningPass] = field(default_factory=dict)
    troubles: dict[TopicPartition, Trouble] = field(default_factory=dict)
    tickets: dict[int, Ticket] = field(default_factory=dict)
    totals: CleaningTotals = field(default_factory=CleaningTotals)
    watch: Watch = field(default_factory=Watch)
    # Set when a worker died or fell silent, cleared by the next one that says something.
    worker_failure: str | None = None
    last_look_ms: int = 0
    is_stopped: bool = False
    asked: dict[TopicPartition, int] = field(default_factory=dict)
    _due_ms: int = 0
    _next_number: int = 1

    def __post_init__(self) -> None:
        self.guard = TombstoneGuard(self.clock, self.files, self.pending, self.holds)

    # -- life cycle ---------------------------------------------------------------------------

    def load(self, broker: "Broker") -> None:
        """At start. Of a partition that is no longer here nothing is remembered: its name may come
        back."""
        for tp in list(self.files.first_dirty_offsets):
            if broker.partitions.find(tp) is None and tp not in broker.partitions.offline:
                self.files.forget(tp)
        self.files.write_now()
        broker.log_dir.before_truncation = self.truncating
        self._watch_all(broker)

    def _watch_all(self, broker: "Broker") -> None:
        for partition in broker.partitions:
            self.hosted(partition)

    def hosted(self, partition: Partition) -> None:
        """From now on; told about each partition that is made after its topic was."""
        tp, log = partition.topic_partition, partition.log
        if tp in self.pending:
            return
        pending = Pending(watched_from_offset=log.log_end_offset)
        last = self.files.last_cleaned(log)
        if last is not None:
            pending.know_horizons(
                last.stats.earliest_horizon_ms,
                marker_horizon_ms=last.stats.earliest_marker_horizon_ms,
                ranges=self.files.ledger(log).pending,
            )
        self.pending[tp] = pending

    def metadata_changed(self, broker: "Broker", delta: Delta) -> Iterator[Effect]:
        for topic in delta.topics_deleted:
            for number in topic.partitions:
                yield from self._drop(TopicPartition(topic.name, number))
        if delta.topics_deleted and not self.files.write_now():
            self.files.write_soon(broker.clock.monotonic_ms())
        if delta.topics_created or delta.partitions_added:
            self._watch_all(broker)
        for resource in delta.configs_changed:
            if resource.resource_type == ResourceType.GROUP:
                continue
            if resource.resource_type == ResourceType.BROKER:
                values = broker.image.broker_values(broker.config.node_id, broker.config.raw)
                self.settings = CleanerSettings.from_values(values)
            # What was changed may be what made a pass fail.
            is_topic = resource.resource_type == ResourceType.TOPIC
            for tp in list(self.troubles):
                if not is_topic or tp.topic == resource.name:
                    del self.troubles[tp]
            self.look_now()
        if delta.configs_changed:
            yield from self._abort_uncompacted(broker)

    def _abort_uncompacted(self, broker: "Broker") -> Iterator[Effect]:
        for running in list(self.running.values()):
            partition = broker.partitions.find(running.topic_partition)
            if partition is not None and not partition.log.config.compacts:
                yield from self.abort(running.topic_partition)

    def _drop(self, tp: TopicPartition) -> Iterator[Effect]:
        yield from self.abort(tp)
        self.files.forget(tp)
        for known in (self.pending, self.troubles):
            known.pop(tp, None)
        self.refuse(tp, "the topic was deleted")

    def abort(self, tp: TopicPartition) -> Iterator[Effect]:
        """Nothing the pass has not swapped yet will be used; a later pass is not kept away."""
        if self.states.is_cleaned(tp):
            self.states.abort(tp)
            yield from (
                Proceed(each.number, go_on=False)
                for each in self.running.values()
                if each.topic_partition == tp
            )

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
            self.pending[tp].truncated(base_offset)
            ledger = self.files.ledger(log)
            if (cut := ledger.truncated(base_offset)) != ledger:
                self.files.set_ledger(log, cut)
        if self.files.first_dirty_offsets.get(tp, 0) > base_offset:
            self.files.set_first_dirty_offset(tp, base_offset)

    # -- what others tell or ask --------------------------------------------------------------

    def appended(self, log: PartitionLog, tombstone_count: int) -> None:
        pending = self.pending.get(log.topic_partition)
        if pending is not None and log.config.compacts:
            base_offset = log.segments.active.base_offset
            pending.appended(base_offset, tombstone_count, now_ms=log.clock.now_ms())

    def offset_committed(self, tp: TopicPartition) -> None:
        """A group has committed an offset: tombstones it held may go now, and a group that starts
        over has nothing left to miss."""
        partition = self.partitions.find(tp)
        if partition is None or not partition.log.config.compacts:
            return
        log, pending = partition.log, self.pending.get(tp)
        if log.config.ledgerstone_tombstone_hold_groups and pending is not None and pending.ranges:
            released_ms = pending.released_ms(self.holds_of(log))
            if released_ms is not None and released_ms <= self.clock.now_ms():
                self.look_now()
        self.guard.forget_settled(partition)

    def holds_of(self, log: PartitionLog) -> Holds:
        """Which groups hold the log's tombstones back."""
        return self.holds.of(log)

    def is_busy(self, tp: TopicPartition) -> bool:
        """Whether a pass reads the partition's segments: they must not be deleted under it."""
        return not self.states.is_free(tp)

    def ask(self, tp: TopicPartition) -> Ticket:
        """Somebody wants a pass now; asking twice before it starts is asking once."""
        number = self.asked.get(tp)
        if number is None:
            number = self.take_number()
            self.asked[tp] = number
            self.tickets[number] = Ticket(number=number, topic_partition=tp)
            for oldest in list(self.tickets)[:-_TICKETS_KEPT]:
                if self.tickets[oldest].is_done:
                    del self.tickets[oldest]
        self.look_now()
        return self.tickets[number]

    def refuse(self, tp: TopicPartition, reason: str) -> None:
        """Whoever waits for a pass over the partition is told that none comes."""
        number = self.asked.pop(tp, None)
        if number is not None:
            self.tickets[number].refusal = reason

    def take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def look_now(self) -> None:
        self._due_ms = 0

    @property
    def next_deadline_ms(self) -> int:
        return min(self._due_ms, self.watch.next_look_ms, self.files.write_due_ms)

    # -- choosing -----------------------------------------------------------------------------

    def tick(self, broker: "Broker") -> Iterator[Effect]:
        now_ms = broker.clock.monotonic_ms()
        timeout_ms = self.settings.worker_timeout_ms
        for number in self.watch.look(now_ms=now_ms, timeout_ms=timeout_ms):
            yield self._give_up(number, timeout_ms)
        self.files.write_if_due(now_ms)
        if now_ms < self._due_ms:
            return
        self.last_look_ms = broker.clock.now_ms()
        self._due_ms = now_ms + max(self.settings.backoff_ms, SHORTEST_BACKOFF_MS)
        if not self.settings.enable or self.is_stopped:
            return
        while len(self.running) < self.settings.threads:
            started = start_next(self, broker)
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

    def look_at(self, monotonic_ms: int | None) -> None:
        if monotonic_ms is not None:
            self._due_ms = min(self._due_ms, monotonic_ms)

    def appraise(self, log: PartitionLog) -> Appraisal:
        tp, now_ms = log.topic_partition, log.clock.now_ms()
        checkpoint = self.files.first_dirty_offsets.get(tp)
        times_from = None
        if needs_times(log, self.settings):
            times_from = log.log_start_offset if checkpoint is None else checkpoint
        facts = facts_of(log, times_from=times_from)
        measured = measure(facts, checkpoint, now_ms=now_ms)
        dues: list[Due] = []
        pending = self.pending.get(tp)
        if pending is not None:
            pending.deleted_below(log.segments.first.base_offset)
        if self.settings.finish_deletes and pending is not None:
            lag_ms = self.settings.tombstone_lag_ms
            holds = self.holds_of(log)
            dues = list(due_times(facts, measured, pending, tombstone_lag_ms=lag_ms, holds=holds))
        return Appraisal(facts, measured, dues)

    # -- what the worker says -----------------------------------------------------------------

    def heard(self, number: int) -> None:
        self.watch.heard(number)
        if number in self.running:
            self.worker_failure = None

    def group_cleaned(self, broker: "Broker", number: int, group: CleanedGroup) -> Iterator[Effect]:
        running = self.running.get(number)
        if running is None:
            yield Proceed(number, go_on=False)
            return
        self.worker_failure = None
        self.watch.end(number)
        running.held = group
        yield from try_swap(self, broker, running)

    def flushed(self, broker: "Broker", tp: TopicPartition) -> Iterator[Effect]:
        for running in list(self.running.values()):
            if running.topic_partition == tp and running.held is not None:
                yield from try_swap(self, broker, running)

    def swap_synced(
        self, broker: "Broker", effect: SyncSwap, failure: OSError | None
    ) -> Iterator[Effect]:
        yield from swap_synced(self, broker, effect, failure)

    def ended(self, broker: "Broker", number: int, outcome: PassReport | PassFailed) -> None:
        running = self.running.pop(number)
        self.watch.end(number)
        tp = running.topic_partition
        counts = self.states.done(tp)
        partition = partition_of(broker, running)
        self.look_now()
        try:
            remove_cleaned(broker.log_dir.fs, running.plan.directory)
        except OSError as error:
            _LOG.warning("cleaned files stay partition=%s reason=%s", tp, error)
        result: Outcome = "cleaned"
        detail = ""
        if not counts or partition is None or partition.log.failure is not None:
            result, detail = "aborted", "the log changed, or cleaning was called off"
        elif isinstance(outcome, PassFailed):
            result, detail = "failed", outcome.detail
        self._note_worker(outcome)
        run = self._run_of(broker, running, outcome, result, detail)
        self._finish_ticket(running, run)
        if partition is None:
            return
        self._note_down(partition, run)
        report = outcome if isinstance(outcome, PassReport) else None
        self.guard.pass_ended(partition, report, is_swapped=run.outcome == "cleaned")
        self.files.write_soon(broker.clock.monotonic_ms())
        if run.outcome == "failed":
            self.failed(broker, tp, PassFailed(run.detail))
        elif run.outcome == "cleaned":
            self._succeeded(broker, partition, running, run)

    def _note_worker(self, outcome: PassReport | PassFailed) -> None:
        if not isinstance(outcome, PassFailed):
            self.worker_failure = None
        elif outcome.worker_died:
            self.worker_failure = outcome.detail
            self.totals.worker_deaths += 1

    def _run_of(
        self,
        broker: "Broker",
        running: RunningPass,
        outcome: PassReport | PassFailed,
        result: Outcome,
        detail: str,
    ) -> Run:
        report = outcome if isinstance(outcome, PassReport) else None
        plan = running.plan
        return Run(
            started_ms=plan.now_ms,
            ended_ms=broker.clock.now_ms(),
            duration_ms=broker.clock.monotonic_ms() - running.started_monotonic_ms,
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

    def _succeeded(
        self, broker: "Broker", partition: Partition, running: RunningPass, run: Run
    ) -> None:
        tp, stats = partition.topic_partition, run.stats
        self.troubles.pop(tp, None)
        self.totals.passes += 1
        self.totals.last = run
        removed = self.totals.tombstones_removed
        removed[tp] = removed.get(tp, 0) + stats.dropped_tombstones
        pending, now_ms = self.pending[tp], broker.clock.now_ms()
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
        broker.housekeeping.retention.apply(partition)

    def failed(self, broker: "Broker", tp: TopicPartition, failure: PassFailed) -> None:
        known = self.troubles.get(tp)
        failures = known.failures + 1 if known else 1
        retry_at_ms = None
        if self.settings.retry_ms > 0:
            wait_ms = min(self.settings.retry_ms << min(failures - 1, 20), LONGEST_RETRY_MS)
            retry_at_ms = broker.clock.monotonic_ms() + wait_ms
        since_ms = known.since_ms if known else broker.clock.now_ms()
        self.troubles[tp] = Trouble(
            detail=failure.detail, since_ms=since_ms, failures=failures, retry_at_ms=retry_at_ms
        )
        self.totals.failed_passes += 1
        _LOG.warning(
            "cleaning failed partition=%s failures=%d reason=%s", tp, failures, failure.detail
        )

    def check_invariants(self) -> None:
        self.states.check_invariants()
        at_work = [each.topic_partition for each in self.running.values()]
        assert len(at_work) == len(dict.fromkeys(at_work)), at_work
        for tp in at_work:
            assert not self.states.is_free(tp), tp
