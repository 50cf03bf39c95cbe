"""What a log directory knows of its partitions at start. Grade D.

Reads the offset checkpoints and the record of a clean stop. Where both have a value, the clean stop
wins: damage to a checkpoint may not show. A partition's entry lapses when the partition is opened
or deleted.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptFile, Damage
from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.checkpoints import OffsetCheckpoint
from ledgerstone.storage.clean_stop import CleanStop, take_clean_stop
from ledgerstone.storage.damage_notes import TOLD, DamageNotes
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SIZES_AT_STOP,
    partition_dir_name,
)
from ledgerstone.storage.log_dir_files import CleanShutdownFile
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The checkpoints at start; partitions without an entry begin at 0."""

    # Of the log directory.
    path: str
    clean: bool
    # Of the process that stopped cleanly; -1 after a crash, or if it is not known.
    broker_epoch: int
    recovery_points: dict[TopicPartition, int]
    log_start_offsets: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]
    stop: CleanStop | None = None
    # False: the machine stayed up, so every completed write is there.
    may_have_lost_power: bool = True

    def recovery_point(self, topic_partition: TopicPartition) -> int:
        """A clean stop has it too: there, it is the log's end."""
        checkpointed = self.recovery_points.get(topic_partition, 0)
        stop, name = self.stop, partition_dir_name(topic_partition)
        at_stop = checkpointed if stop is None else stop.ends.get(name, checkpointed)
        if at_stop != checkpointed:
            _LOG.warning(
                "recovery point taken from the clean stop partition=%s file=%s offset=%d not %d",
                topic_partition,
                join(self.path, RECOVERY_POINT_CHECKPOINT),
                at_stop,
                checkpointed,
            )
        return at_stop

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        """A clean stop has it too."""
        checkpointed = self.log_start_offsets.get(topic_partition, 0)
        stop, name = self.stop, partition_dir_name(topic_partition)
        if stop is None or name not in stop.sizes:
            return checkpointed
        at_stop = stop.starts.get(name, 0)
        if at_stop != checkpointed:
            _LOG.warning(
                "log start taken from the clean stop partition=%s file=%s offset=%d instead=%d",
                topic_partition,
                join(self.path, LOG_START_OFFSET_CHECKPOINT),
                at_stop,
                checkpointed,
            )
        return at_stop

    def sizes_at_stop(self, name: str) -> Mapping[int, int] | None:
        """Sizes of a partition's log files, if it was not opened since a clean stop."""
        return None if self.stop is None else self.stop.sizes.get(name)

    def index_sizes_at_stop(self, name: str) -> Mapping[int, Sequence[int]] | None:
        return None if self.stop is None else self.stop.indexes.get(name)

    def stop_is_past(self, name: str) -> None:
        """From here on the partition changes: drops the clean stop's entry."""
        stop = self.stop
        if stop is not None:
            stop.sizes.pop(name, None)
            stop.starts.pop(name, None)
            stop.ends.pop(name, None)
            stop.indexes.pop(name, None)

    def forget(self, topic_partition: TopicPartition) -> bool:
        """The name may be reused, and must not inherit the entries of a deleted log."""
        self.stop_is_past(partition_dir_name(topic_partition))
        known = [
            offsets.pop(topic_partition, None)
            for offsets in (
                self.recovery_points,
                self.log_start_offsets,
                self.high_watermarks,
            )
        ]
        return any(offset is not None for offset in known)


def take_remembered(
    fs: Filesystem, path: str, notes: DamageNotes, *, now_ms: int, may_have_lost_power: bool
) -> Remembered:
    """Also removes what counts for one start only: the clean stop's marker and list."""
    marker = CleanShutdownFile(fs, join(path, CLEAN_SHUTDOWN_FILE))
    clean = marker.exists()
    broker_epoch = marker.read_broker_epoch()
    stop = take_clean_stop(fs, join(path, SIZES_AT_STOP), marker=marker.read())
    # At once: a start that crashes half way is not a clean stop.
    marker.remove()
    return Remembered(
        path=path,
        clean=clean,
        broker_epoch=broker_epoch,
        recovery_points=_read_offsets(fs, path, RECOVERY_POINT_CHECKPOINT),
        log_start_offsets=_read_log_starts(fs, path, notes, stop, now_ms=now_ms),
        high_watermarks=_read_offsets(fs, path, HIGH_WATERMARK_CHECKPOINT),
        stop=stop,
        may_have_lost_power=may_have_lost_power,
    )


def _read_offsets(fs: Filesystem, path: str, name: str) -> dict[TopicPartition, int]:
    """A broken file counts as empty: recovery then starts from the beginning."""
    try:
        if _is_missing(fs, path, name):
            raise CorruptFile(join(path, name), 0, "the file is missing or empty")
        return OffsetCheckpoint(fs, join(path, name)).read()
    except CorruptFile as error:
        _LOG.warning("checkpoint ignored, it will be rewritten reason=%s", error)
        return {}


def _is_missing(fs: Filesystem, path: str, name: str) -> bool:
    """The checkpoints are written together, and never empty."""
    written = [
        each
        for each in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
        if fs.exists(join(path, each)) and fs.size_of(join(path, each))
    ]
    return bool(written) and name not in written and name != HIGH_WATERMARK_CHECKPOINT


def _read_log_starts(
    fs: Filesystem, path: str, notes: DamageNotes, stop: CleanStop | None, *, now_ms: int
) -> dict[TopicPartition, int]:
    """Without them, records removed by DeleteRecords would be readable again."""
    checkpoint = OffsetCheckpoint(fs, join(path, LOG_START_OFFSET_CHECKPOINT))
    reason = "the file is missing or empty"
    try:
        if not _is_missing(fs, path, LOG_START_OFFSET_CHECKPOINT):
            return checkpoint.read()
    except CorruptFile as error:
        reason = f"line {error.position}: {error.reason}"
    if stop is None:
        reason += "; records removed by DeleteRecords may be readable again"
        notes.add("", [Damage(checkpoint.path, 0, 0, reason)], TOLD, now_ms=now_ms)
    else:
        _LOG.warning("checkpoint rewritten file=%s reason=%s", checkpoint.path, reason)
    return {}
