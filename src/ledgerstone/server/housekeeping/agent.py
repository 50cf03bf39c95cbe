"""What the broker does by the clock: retention, flushing, checkpoints, removal of deleted files.

Grade D. Each job has a period and the time it is due next, in monotonic time; `tick` runs what is
due. Syncing and unlinking files take time, so these leave as effects.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.effects import Effect, Flush, Unlink
from ledgerstone.server.housekeeping import disk_watch
from ledgerstone.server.tombstones.guard import forget_settled
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_shrink import delete_old_segments
from ledgerstone.types import INT64_MAX, TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker

_LOG: Final = logging.getLogger(__name__)

# How often rolled segments and flush.ms are looked at, and deleted files unlinked.
FLUSH_CHECK_MS: Final = 1000
UNLINK_CHECK_MS: Final = 1000
# How long tombstones wait for others before a search, and groups that are gone stay listed.
STRAY_CHECK_MS: Final = 5_000
MISSED_CHECK_MS: Final = 60_000
_DISK_REFUSED: Final = (OSError, StorageError)


@dataclass(slots=True)
class _Job:
    name: str
    period_ms: int
    run: Callable[["Broker"], Iterable[Effect] | None]
    due_ms: int = 0


@dataclass(slots=True)
class Housekeeping:
    jobs: list[_Job]
    # Partitions whose fsync is under way: one at a time each.
    flushing: dict[TopicPartition, None] = field(default_factory=dict)
    # Files are being unlinked: no second plan may name the same ones.
    unlinking: bool = False

    @classmethod
    def from_config(cls, config: BrokerConfig, now_ms: int) -> "Housekeeping":
        keeper = cls([])
        first_ms = now_ms + config.log_initial_task_delay_ms
        keeper.jobs += [
            _Job("retention", config.log_retention_check_interval_ms, _retain, first_ms),
            _Job(
                "recovery-points",
                config.log_flush_offset_checkpoint_interval_ms,
                _checkpoint_recovery,
                first_ms,
            ),
            _Job(
                "log-starts",
                config.log_flush_start_offset_checkpoint_interval_ms,
                _checkpoint_starts,
                first_ms,
            ),
            _Job(
                "high-watermarks",
                config.replica_high_watermark_checkpoint_interval_ms,
                _checkpoint_hw,
                first_ms,
            ),
            _Job(
                "producer-ids",
                config.producer_id_expiration_check_interval_ms,
                _expire_producers,
                first_ms,
            ),
            _Job("flush", FLUSH_CHECK_MS, keeper.flush_due, now_ms + FLUSH_CHECK_MS),
            _Job("unlink", UNLINK_CHECK_MS, keeper.unlink_due, now_ms + UNLINK_CHECK_MS),
            _Job("strays", STRAY_CHECK_MS, _look_for_strays, now_ms + STRAY_CHECK_MS),
            _Job("disk", disk_watch.CHECK_MS, _look_at_disk, now_ms + disk_watch.CHECK_MS),
            _Job("missed", MISSED_CHECK_MS, _forget_settled, now_ms + MISSED_CHECK_MS),
        ]
        return keeper

    @property
    def next_deadline_ms(self) -> int:
        return min(job.due_ms for job in self.jobs)

    def tick(self, broker: "Broker") -> Iterator[Effect]:
        now_ms = broker.clock.monotonic_ms()
        for job in self.jobs:
            if job.due_ms > now_ms:
                continue
            job.due_ms = now_ms + job.period_ms
            try:
                yield from job.run(broker) or ()
            except _DISK_REFUSED as error:
                # Nothing was promised: the job is tried again when it is due again.
                broker.disk.refused(f"job {job.name}", error, now_ms)

    def flush_due(self, broker: "Broker") -> Iterator[Effect]:
        """Sealed segments are synced soon after they rolled; flush.ms bounds the rest."""
        for partition in broker.partitions:
            log = partition.log
            if partition.topic_partition in self.flushing or log.failure is not None:
                continue
            plan = log.plan_flush(_flush_target(log))
            if plan is not None:
                self.flushing[partition.topic_partition] = None
                yield Flush(partition.topic_partition, partition.topic_id, plan)

    def unlink_due(self, broker: "Broker") -> Iterator[Effect]:
        plan = None if self.unlinking else broker.log_dir.plan_unlink()
        if plan is not None:
            self.unlinking = True
            yield Unlink(plan)

    def unlinked(self, plan: UnlinkPlan, failure: OSError | None) -> None:
        self.unlinking = False
        if failure is not None:
            # What is left is tried again when the job is due again.
            _LOG.error("job failed job=unlink reason=%s", failure)
        elif plan.is_part:
            self.unlink_soon()

    def unlink_soon(self) -> None:
        """Somebody waits for what is due: it goes with the next tick."""
        self._look_now("unlink")

    def look_now(self) -> None:
        """The wall clock was set: what is done by it is done with the next tick."""
        self._look_now("retention", "unlink", "producer-ids")

    def _look_now(self, *names: str) -> None:
        for job in self.jobs:
            if job.name in names:
                job.due_ms = 0

    def retain(self, broker: "Broker", partition: Partition) -> None:
        """Applies the retention rules to one partition that nobody is cleaning."""
        if partition.log.failure is not None:
            return
        try:
            deletions = delete_old_segments(partition.log)
        except _DISK_REFUSED as error:
            broker.log_failed(partition.topic_partition, error)
            return
        for deletion in deletions:
            _LOG.info(
                "segments deleted partition=%s segments=%d bytes=%d log_start_offset=%d reason=%s",
                partition.topic_partition,
                deletion.segments,
                deletion.size_bytes,
                deletion.log_start_offset,
                deletion.reason.value,
            )

    def flushed(self, topic_partition: TopicPartition) -> None:
        self.flushing.pop(topic_partition, None)


def _flush_target(log: PartitionLog) -> int:
    flush_ms = log.config.flush_ms
    if flush_ms < INT64_MAX and log.clock.now_ms() - log.last_flush_ms >= flush_ms:
        return log.log_end_offset
    return log.segments.active.base_offset


def _retain(broker: "Broker") -> None:
    """Where a pass is at work, this is done when it ends: its sources must not go under it."""
    for partition in list(broker.partitions):
        if not broker.cleaning.is_busy(partition.topic_partition):
            broker.housekeeping.retain(broker, partition)


def _checkpoint_recovery(broker: "Broker") -> None:
    broker.log_dir.checkpoint_recovery_points()


def _checkpoint_starts(broker: "Broker") -> None:
    broker.log_dir.checkpoint_log_start_offsets()


def _checkpoint_hw(broker: "Broker") -> None:
    broker.log_dir.checkpoint_high_watermarks()


def _expire_producers(broker: "Broker") -> None:
    now_ms, expiration_ms = broker.clock.now_ms(), broker.config.producer_id_expiration_ms
    for partition in broker.partitions:
        partition.log.producers.remove_expired(now_ms, expiration_ms)


def _look_for_strays(broker: "Broker") -> None:
    near = broker.near_tombstones
    near.strays.start_due(
        broker, lambda stray: near.found_stray(stray, now_ms=broker.clock.now_ms())
    )


def _look_at_disk(broker: "Broker") -> None:
    broker.disk.look(broker.log_dir.fs, broker.log_dir.path)


def _forget_settled(broker: "Broker") -> None:
    for partition in broker.partitions:
        if partition.log.config.compacts:
            forget_settled(broker, partition)
