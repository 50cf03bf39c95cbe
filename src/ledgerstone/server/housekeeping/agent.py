"""What the broker does by the clock: retention, flushing, checkpoints, removal of deleted files.

Grade D. Each job has a period and the time it is due next, in monotonic time; `tick` runs what is
due. Syncing and unlinking files take time, so these leave as effects.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import StorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.server.effects import Effect, Flush, Unlink
from ledgerstone.server.housekeeping import disk_watch
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.server.housekeeping.flushes import Flushes
from ledgerstone.server.housekeeping.needs import (
    HostedLogs,
    Passes,
    SettlesMissedDeletes,
    StraySearch,
)
from ledgerstone.server.housekeeping.retention import Retention
from ledgerstone.server.results import Done, Failed, Result
from ledgerstone.storage.deleted_files import Unlinked, UnlinkPlan
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import INT64_MAX

_LOG: Final = logging.getLogger(__name__)

# How often rolled segments and flush.ms are looked at, and deleted files unlinked.
FLUSH_CHECK_MS: Final = 1000
UNLINK_CHECK_MS: Final = 1000
# How long tombstones wait for others before a search, and groups that are gone stay listed.
STRAY_CHECK_MS: Final = 5_000
MISSED_CHECK_MS: Final = 60_000
# A job that is due so soon goes along with one that is due: an idle broker wakes once for both.
TOGETHER_MS: Final = 50
_DISK_REFUSED: Final = (OSError, StorageError)


@dataclass(slots=True)
class Job:
    name: str
    period_ms: int
    run: Callable[[], Iterable[Effect] | None]
    due_ms: int


@dataclass(slots=True, kw_only=True)
class Housekeeping:
    """An agent (`server.agent`)."""

    config: BrokerConfig
    clock: Clock
    log_dirs: LogDirs
    partitions: HostedLogs
    disk: DiskWatch
    flushes: Flushes
    retention: Retention
    passes: Passes
    missed_deletes: SettlesMissedDeletes
    strays: StraySearch
    jobs: list[Job] = field(init=False)
    # Files are being unlinked: no second plan may name the same ones.
    _is_unlinking: bool = False

    def __post_init__(self) -> None:
        config, log_dirs, now_ms = self.config, self.log_dirs, self.clock.monotonic_ms()
        first_ms = now_ms + config.log_initial_task_delay_ms
        later = (
            ("retention", config.log_retention_check_interval_ms, self._retain),
            (
                "recovery-points",
                config.log_flush_offset_checkpoint_interval_ms,
                log_dirs.checkpoint_recovery_points,
            ),
            (
                "log-starts",
                config.log_flush_start_offset_checkpoint_interval_ms,
                log_dirs.checkpoint_log_start_offsets,
            ),
            (
                "high-watermarks",
                config.replica_high_watermark_checkpoint_interval_ms,
                log_dirs.checkpoint_high_watermarks,
            ),
            (
                "producer-ids",
                config.producer_id_expiration_check_interval_ms,
                self._expire_producers,
            ),
        )
        soon: tuple[tuple[str, int, Callable[[], Iterable[Effect] | None]], ...] = (
            ("flush", FLUSH_CHECK_MS, self._flush_due),
            ("unlink", UNLINK_CHECK_MS, self._unlink_due),
            ("strays", STRAY_CHECK_MS, self.strays.search_if_due),
            ("disk", disk_watch.CHECK_MS, self._look_at_disk),
            ("missed", MISSED_CHECK_MS, self._forget_settled),
        )
        self.jobs = [Job(name, period_ms, run, first_ms) for name, period_ms, run in later]
        self.jobs += [
            Job(name, period_ms, run, now_ms + period_ms) for name, period_ms, run in soon
        ]

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int:
        return min(job.due_ms for job in self.jobs)

    def tick(self) -> list[Effect]:
        now_ms = self.clock.monotonic_ms()
        effects: list[Effect] = []
        if self.next_deadline_ms > now_ms:
            return effects
        for job in self.jobs:
            if job.due_ms > now_ms + TOGETHER_MS:
                continue
            job.due_ms = now_ms + job.period_ms
            try:
                # Effects that came before a failure are kept: their flushes count as under way.
                effects.extend(job.run() or ())
            except _DISK_REFUSED as error:
                # Nothing was promised: the job is tried again when it is due again.
                self.disk.refused(f"job {job.name}", error, now_ms)
        return effects

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        match effect, result:
            case Flush(), Done() | Failed():
                self._flushed(effect, result)
            case Unlink(plan), Unlinked(gone, failure):
                self.log_dirs.unlink_done(gone)
                self._unlinked(plan, failure)
            case _:
                raise AssertionError(f"housekeeping asked for no {type(effect).__name__}")
        return []

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    # -- what others ask ----------------------------------------------------------------------

    def unlink_soon(self) -> None:
        """Something waits for files that are due: they go with the next tick."""
        self._look_now("unlink")

    def look_now(self) -> None:
        """The wall clock was set: what is done by it is done with the next tick."""
        self._look_now("retention", "unlink", "producer-ids")

    def _look_now(self, *names: str) -> None:
        for job in self.jobs:
            if job.name in names:
                job.due_ms = 0

    # -- jobs ---------------------------------------------------------------------------------

    def _retain(self) -> None:
        """Where a pass is at work, this is done when it ends: its sources must not go under it."""
        for partition in list(self.partitions):
            if not self.passes.is_busy(partition.topic_partition):
                self.retention.apply(partition)

    def _expire_producers(self) -> None:
        now_ms, expiration_ms = self.clock.now_ms(), self.config.producer_id_expiration_ms
        for partition in self.partitions:
            partition.log.producers.remove_expired(now_ms, expiration_ms)

    def _flush_due(self) -> Iterator[Effect]:
        """Sealed segments are synced soon after they rolled; flush.ms bounds the rest."""
        for partition in self.partitions:
            if partition.log.failure is None:
                flush = self.flushes.start(partition, _flush_target(partition.log))
                if flush is not None:
                    yield flush

    def _flushed(self, effect: Flush, result: Done | Failed) -> None:
        """A partition that was made anew under its old name has nothing to do with the flush."""
        tp = effect.topic_partition
        partition = self.partitions.find(tp)
        if partition is not None and partition.topic_id == effect.topic_id:
            if isinstance(result, Done):
                partition.log.flush_done(effect.plan)
            else:
                partition.log.fail(f"fsync failed: {result.error}", result.error)
                self.disk.log_failed(tp, result.error, self.clock.monotonic_ms())
        self.flushes.ended(tp)

    def _unlink_due(self) -> Iterator[Effect]:
        plan = None if self._is_unlinking else self.log_dirs.plan_unlink()
        if plan is not None:
            self._is_unlinking = True
            yield Unlink(plan)

    def _unlinked(self, plan: UnlinkPlan, failure: OSError | None) -> None:
        self._is_unlinking = False
        if failure is not None:
            # What is left is tried again when the job is due again.
            _LOG.error("job failed job=unlink reason=%s", failure)
        elif plan.is_part:
            self.unlink_soon()

    def _look_at_disk(self) -> None:
        paths = [each.path for each in self.log_dirs.everything]
        self.disk.look(self.log_dirs.fs, *paths)

    def _forget_settled(self) -> None:
        for partition in self.partitions:
            if partition.log.config.compacts:
                self.missed_deletes.forget_settled(partition)


def _flush_target(log: PartitionLog) -> int:
    flush_ms = log.config.flush_ms
    if flush_ms < INT64_MAX and log.clock.monotonic_ms() - log.last_flush_ms >= flush_ms:
        return log.log_end_offset
    return log.segments.active.base_offset
