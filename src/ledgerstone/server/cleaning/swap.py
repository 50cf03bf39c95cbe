"""Putting what a worker wrote in the place of its sources, without making anybody wait. Grade D.

A group passes through four steps, and only the third is done on the broker's own thread:

1. the worker syncs the new files and their names, then reports the group
2. all that the pass has read is flushed, if it was not yet: the group lacks records because of
   later ones, which must not be lost to a power failure after it took their place
3. the files are renamed and memory follows (`storage.segment_swap` has the order)
4. the directory is synced; only then may the old files go, and only then does the worker go on, so
   that values are gone for good before the tombstone that deletes them can be

Crash here, between any two: the table "Crash points of a swap" in storage/README.md.
"""

from collections.abc import Iterator

from ledgerstone.cleaner.plan import CleanedGroup
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.needs import DiskTrouble, SharedFlushes
from ledgerstone.server.cleaning.parts import RunningPass
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import Effect, Proceed, SyncSwap
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_shrink import rename_in_place, unlink_later
from ledgerstone.storage.segment import Segment
from ledgerstone.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Swaps:
    work: CleaningWork
    flushes: SharedFlushes
    disk: DiskTrouble

    def attempt(self, running: RunningPass) -> Iterator[Effect]:
        """Swaps the held group once everything that the pass has read is durable; asks for a flush
        until it is."""
        work, group, partition = self.work, running.held, self.work.partition_of(running)
        assert group is not None
        if partition is None or not self._plan_holds(partition, running, group):
            running.held = None
            # A plan that was overtaken is not an error: what it was made from has changed.
            if work.states.is_cleaned(running.topic_partition):
                work.states.abort(running.topic_partition)
            yield self._proceed(running.number, go_on=False)
            return
        log, tp = partition.log, running.topic_partition
        # Not the end of this group: a later segment may hold what superseded its records.
        read_up_to = running.plan.segments[-1].end_offset
        if log.recovery_point < read_up_to:
            if not self.flushes.is_under_way(tp):
                flush = self.flushes.start(partition, read_up_to)
                assert flush is not None
                yield flush
            return
        running.held = None
        try:
            if group.removed_to:
                # Crash here: it says that deletes are gone which are not, and costs a copy at most.
                self._note_removed(partition, group.removed_to)
            replaced = _rename(log, group)
        except (StorageError, KafkaError, OSError) as error:
            self._log_failed(tp, error)
            yield self._proceed(running.number, go_on=False)
            return
        work.pending[tp].merged(group.source_bases, group.base_offset)
        yield SyncSwap(running.number, tp, running.topic_id, log.directory, replaced)

    def _note_removed(self, partition: Partition, removed_to: int) -> None:
        """Readers are told by the marks of a log with several replicas, else by the history."""
        removal, work = partition.removal, self.work
        if removal is not None:
            removal.before_removal(removed_to)
        if removal is None or not removal.is_coordinated:
            work.files.note_removed(partition.log, removed_to, work.clock.now_ms())

    def _plan_holds(self, partition: Partition, running: RunningPass, group: CleanedGroup) -> bool:
        log = partition.log
        return (
            self.work.states.is_cleaned(running.topic_partition)
            and log.failure is None
            and log.truncations == running.truncations
            and all(log.segments.at_base(base) is not None for base in group.source_bases)
        )

    def synced(self, effect: SyncSwap, failure: OSError | None) -> Iterator[Effect]:
        """The swap stands whatever happened meanwhile: to the worker, or to the topic."""
        partition = self.work.partitions.find(effect.topic_partition)
        if partition is not None and partition.topic_id == effect.topic_id:
            if failure is None:
                unlink_later(partition.log, effect.replaced)
            else:
                partition.log.fail(f"swap failed: {failure}", failure)
                self._log_failed(effect.topic_partition, failure)
        if effect.number in self.work.running:
            go_on = failure is None and self.work.states.is_cleaned(effect.topic_partition)
            yield self._proceed(effect.number, go_on=go_on)

    def _log_failed(self, tp: TopicPartition, error: Exception) -> None:
        self.disk.log_failed(tp, error, self.work.clock.monotonic_ms())

    def _proceed(self, number: int, *, go_on: bool) -> Proceed:
        """From here on the worker has the next word."""
        now_ms, timeout_ms = self.work.clock.monotonic_ms(), self.work.settings.worker_timeout_ms
        self.work.watch.begin(number, now_ms=now_ms, timeout_ms=timeout_ms)
        return Proceed(number, go_on)


def _rename(log: PartitionLog, group: CleanedGroup) -> tuple[str, ...]:
    old = [segment for base in group.source_bases if (segment := log.segments.at_base(base))]
    new = Segment(
        log.fs,
        log.directory,
        group.base_offset,
        log.config,
        created_ms=old[0].created_ms,
        suffix=CLEANED,
        size=group.size_bytes,
    )
    return rename_in_place(log, new=[new], old=old)
