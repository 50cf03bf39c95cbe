"""Checkpoints of a log directory's open logs, and the marks of a clean stop. Grade D.

`checkpoints`, `clean_stop` and `log_dir_files` own the files; this module decides their contents.
"""

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.checkpoints import OffsetCheckpoint
from ledgerstone.storage.clean_stop import CleanStop, write_clean_stop
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SIZES_AT_STOP,
    DirState,
    parse_partition_dir,
    partition_dir_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dir_files import CleanShutdownFile
from ledgerstone.storage.log_dir_remembered import Remembered
from ledgerstone.types import TopicPartition


@dataclass(slots=True, kw_only=True)
class CheckpointedLogs:
    """The open logs of one log directory, and their checkpoints."""

    fs: Filesystem
    # Of the log directory.
    path: str
    remembered: Remembered
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)

    def checkpoint(self) -> None:
        """Writes all three offset checkpoints."""
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()

    def checkpoint_recovery_points(self) -> None:
        if not self.fs.exists(join(self.path, LOG_START_OFFSET_CHECKPOINT)):
            # Without an entry, the next start would take the log for lost.
            self.checkpoint_log_start_offsets()
        points = {tp: log.recovery_point for tp, log in self.logs.items()}
        self._write(RECOVERY_POINT_CHECKPOINT, points, self.remembered.recovery_points)

    def checkpoint_log_start_offsets(self) -> None:
        """Only for logs that start inside a segment; otherwise the first file's name says it."""
        moved = {tp: log.log_start_offset for tp, log in self.logs.items() if _has_moved(log)}
        self._write(LOG_START_OFFSET_CHECKPOINT, moved, self.remembered.log_start_offsets)

    def checkpoint_high_watermarks(self) -> None:
        watermarks = {tp: log.high_watermark for tp, log in self.logs.items()}
        self._write(HIGH_WATERMARK_CHECKPOINT, watermarks, self.remembered.high_watermarks)

    def _write(
        self,
        name: str,
        offsets: dict[TopicPartition, int],
        remembered: dict[TopicPartition, int],
    ) -> None:
        """A log that is not open keeps its entry from the last start."""
        closed = {tp: offset for tp, offset in remembered.items() if tp not in self.logs}
        OffsetCheckpoint(self.fs, join(self.path, name)).write(closed | offsets)

    def _mark_clean_stop(self, broker_epoch: int) -> None:
        """Runs after the logs were closed and checkpointed. Crash here: no marker, and the next
        start recovers."""
        if not self._is_clean():
            return
        marker = CleanShutdownFile(self.fs, join(self.path, CLEAN_SHUTDOWN_FILE))
        content = marker.content(broker_epoch)
        write_clean_stop(
            self.fs, join(self.path, SIZES_AT_STOP), self._clean_stop(), marker=content
        )
        marker.write(broker_epoch)

    def _is_clean(self) -> bool:
        """Whether nothing in the directory needs recovery. A log that was never opened needs it,
        unless the stop before this one was clean."""
        if any(log.failure is not None for log in self.logs.values()):
            return False
        found = [parse_partition_dir(name) for name in self.fs.list_dir(self.path)]
        live = [name.topic_partition for name in found if name and name.state is DirState.LIVE]
        return self.remembered.clean or all(tp in self.logs for tp in live)

    def _clean_stop(self) -> CleanStop:
        names = {partition_dir_name(tp): log for tp, log in self.logs.items()}
        return CleanStop(
            sizes={
                name: {segment.base_offset: segment.size for segment in log.segments}
                for name, log in names.items()
            },
            indexes={
                name: {segment.base_offset: segment.index_sizes() for segment in log.segments}
                for name, log in names.items()
            },
            ends={name: log.log_end_offset for name, log in names.items()},
            starts={name: log.log_start_offset for name, log in names.items() if _has_moved(log)},
        )


def _has_moved(log: PartitionLog) -> bool:
    """Whether the log starts inside a segment; otherwise the first file's name says where."""
    return not len(log.segments) or log.log_start_offset > log.segments.first.base_offset
