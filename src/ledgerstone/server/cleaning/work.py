"""What is known and wanted of each log: deadlines, troubles, tickets, passes at work. Grade D.

`agent` moves it on, `choice` picks from it, `swap` puts a pass's files in place, `view` shows it.
"""

import logging
from typing import Final

from ledgerstone.cleaner.cleaning_state import CleaningStates
from ledgerstone.cleaner.deadlines import Due, Pending, due_times
from ledgerstone.cleaner.holds import Holds, ReplicaHold
from ledgerstone.cleaner.open_txn import OpenTxn
from ledgerstone.cleaner.planning import CleanerSettings, facts_of, needs_times
from ledgerstone.cleaner.selection import measure
from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.partition_removal import CleaningKnowledge, RemovalStanding
from ledgerstone.server.cleaning.files import CleaningFiles
from ledgerstone.server.cleaning.needs import HostedLogs, TxnOwners
from ledgerstone.server.cleaning.parts import (
    Appraisal,
    CleaningTotals,
    PassFailed,
    PassTicket,
    RunningPass,
    Trouble,
)
from ledgerstone.server.tombstones.guard import TombstoneGuard
from ledgerstone.server.tombstones.holds import TombstoneHolds
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition
from ledgerstone.workers.watch import Watch

_LOG: Final = logging.getLogger(__name__)
LONGEST_RETRY_MS: Final = 3_600_000
# Tickets of finished requests that are still answered for.
_TICKETS_KEPT: Final = 1000


@dataclass(slots=True, kw_only=True)
class CleaningWork:
    clock: Clock
    partitions: HostedLogs
    holds: TombstoneHolds
    settings: CleanerSettings
    files: CleaningFiles
    txn_owners: TxnOwners
    guard: TombstoneGuard = field(init=False)
    states: CleaningStates = field(default_factory=CleaningStates)
    pending: dict[TopicPartition, Pending] = field(default_factory=dict)
    running: dict[int, RunningPass] = field(default_factory=dict)
    troubles: dict[TopicPartition, Trouble] = field(default_factory=dict)
    tickets: dict[int, PassTicket] = field(default_factory=dict)
    asked: dict[TopicPartition, int] = field(default_factory=dict)
    totals: CleaningTotals = field(default_factory=CleaningTotals)
    # Silent replicas that removal does not wait for any more.
    given_up: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    # Set when a worker died or fell silent, cleared by the next one that says something.
    worker_failure: str | None = None
    last_look_ms: int = 0
    _due_ms: int = 0
    _next_number: int = 1

    def __post_init__(self) -> None:
        self.guard = TombstoneGuard(self.clock, self.files, self.pending, self.holds)

    def knowledge(self) -> CleaningKnowledge:
        """For replicas that others wait for."""
        first_dirty = self.files.first_dirty_offsets
        return CleaningKnowledge(
            clean_to=lambda tp: first_dirty.get(tp, 0),
            held_from_offset=lambda log: self.holds.of(log).held_from_offset,
        )

    # -- logs ---------------------------------------------------------------------------------

    def hosted(self, partition: Partition) -> None:
        """From now on. Also called for each partition that is made after its topic was."""
        tp, log = partition.topic_partition, partition.log
        if tp in self.pending:
            return
        if self.files.first_dirty_offsets.get(tp, 0) > log.log_end_offset:
            # Of an older log under this name, or of an end that was lost. What comes there now has
            # not been cleaned, and must not pass for it once the log has grown so far.
            self.files.set_first_dirty_offset(tp, log.log_start_offset)
        pending = Pending(
            watched_from_offset=log.log_end_offset,
            watched_from_ms=log.clock.now_ms(),
            is_watched=log.config.compacts,
        )
        last = self.files.last_cleaned(log)
        if last is not None:
            pending.know_horizons(
                last.stats.earliest_horizon_ms,
                marker_horizon_ms=last.stats.earliest_marker_horizon_ms,
                ranges=self.files.ledger(log).pending,
            )
        self.pending[tp] = pending

    def appended(self, log: PartitionLog, tombstone_count: int) -> None:
        """Not called for what certainly has none; 0: it may have some, as what a leader sent. The
        replicas wait for each other, so that a follower that knew of none would hold them all."""
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

    def offsets_learned(self) -> None:
        """Other brokers have told what groups have committed."""
        self.look_now()
        for partition in self.partitions:
            if partition.log.config.compacts:
                self.guard.forget_settled(partition)

    def compacted_topics(self) -> set[str]:
        """Topics here whose tombstones somebody may miss."""
        return {
            each.topic_partition.topic
            for each in self.partitions
            if each.log.config.compacts and each.topic_partition.topic not in INTERNAL_TOPICS
        }

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
            pending.clock_shows(now_ms)
            pending.deleted_below(log.segments.first.base_offset)
        if self.settings.finish_deletes and pending is not None:
            lag_ms = self.settings.tombstone_lag_ms
            holds = self.holds_of(log)
            dues = list(due_times(facts, measured, pending, tombstone_lag_ms=lag_ms, holds=holds))
        return Appraisal(facts, measured, dues)

    def holds_of(self, log: PartitionLog) -> Holds:
        """Which groups and which replicas hold the log's tombstones back."""
        partition = self.partitions.find(log.topic_partition)
        removal = None if partition is None else partition.removal
        standing = None if removal is None else removal.standing()
        if removal is None or standing is None:
            return self.holds.of(log)
        self._note_given_up(log.topic_partition, standing)
        replica = ReplicaHold(standing.removable_to, standing.holder, standing.ends_at_ms)
        if not removal.has_word:
            return replace(self.holds.of(log), replica=replica)
        # The leader knows the groups.
        return Holds(
            max_ms=log.config.ledgerstone_tombstone_hold_max_ms,
            replica=replica,
            told_held_from_offset=removal.told_held_from_offset,
        )

    def _note_given_up(self, tp: TopicPartition, standing: RemovalStanding) -> None:
        """Once for each replica, until it is waited for again."""
        known = self.given_up.get(tp, ())
        for each in standing.given_up:
            if each.replica_id not in known:
                self.totals.given_up += 1
                _LOG.warning(
                    "deletes are removed without a replica partition=%s replica=%d silent_ms=%d",
                    tp, each.replica_id, each.silent_ms,
                )  # fmt: skip
        if standing.given_up or known:
            self.given_up[tp] = tuple(each.replica_id for each in standing.given_up)

    def open_txns(self, log: PartitionLog) -> list[OpenTxn]:
        """The open transactions of a log, the one that began first at the front."""
        return [
            OpenTxn(producer_id, first_offset, self.txn_owners.owner_of(producer_id))
            for first_offset, producer_id in log.producers.open_transactions().items()
        ]

    def is_busy(self, tp: TopicPartition) -> bool:
        """Whether a pass reads the partition's segments: they must not be deleted under it."""
        return not self.states.is_free(tp)

    def partition_of(self, running: RunningPass) -> Partition | None:
        """None where the topic was deleted, or made anew under its old name."""
        partition = self.partitions.find(running.topic_partition)
        if partition is None or partition.topic_id != running.topic_id:
            return None
        return partition

    # -- asking for passes --------------------------------------------------------------------

    def ask(self, tp: TopicPartition) -> PassTicket:
        """A pass is wanted now. Asking twice before it starts is asking once."""
        number = self.asked.get(tp)
        if number is None:
            number = self.take_number()
            self.asked[tp] = number
            self.tickets[number] = PassTicket(number=number, topic_partition=tp)
            for oldest in list(self.tickets)[:-_TICKETS_KEPT]:
                if self.tickets[oldest].is_done:
                    del self.tickets[oldest]
        self.look_now()
        return self.tickets[number]

    def refuse(self, tp: TopicPartition, reason: str) -> None:
        """Says on the ticket, if there is one, why no pass over the partition comes."""
        number = self.asked.pop(tp, None)
        if number is not None:
            self.tickets[number].refusal = reason

    def take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    # -- when to look -------------------------------------------------------------------------

    def look_now(self) -> None:
        self._due_ms = 0

    def look_at(self, monotonic_ms: int | None) -> None:
        if monotonic_ms is not None:
            self._due_ms = min(self._due_ms, monotonic_ms)

    # -- troubles -----------------------------------------------------------------------------

    def failed(self, tp: TopicPartition, failure: PassFailed) -> None:
        known = self.troubles.get(tp)
        failures = known.failures + 1 if known else 1
        retry_at_ms = None
        if self.settings.retry_ms > 0:
            wait_ms = min(self.settings.retry_ms << min(failures - 1, 20), LONGEST_RETRY_MS)
            retry_at_ms = self.clock.monotonic_ms() + wait_ms
        since_ms = known.since_ms if known else self.clock.now_ms()
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
