"""Cleans one partition's directory while no broker uses it. Grade D.

It runs the broker's own pass (`cleaner.cleaning_pass`) and swap, with two differences. No consumer
reads meanwhile, so replaced files are deleted at once; and if the map is too small for the dirty
part, the next pass follows immediately. Crash here, anywhere: opening the directory again, by a
broker or by another attempt, finishes or undoes what was interrupted.
"""

from collections.abc import Mapping
from typing import Final

from ledgerstone.cleaner.cleaning_pass import run_pass
from ledgerstone.cleaner.history import MAX_BYTES, Run, decode_history, encode_runs
from ledgerstone.cleaner.plan import CleanedGroup, CleaningPlan, PassReport
from ledgerstone.cleaner.planning import CleanerSettings, facts_of, make_plan
from ledgerstone.cleaner.selection import measure
from ledgerstone.cleaner.tombstone_ledger import TombstoneLedger
from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, join, parent_of
from ledgerstone.storage.checkpoints import read_if_exists, write_atomically
from ledgerstone.storage.filenames import (
    CLEANED,
    CLEANING_HISTORY,
    REMOVAL_MARKS,
    partition_dir_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.storage.log_shrink import swap_segments
from ledgerstone.storage.removal_marks import decode_marks, encode_marks
from ledgerstone.storage.segment import Segment
from ledgerstone.types import INT64_MAX, TopicPartition

REASON: Final = "bulk compaction"
_HISTORY_RUNS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """Everything a worker needs; offsets come from the log directory's checkpoints."""

    directory: str
    topic_partition: TopicPartition
    config: Mapping[str, str] = field(default_factory=dict)  # the topic's settings, as text
    clean: bool = False  # the last stop was a clean one
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int | None = None  # None: nothing is known, and everything counts
    first_dirty_offset: int | None = None
    dedupe_buffer_bytes: int = 128 << 20
    keep_tombstones: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOutcome:
    """The result for one partition. `failure` is empty if it was compacted."""

    topic_partition: TopicPartition
    directory: str
    failure: str = ""
    passes: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    tombstones_removed: int = 0
    first_dirty_offset: int | None = None  # what the cleaner's checkpoint is to say
    log_end_offset: int = 0
    log_start_offset: int | None = None  # where it lies inside the first segment


def compact_partition(
    fs: Filesystem, clock: Clock, dice: Dice, task: PartitionTask
) -> PartitionOutcome:
    """Raises LogDirLocked if another attempt still works on the same partition."""
    name = partition_dir_name(task.topic_partition)
    lock_path = join(parent_of(task.directory), f".{name}.compacting")
    lock = fs.lock(lock_path)
    try:
        return _Compaction(fs, clock, dice, task).run()
    finally:
        fs.unlink(lock_path)
        lock.release()


class _Compaction:
    __slots__ = (
        "_clock", "_dice", "_earlier", "_fs", "_ledger", "_log", "_runs", "_settings", "_task",
    )  # fmt: skip

    def __init__(self, fs: Filesystem, clock: Clock, dice: Dice, task: PartitionTask) -> None:
        self._fs, self._clock, self._dice, self._task = fs, clock, dice, task
        self._settings = replace(
            CleanerSettings.from_values({}), dedupe_buffer_bytes=task.dedupe_buffer_bytes
        )
        self._runs: list[Run] = []
        self._log = _open(fs, clock, dice, task)
        self._earlier, self._ledger = _history(fs, task.directory)

    def run(self) -> PartitionOutcome:
        log = self._log
        bytes_before = log.size_bytes
        if log.segments.active.size > 0:
            log.roll()
        first_dirty = self._task.first_dirty_offset
        while (plan := self._plan(first_dirty)) is not None:
            report = self._pass(plan)
            is_stuck = report.end_offset <= plan.first_dirty_offset
            first_dirty = max(report.end_offset, plan.first_dirty_offset)
            if is_stuck or first_dirty >= plan.first_uncleanable_offset:
                break
        log.close()
        return self._outcome(bytes_before, first_dirty)

    def _plan(self, first_dirty: int | None) -> CleaningPlan | None:
        now_ms = self._clock.now_ms()
        facts = facts_of(self._log, times_from=self._log.log_start_offset)
        measured = measure(facts, first_dirty, now_ms=now_ms)
        plan = make_plan(self._log, measured, self._settings, now_ms=now_ms)
        if plan is not None and self._task.keep_tombstones:
            return replace(plan, held_from_offset=0)
        config = self._log.config
        if plan is not None and config.ledgerstone_tombstone_hold_groups:
            # Only a broker knows these groups' positions, so assume that none has read anything.
            hold_max_ms = config.ledgerstone_tombstone_hold_max_ms
            return replace(plan, held_from_offset=0, hold_max_ms=hold_max_ms)
        return plan

    def _pass(self, plan: CleaningPlan) -> PassReport:
        started_ms = self._clock.monotonic_ms()
        report = run_pass(
            self._fs, plan, dice=self._dice, on_group=self._swap, should_abort=lambda: False
        )
        run = Run(
            started_ms=plan.now_ms,
            ended_ms=self._clock.now_ms(),
            duration_ms=self._clock.monotonic_ms() - started_ms,
            reason=REASON,
            outcome="cleaned",
            detail="",
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=report.end_offset,
            segments_before=len(plan.segments),
            segments_after=len(report.groups),
            stats=report.stats,
        )
        self._runs.append(run)
        self._ledger = self._ledger.after_pass(
            report.tombstones, end_offset=report.end_offset, now_ms=plan.now_ms
        )
        self._write_history()
        return report

    def _swap(self, group: CleanedGroup) -> None:
        log = self._log
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
        if group.removed_to:
            self._note_removed(group.removed_to)
        swap_segments(log, new=[new], old=old)
        # No consumer reads these files, and the disk may have no space for both.
        log.deleted_files.unlink_due(INT64_MAX)

    def _note_removed(self, removed_to: int) -> None:
        """Before files are swapped in that lack tombstones below. A next try would not find that
        they were ever there. Crash here: it says that deletes are gone which are not, and costs a
        comparison or a copy."""
        ledger, fs = self._ledger, self._fs
        below = max(removed_to, ledger.removed_below_offset or 0)
        if below != ledger.removed_below_offset:
            now_ms = self._clock.now_ms()
            self._ledger = replace(ledger, removed_below_offset=below, removed_at_ms=now_ms)
            self._write_history()
        # Of a log that has been replicated: another replica may have the value and not the delete.
        path = join(self._task.directory, REMOVAL_MARKS)
        marks = read_if_exists(fs, path)
        try:
            if marks is None or decode_marks(marks, path) >= removed_to:
                return
        except CorruptFile:
            # A broker that cannot read them believes that anything may have been removed.
            return
        write_atomically(fs, path, encode_marks(removed_to))

    def _write_history(self) -> None:
        """Runs before the checkpoint is written. Below a checkpoint no pass looks again, so the
        horizons there must be recorded first, and so must deletes that readers may have missed."""
        runs = [*self._earlier, *self._runs][-_HISTORY_RUNS:]
        path = join(self._task.directory, CLEANING_HISTORY)
        write_atomically(self._fs, path, encode_runs(runs, self._ledger))

    def _outcome(self, bytes_before: int, first_dirty: int | None) -> PartitionOutcome:
        log = self._log
        starts_inside = log.log_start_offset > log.segments.first.base_offset
        dropped = sum(each.stats.records_read - each.stats.records_kept for each in self._runs)
        kept = self._runs[-1].stats.records_kept if self._runs else 0
        return PartitionOutcome(
            topic_partition=log.topic_partition,
            directory=log.directory,
            passes=len(self._runs),
            bytes_before=bytes_before,
            bytes_after=log.size_bytes,
            records_before=kept + dropped,
            records_after=kept,
            tombstones_removed=sum(each.stats.dropped_tombstones for each in self._runs),
            first_dirty_offset=first_dirty,
            log_end_offset=log.log_end_offset,
            log_start_offset=log.log_start_offset if starts_inside else None,
        )


def _open(fs: Filesystem, clock: Clock, dice: Dice, task: PartitionTask) -> PartitionLog:
    policy = {"cleanup.policy": "compact", **task.config}
    log, _ = open_log(
        OpenLog(
            fs=fs,
            clock=clock,
            dice=dice,
            directory=task.directory,
            topic_partition=task.topic_partition,
            config=LogConfig.from_topic(policy),
            clean=task.clean,
            recovery_point=task.recovery_point,
            log_start_offset=task.log_start_offset,
            high_watermark=INT64_MAX if task.high_watermark is None else task.high_watermark,
        )
    )
    return log


def _history(fs: Filesystem, directory: str) -> tuple[list[Run], TombstoneLedger]:
    """An unreadable history counts as empty."""
    path = join(directory, CLEANING_HISTORY)
    try:
        if fs.exists(path) and fs.size_of(path) <= MAX_BYTES:
            return decode_history(read_if_exists(fs, path) or b"")
    except ValueError:
        pass
    return [], TombstoneLedger()
