"""Faults put into what transactions rest on: coordinator, markers, leaders, group shards, cleaner.

Each undoes one rule that exactly-once needs. `tests.sim.mutants` plays them with the others.
"""

from dataclasses import replace
from typing import Any

import pytest

from ledgerstone.cleaner.aborted_txns import AbortedTxns
from ledgerstone.coordinator import classic_group, group_table, offset_requests
from ledgerstone.coordinator.pending_offsets import PendingOffsets
from ledgerstone.coordinator.transactions import checks, ending, shard, starting, transitions
from ledgerstone.coordinator.transactions.metadata import PREPARED, TxnState
from ledgerstone.coordinator.transactions.shard import TransactionShard
from ledgerstone.coordinator.transactions.turn import (
    Decided,
    TxnChange,
    TxnOutcome,
    UnwrittenMarkers,
)
from ledgerstone.records.own_batch import OwnBatch, own_marker
from ledgerstone.server.markers import PartitionMarkers
from ledgerstone.server.transactions.marking import markers_request
from ledgerstone.server.transactions.settling import Settling
from ledgerstone.server.verification import Verified
from ledgerstone.storage import log_reader
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.producer_entry import ProducerEntry
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import AbortedTxn

Patch = pytest.MonkeyPatch

# -- coordinator ----------------------------------------------------------------------------------


def epochs_are_not_compared(patch: Patch) -> None:
    """By the coordinator; leaders of partitions still do."""
    patch.setattr(checks, "check_epoch", lambda metadata, producer: None)
    patch.setattr(ending, "check_epoch", lambda metadata, producer: None)


def init_does_not_fence(patch: Patch) -> None:
    """InitProducerId answers at once and leaves the open transaction to whoever began it."""

    def fence(
        self: TransactionShard, transaction: Any, fresh: Any, answers: Any, now_ms: int
    ) -> TxnOutcome:
        metadata = replace(
            transaction.metadata, producer_epoch=transaction.metadata.producer_epoch + 1
        )
        if not answers:
            return original(self, transaction, fresh, answers, now_ms)
        decided = Decided(0, metadata.producer_id, metadata.producer_epoch)
        answer = answers[0]._replace(decided=decided)
        return self._change(transaction, metadata, [answer])

    original = TransactionShard._fence
    patch.setattr(TransactionShard, "_fence", fence)


def timeout_keeps_the_epoch(patch: Patch) -> None:
    """The abort of a transaction that took too long does not shut its producer out."""
    original = TransactionShard._fence

    def fence(self: TransactionShard, *args: Any, **how: Any) -> TxnOutcome:
        before = args[0].metadata
        outcome = original(self, *args, **how)
        (change,) = outcome.changes
        assert change.metadata is not None
        kept = replace(change.metadata, producer_epoch=before.producer_epoch)
        return TxnOutcome([TxnChange(change.transactional_id, kept)], outcome.answers)

    patch.setattr(TransactionShard, "_fence", fence)


def transactions_never_time_out(patch: Patch) -> None:
    patch.setattr(TransactionShard, "timed_out", lambda shard, now_ms: [])


def a_repeated_end_decides_the_next(patch: Patch) -> None:
    """EndTxn of the second protocol with the epoch of the transaction before."""
    original = ending.ends

    def ends(transaction: Any, producer: Any, *, commit: bool) -> bool:
        metadata = transaction.metadata
        is_repeated = metadata.producer_epoch == producer.producer_epoch + 1
        if metadata.state is TxnState.ONGOING and is_repeated and transaction.pending is None:
            return True
        return original(transaction, producer, commit=commit)

    patch.setattr(shard, "ends", ends)


def decided_is_not_resumed(patch: Patch) -> None:
    patch.setattr(TransactionShard, "loaded", lambda shard: TxnOutcome())


def open_transactions_expire(patch: Patch) -> None:
    def expired(self: TransactionShard, now_ms: int) -> list[str]:
        limit_ms = now_ms - self._config.transactional_id_expiration_ms
        return [
            each.transactional_id
            for each in self.table
            if each.pending is None and each.metadata.last_update_ms <= limit_ms
        ]

    # Of the two that the clock strikes for, this one comes first.
    patch.setattr(TransactionShard, "expired", expired)
    patch.setattr(TransactionShard, "timed_out", lambda shard, now_ms: [])


def epochs_are_given_again(patch: Patch) -> None:
    """InitProducerId does not raise the epoch of an id that is at rest."""
    original = transitions.new_epoch

    def new_epoch(before: Any, *args: Any) -> Any:
        after = original(before, *args)
        return replace(after, producer_epoch=max(before.producer_epoch, 0))

    patch.setattr(starting, "new_epoch", new_epoch)


# -- markers --------------------------------------------------------------------------------------


def prepare_is_not_synced(patch: Patch) -> None:
    """PartitionMarkers may be durable before the decision that they carry out."""
    original = PartitionLog.flush

    def flush(log: PartitionLog, up_to: int | None = None) -> None:
        if log.topic_partition.topic != "__transaction_state":
            original(log, up_to)
            return
        plan = log.plan_flush(up_to)
        if plan is not None:
            log.flush_done(plan)

    patch.setattr(PartitionLog, "flush", flush)


def markers_come_before_prepare(patch: Patch) -> None:
    """They are written, and then the decision."""
    original = Settling.settle

    def settle(self: Settling, number: int, hosted: Any, outcome: TxnOutcome) -> None:
        for change in outcome.changes:
            metadata = change.metadata
            if metadata is not None and metadata.state in PREPARED and metadata.partitions:
                assert self.markers is not None
                markers = _markers_of(change.transactional_id, metadata)
                request = markers_request(
                    markers, list(metadata.partitions), hosted.coordinator_epoch
                )
                self.markers.write_markers(request, lambda response: None)
        original(self, number, hosted, outcome)

    patch.setattr(Settling, "settle", settle)


def _markers_of(transactional_id: str, metadata: Any) -> Any:
    return UnwrittenMarkers(
        transactional_id,
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.state is TxnState.PREPARE_COMMIT,
        tuple(metadata.partitions),
        metadata.client_version,
    )


def complete_comes_before_markers(patch: Patch) -> None:
    original = Settling._mark

    def mark(self: Settling, number: int, hosted: Any, transactional_id: str) -> None:
        markers = hosted.shard.markers(transactional_id)
        if markers is None:
            original(self, number, hosted, transactional_id)
            return
        self._marked(number, hosted, markers, markers.partitions)
        assert self.markers is not None
        if markers.partitions:
            request = markers_request(markers, list(markers.partitions), hosted.coordinator_epoch)
            self.markers.write_markers(request, lambda response: None)

    patch.setattr(Settling, "_mark", mark)


def complete_after_the_first_marker(patch: Patch) -> None:
    """Where one partition refuses its marker for now, it is never tried again."""
    original = TransactionShard.marked

    def marked(self: TransactionShard, markers: Any, partitions: Any, now_ms: int) -> TxnOutcome:
        return original(self, markers, markers.partitions, now_ms)

    patch.setattr(TransactionShard, "marked", marked)


def markers_are_not_repeated(patch: Patch) -> None:
    """A leader refuses the marker that a coordinator writes again after a crash."""
    original = ProducerEntry.check_marker_epoch

    def check(entry: ProducerEntry, epoch: int, transaction_version: int) -> None:
        if transaction_version >= 2 and epoch == entry.epoch:
            entry.check_epoch(epoch - 1)
        original(entry, epoch, transaction_version)

    patch.setattr(ProducerEntry, "check_marker_epoch", check)


def one_marker_says_the_opposite(patch: Patch) -> None:
    """Of a commit, in the second partition of `output`."""
    original = PartitionMarkers._append

    def append(
        self: PartitionMarkers, partition: Any, batch: OwnBatch, terms: Any, written: Any
    ) -> None:
        if partition.topic_partition == ("output", 1):
            assert batch.marker is not None
            batch = own_marker(
                commit=False,
                producer_id=batch.header.producer_id,
                producer_epoch=batch.header.producer_epoch,
                coordinator_epoch=batch.marker.coordinator_epoch,
                timestamp=batch.header.base_timestamp,
            )
        original(self, partition, batch, terms, written)

    patch.setattr(PartitionMarkers, "_append", append)


# -- leaders of partitions ------------------------------------------------------------------------


def stable_offset_ignores_what_is_open(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def aborted_list_misses_overlaps(patch: Patch) -> None:
    """Transactions that began before the offset that is asked for."""
    original = log_reader.collect_aborted

    def collect(log: PartitionLog, start_offset: int, end_offset: int) -> Any:
        found = original(log, start_offset, end_offset)
        return tuple(each for each in found if each.first_offset >= start_offset)

    patch.setattr(log_reader, "collect_aborted", collect)


def aborted_list_ends_with_the_segment(patch: Patch) -> None:
    """A marker in a later segment than its data is overlooked."""

    def collect(log: PartitionLog, start_offset: int, end_offset: int) -> Any:
        segment = log.segments.floor(start_offset) or log.segments.first
        entries, _ = segment.txn_index.collect(start_offset, end_offset)
        return tuple(AbortedTxn(each.producer_id, each.first_offset) for each in entries)

    patch.setattr(log_reader, "collect_aborted", collect)


def batches_are_not_verified(patch: Patch) -> None:
    """Whatever the coordinator answers, the leader takes the batch."""
    patch.setattr(Verified, "terms_for", lambda verified, tp: TxnTerms())
    original = Verified.__new__

    def new(cls: Any, errors: Any, guards: Any, must_be_verified: bool) -> Any:
        return original(cls, {}, guards, must_be_verified)

    patch.setattr(Verified, "__new__", new)


def snapshots_forget_open_transactions(patch: Patch) -> None:
    original = ProducerEntry.from_snapshot

    def from_snapshot(saved: Any) -> ProducerEntry:
        return original(saved._replace(current_txn_first_offset=-1))

    patch.setattr(ProducerEntry, "from_snapshot", staticmethod(from_snapshot))


# -- groups ---------------------------------------------------------------------------------------


def pending_offsets_count_at_once(patch: Patch) -> None:
    original = group_table.GroupTable.replay_offset

    def replay(table: Any, entry: Any, producer_id: int = -1) -> None:
        original(table, entry)

    patch.setattr(group_table.GroupTable, "replay_offset", replay)


def aborted_offsets_count(patch: Patch) -> None:
    original = PendingOffsets.end

    def end(pending: PendingOffsets, producer_id: int, *, commit: bool) -> Any:
        return original(pending, producer_id, commit=True)

    patch.setattr(PendingOffsets, "end", end)


def unstable_offsets_are_told(patch: Patch) -> None:
    """A worker that takes over does not wait for the transaction before it."""
    original = offset_requests.fetch_offsets

    def fetch(request: Any, *args: Any) -> Any:
        request.require_stable = False
        return original(request, *args)

    patch.setattr("ledgerstone.coordinator.shard.fetch_offsets", fetch)


def generations_are_not_compared(patch: Patch) -> None:
    """Offsets of a member that the group has moved on without are taken."""
    patch.setattr(classic_group.ClassicGroup, "check_txn_commit", lambda group, *args, **how: None)


# -- compaction -----------------------------------------------------------------------------------


def aborted_records_are_cleaned_as_committed(patch: Patch) -> None:
    """So that an aborted tombstone deletes, and an aborted value supersedes."""
    original = AbortedTxns.__init__

    def init(self: Any, entries: Any) -> None:
        original(self, ())

    patch.setattr(AbortedTxns, "__init__", init)


TXN_MUTANTS = [
    ("the coordinator does not compare epochs", epochs_are_not_compared),
    ("InitProducerId does not abort what is open", init_does_not_fence),
    ("a timeout does not shut the producer out", timeout_keeps_the_epoch),
    ("transactions never time out", transactions_never_time_out),
    ("a repeated EndTxn decides the next transaction", a_repeated_end_decides_the_next),
    ("what was decided is not resumed after a start", decided_is_not_resumed),
    ("open transactions expire", open_transactions_expire),
    ("an epoch is given twice", epochs_are_given_again),
    ("Prepare is not synced", prepare_is_not_synced),
    ("markers are written before Prepare", markers_come_before_prepare),
    ("Complete is written before the markers", complete_comes_before_markers),
    ("Complete does not wait for every marker", complete_after_the_first_marker),
    ("a marker that is written again is refused", markers_are_not_repeated),
    ("one marker says the opposite", one_marker_says_the_opposite),
    ("the stable offset ignores open transactions", stable_offset_ignores_what_is_open),
    ("the aborted list misses overlaps", aborted_list_misses_overlaps),
    ("the aborted list ends with the segment", aborted_list_ends_with_the_segment),
    ("batches are not verified", batches_are_not_verified),
    ("snapshots forget open transactions", snapshots_forget_open_transactions),
    ("pending offsets count at once", pending_offsets_count_at_once),
    ("aborted offsets count", aborted_offsets_count),
    ("unstable offsets are told", unstable_offsets_are_told),
    ("generations of offsets are not compared", generations_are_not_compared),
    ("aborted records are cleaned as committed ones", aborted_records_are_cleaned_as_committed),
]
