"""Cleans huge log directories offline, with one Spark task per partition. Shell.

The driver takes each directory's lock, so that no broker starts on it, and gives every partition to
a task, which works on the files in place: no record passes through the JVM. The reports of the
tasks become the directory's checkpoints, and only then is the lock released. A directory does not
say which topics are compacted, so the caller names them.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import LedgerstoneError
from ledgerstone.fs import FileLock, Filesystem, join
from ledgerstone.pipeline.bulk_compaction_pass import (
    PartitionOutcome,
    PartitionTask,
    compact_partition,
)
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.storage.checkpoints import OffsetCheckpoint
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SIZES_AT_STOP,
    DirState,
    parse_partition_dir,
)
from ledgerstone.storage.log_dir_files import CleanShutdownFile
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METADATA_TOPIC: Final = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkCompaction:
    """`paths` are log directories, of which `topics` are cleaned, or single partitions."""

    paths: Sequence[str]
    topics: Sequence[str] = ()
    config: Mapping[str, str] = field(default_factory=dict)  # of the topics, as text
    dedupe_buffer_bytes: int = 128 << 20  # of each task
    keep_tombstones: bool = False  # whatever their horizon says


class OfflineLogDir:
    """A locked log directory: its checkpoints are read, its clean-stop mark is removed."""

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self._lock: FileLock = fs.lock(join(path, LOCK_FILE))
        self._marker = CleanShutdownFile(fs, join(path, CLEAN_SHUTDOWN_FILE))
        self.clean = self._marker.exists()
        self._broker_epoch = self._marker.read_broker_epoch()
        self.recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
        self.log_start_offsets = self._read(LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT)
        self.first_dirty_offsets = self._read(CLEANER_OFFSET_CHECKPOINT)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        return OffsetCheckpoint(self._fs, join(self.path, name)).read()

    def begin(self) -> None:
        """After this, a crash leaves a directory that a broker has to recover."""
        # Compared with the sizes that a clean stop recorded, our segments would look damaged.
        sizes = join(self.path, SIZES_AT_STOP)
        if self._fs.exists(sizes):
            self._fs.unlink(sizes)
            self._fs.fsync_dir(self.path)
        self._marker.remove()

    def task(self, tp: TopicPartition, directory: str, wish: BulkCompaction) -> PartitionTask:
        has_watermarks = bool(self.high_watermarks)
        return PartitionTask(
            directory=directory,
            topic_partition=tp,
            config=dict(wish.config),
            clean=self.clean,
            recovery_point=self.recovery_points.get(tp, 0),
            log_start_offset=self.log_start_offsets.get(tp, 0),
            # Copies of partitions have no checkpoint beside them; their content counts.
            high_watermark=self.high_watermarks.get(tp, 0) if has_watermarks else None,
            first_dirty_offset=self.first_dirty_offsets.get(tp),
            dedupe_buffer_bytes=wish.dedupe_buffer_bytes,
            keep_tombstones=wish.keep_tombstones,
        )

    def finish(self, outcomes: Sequence[PartitionOutcome]) -> None:
        """The order matters: a clean-stop mark vouches for the checkpoints written before it."""
        done = [each for each in outcomes if not each.failure]
        for each in done:
            tp = each.topic_partition
            self.recovery_points[tp] = each.log_end_offset
            if each.log_start_offset is None:
                self.log_start_offsets.pop(tp, None)
            else:
                self.log_start_offsets[tp] = each.log_start_offset
            if each.first_dirty_offset is not None:
                self.first_dirty_offsets[tp] = each.first_dirty_offset
        if done:
            self._write(RECOVERY_POINT_CHECKPOINT, self.recovery_points)
            self._write(LOG_START_OFFSET_CHECKPOINT, self.log_start_offsets)
            self._write(CLEANER_OFFSET_CHECKPOINT, self.first_dirty_offsets)
        if self.clean and len(done) == len(outcomes):
            self._marker.write(self._broker_epoch)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        OffsetCheckpoint(self._fs, join(self.path, name)).write(offsets)

    def release(self) -> None:
        self._lock.release()


def compact(spark: "SparkSession", wish: BulkCompaction) -> list[PartitionOutcome]:
    """Raises LogDirLocked if a broker runs; one partition's failure does not stop the others."""
    fs = OsFilesystem()
    found = _partitions(wish)
    with ExitStack() as stack:
        dirs: dict[str, OfflineLogDir] = {}
        for parent in found:
            dirs[parent] = OfflineLogDir(fs, parent)
            stack.callback(dirs[parent].release)
        tasks = [
            dirs[parent].task(tp, directory, wish)
            for parent, partitions in found.items()
            for tp, directory in partitions.items()
        ]
        for log_dir in dirs.values():
            log_dir.begin()
        outcomes = _run(spark, tasks)
        for parent, log_dir in dirs.items():
            log_dir.finish(
                [each for each in outcomes if Path(each.directory).parent == Path(parent)]
            )
    return outcomes


def _partitions(wish: BulkCompaction) -> dict[str, dict[TopicPartition, str]]:
    """The requested partitions and their paths, by log directory."""
    found: dict[str, dict[TopicPartition, str]] = {}
    for text in wish.paths:
        path = Path(text).resolve()
        own = parse_partition_dir(path.name)
        if own is not None and own.state is DirState.LIVE and any(path.glob("*.log")):
            found.setdefault(str(path.parent), {})[own.topic_partition] = str(path)
            continue
        named = _topics_in(path, wish.topics)
        if not named:
            raise PipelineError(
                f"{path}: no partition of {', '.join(wish.topics) or 'a named topic'} is in it; "
                "name compacted topics, or the directories of single partitions"
            )
        found.setdefault(str(path), {}).update(named)
    for partitions in found.values():
        for tp in partitions:
            if tp.topic == _METADATA_TOPIC:
                raise PipelineError(f"{tp} is the cluster's own log and is never compacted")
    return found


def _topics_in(path: Path, topics: Sequence[str]) -> dict[TopicPartition, str]:
    if not path.is_dir():
        raise PipelineError(f"{path} is not a directory")
    named = {}
    for child in sorted(path.iterdir()):
        parsed = parse_partition_dir(child.name)
        is_live = parsed is not None and parsed.state is DirState.LIVE and child.is_dir()
        if parsed is not None and is_live and parsed.topic_partition.topic in topics:
            named[parsed.topic_partition] = str(child)
    return named


def _run(spark: "SparkSession", tasks: Sequence[PartitionTask]) -> list[PartitionOutcome]:
    """Runs one Spark task for each of ours."""
    spread = spark.sparkContext.parallelize(tasks, max(len(tasks), 1))
    return sorted(spread.map(run_task).collect(), key=lambda each: each.topic_partition)


def run_task(task: PartitionTask) -> PartitionOutcome:
    """Runs on an executor. Reports the failure of one partition; the others continue."""
    try:
        if not Path(task.directory).is_dir():
            raise PipelineError(f"{task.directory} is not on this machine")
        return compact_partition(OsFilesystem(), SystemClock(), SystemDice(), task)
    except (LedgerstoneError, OSError) as error:
        return PartitionOutcome(
            topic_partition=task.topic_partition, directory=task.directory, failure=f"{error}"
        )
