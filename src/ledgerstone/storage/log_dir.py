"""One log directory: whose it is, what it remembers of its partitions, and the logs in it.

Grade D. Owns the lock, the clean-shutdown marker and the offset checkpoints; opens every log with
what the checkpoints say. README.md, "The log directory", lists the files and the start and stop
order. An I/O error in one log takes the whole directory offline; who reacts is decided above.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.errors import CorruptFile, InconsistentTopicId, LogStorageError, StorageError
from ledgerstone.fs import FileLock, Filesystem, join, parent_of
from ledgerstone.records.compression import Codecs
from ledgerstone.storage.checkpoints import OffsetCheckpoint, PartitionMetadata
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_LOG_INDEX_CACHE,
    TMP,
    DirState,
    PartitionDir,
    delete_dir_name,
    parse_partition_dir,
    partition_dir_name,
    stray_dir_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir_files import (
    CleanShutdownFile,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.storage.log_recovery import Recovery
from ledgerstone.storage.log_shrink import truncate_fully_and_start_at, truncate_to
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import random_uuid, uuid_to_text

ConfigFor = Callable[[TopicPartition], LogConfig]

# In one plan to unlink; a directory has about half a dozen files.
DIRECTORIES_AT_ONCE: Final = 16
FILES_AT_ONCE: Final = 64

_REPLACED_AS_A_WHOLE: Final = (
    META_PROPERTIES,
    CLEAN_SHUTDOWN_FILE,
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the checkpoints said at start; partitions they do not name begin at 0."""

    clean: bool
    recovery_points: dict[TopicPartition, int]
    log_start_offsets: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]


@dataclass(slots=True, kw_only=True)
class LogDir:
    """Made by `open_log_dir`; `close` is its clean end."""

    fs: Filesystem
    clock: Clock
    dice: Dice
    path: str
    meta: MetaProperties
    lock: FileLock
    remembered: Remembered
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    recoveries: dict[TopicPartition, Recovery] = field(default_factory=dict)
    # Directories renamed aside, and when they may go.
    doomed: dict[str, int] = field(default_factory=dict)
    codecs: Codecs = field(default_factory=Codecs, repr=False)
    # Told before a log is cut at an offset: who keeps facts of what lies above it takes them back
    # first, or else they would be taken for facts of what is written there later.
    before_truncation: Callable[[PartitionLog, int], None] | None = None

    # -- partitions ---------------------------------------------------------------------------

    def load(self, config_for: ConfigFor) -> Iterator[PartitionLog]:
        """Opens every partition found, one by one, so that a shell can show how far it is."""
        for name, found in _partition_dirs(self.fs, self.path):
            if found.state is DirState.DELETE:
                self.doomed[join(self.path, name)] = self.clock.now_ms()
            elif found.state is DirState.LIVE and found.topic_partition not in self.logs:
                topic_partition = found.topic_partition
                yield self._open(topic_partition, config_for(topic_partition))

    def create(
        self, topic_partition: TopicPartition, config: LogConfig, *, topic_id: bytes | None = None
    ) -> PartitionLog:
        """Makes a new partition, or opens the one that is there; the topic id must agree."""
        if topic_partition in self.logs:
            raise StorageError(f"{topic_partition} is open already in {self.path}")
        directory = join(self.path, partition_dir_name(topic_partition))
        is_new = not self.fs.exists(directory)
        if is_new and self._forget(topic_partition):
            # A crash kept its deletion from being written down: first that, then the new one.
            self.checkpoint()
        self.fs.make_dir(directory)
        if topic_id is not None:
            # Before the first batch: data must never be younger than the name it belongs to.
            self._check_topic_id(directory, topic_partition, topic_id)
        log = self._open(topic_partition, config)
        if is_new:
            self.fs.fsync_dir(directory)
            self.fs.fsync_dir(self.path)
        return log

    def _check_topic_id(self, directory: str, tp: TopicPartition, topic_id: bytes) -> None:
        metadata = PartitionMetadata(self.fs, join(directory, PARTITION_METADATA))
        known = metadata.read()
        if known is None:
            metadata.write(topic_id)
        elif known != topic_id:
            raise InconsistentTopicId(
                f"{tp} on disk belongs to topic {uuid_to_text(known)}, not {uuid_to_text(topic_id)}"
            )

    def _open(self, topic_partition: TopicPartition, config: LogConfig) -> PartitionLog:
        remembered = self.remembered
        log, recovery = open_log(
            OpenLog(
                fs=self.fs,
                clock=self.clock,
                dice=self.dice,
                directory=join(self.path, partition_dir_name(topic_partition)),
                topic_partition=topic_partition,
                config=config,
                clean=remembered.clean,
                recovery_point=remembered.recovery_points.get(topic_partition, 0),
                log_start_offset=remembered.log_start_offsets.get(topic_partition, 0),
                high_watermark=remembered.high_watermarks.get(topic_partition, 0),
                codecs=self.codecs,
            )
        )
        self.logs[topic_partition] = log
        self.recoveries[topic_partition] = recovery
        # A log that ends below what is remembered of it, as after a truncation cut short, grows
        # anew from there. Unless that is written down, the next start would take what is appended
        # now for durable, or for replicated.
        if log.log_end_offset < remembered.recovery_points.get(topic_partition, 0):
            self.checkpoint_recovery_points()
        if log.log_end_offset < remembered.high_watermarks.get(topic_partition, 0):
            self.checkpoint_high_watermarks()
        return log

    def delete(self, topic_partition: TopicPartition) -> None:
        """Renames the partition aside; its files go after file.delete.delay.ms."""
        for _, error in self.delete_all([topic_partition]):
            raise error

    def delete_all(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> list[tuple[TopicPartition, OSError]]:
        """As `delete`, with one sync and one checkpoint for all; returns what the disk refused."""
        refused: list[tuple[TopicPartition, OSError]] = []
        for topic_partition in topic_partitions:
            aside = delete_dir_name(topic_partition, random_uuid(self.dice).hex())
            try:
                log = self._rename_aside(topic_partition, aside)
            except OSError as error:
                refused.append((topic_partition, error))
                continue
            due_ms = self.clock.now_ms() + log.config.file_delete_delay_ms
            self.doomed[join(self.path, aside)] = due_ms
        if len(refused) < len(topic_partitions):
            try:
                self._renamed_aside()
            except OSError as error:
                refused.append((topic_partitions[-1], error))
        return refused

    def set_aside_stray(self, topic_partition: TopicPartition) -> None:
        """Renames a partition nobody claims; its files stay until somebody looks at them."""
        aside = stray_dir_name(topic_partition, random_uuid(self.dice).hex())
        self._rename_aside(topic_partition, aside)
        self._renamed_aside()

    def _rename_aside(self, topic_partition: TopicPartition, aside: str) -> PartitionLog:
        log = self.logs.pop(topic_partition)
        for segment in log.segments:
            segment.forget()
        self.fs.rename(log.directory, join(self.path, aside))
        self._forget(topic_partition)
        return log

    def _renamed_aside(self) -> None:
        # The names first: a checkpoint without them would have a directory begin anew.
        self.fs.fsync_dir(self.path)
        self.checkpoint()

    def _forget(self, topic_partition: TopicPartition) -> bool:
        """The name may come back: it must not inherit what is remembered of a deleted log."""
        remembered = self.remembered
        known = [
            offsets.pop(topic_partition, None)
            for offsets in (
                remembered.recovery_points,
                remembered.log_start_offsets,
                remembered.high_watermarks,
            )
        ]
        return any(offset is not None for offset in known)

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Cuts a log and lowers its recovery point on disk, before anything is appended again."""
        log = self.logs[topic_partition]
        self._announce_truncation(log, offset)
        truncated = truncate_to(log, offset)
        if truncated:
            self._checkpoint_truncation(log)
        return truncated

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        log = self.logs[topic_partition]
        self._announce_truncation(log, log.log_start_offset)
        truncate_fully_and_start_at(log, offset)
        self._checkpoint_truncation(log)

    def _announce_truncation(self, log: PartitionLog, offset: int) -> None:
        if self.before_truncation is not None and offset < log.log_end_offset:
            self.before_truncation(log, offset)

    def _checkpoint_truncation(self, log: PartitionLog) -> None:
        try:
            self.checkpoint()
        except OSError as error:
            log.fail(f"truncation was not written down: {error}")
            raise LogStorageError(
                f"{log.topic_partition}: truncation was not written down: {error}"
            ) from error

    def plan_unlink(self) -> UnlinkPlan | None:
        """Files and directories whose delay has passed; None: there is none.

        Only some at a time: who stops waits for the plan that is under way."""
        now_ms = self.clock.now_ms()
        files = [path for log in self.logs.values() for path in log.deleted_files.due(now_ms)]
        directories = [path for path, due_ms in self.doomed.items() if due_ms <= now_ms]
        if not files and not directories:
            return None
        return UnlinkPlan(
            fs=self.fs,
            files=tuple(files[:FILES_AT_ONCE]),
            directories=tuple(directories[:DIRECTORIES_AT_ONCE]),
            is_part=len(files) > FILES_AT_ONCE or len(directories) > DIRECTORIES_AT_ONCE,
        )

    def unlink_done(self, plan: UnlinkPlan) -> None:
        """The plan was performed, if not to its end: what is gone is forgotten."""
        for log in self.logs.values():
            if len(log.deleted_files):
                log.deleted_files.forget(plan.gone)
        for path in plan.gone:
            self.doomed.pop(path, None)

    # -- what is remembered -------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Writes all three offset checkpoints."""
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()

    def checkpoint_recovery_points(self) -> None:
        points = {tp: log.recovery_point for tp, log in self.logs.items()}
        self._write(RECOVERY_POINT_CHECKPOINT, points, self.remembered.recovery_points)

    def checkpoint_log_start_offsets(self) -> None:
        """Only where the start lies inside a segment; otherwise the first file's name says it."""
        moved = {
            tp: log.log_start_offset
            for tp, log in self.logs.items()
            if not len(log.segments) or log.log_start_offset > log.segments.first.base_offset
        }
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
        """A log that is not open yet, or could not be opened, keeps what is remembered of it."""
        closed = {tp: offset for tp, offset in remembered.items() if tp not in self.logs}
        OffsetCheckpoint(self.fs, join(self.path, name)).write(closed | offsets)

    def close(self, *, broker_epoch: int = -1) -> None:
        """A clean stop. Crash here: no marker, and the next start recovers."""
        for log in self.logs.values():
            log.close()
        self.checkpoint()
        if self._is_clean():
            marker = CleanShutdownFile(self.fs, join(self.path, CLEAN_SHUTDOWN_FILE))
            marker.write(broker_epoch)
        self.lock.release()

    def _is_clean(self) -> bool:
        """Whether nothing in the directory needs recovery. A log that was never opened does,
        unless the stop before this one was clean."""
        if any(log.failure is not None for log in self.logs.values()):
            return False
        found = [parse_partition_dir(name) for name in self.fs.list_dir(self.path)]
        live = [name.topic_partition for name in found if name and name.state is DirState.LIVE]
        return self.remembered.clean or all(tp in self.logs for tp in live)


def open_log_dir(
    fs: Filesystem,
    clock: Clock,
    dice: Dice,
    path: str,
    *,
    node_id: int = 1,
    cluster_id: str | None = None,
) -> LogDir:
    """Takes the directory, formatting it where it is new. The logs in it are opened by `load`."""
    _make_durable_dir(fs, path)
    lock = fs.lock(join(path, LOCK_FILE))
    try:
        _unlink_temporary(fs, path)
        meta = _settle_meta(fs, dice, path, node_id, cluster_id)
        marker = CleanShutdownFile(fs, join(path, CLEAN_SHUTDOWN_FILE))
        clean = marker.exists()
        # At once: a start that crashes half way was not a clean stop.
        marker.remove()
        remembered = Remembered(
            clean=clean,
            recovery_points=_read_offsets(fs, path, RECOVERY_POINT_CHECKPOINT),
            log_start_offsets=_read_offsets(fs, path, LOG_START_OFFSET_CHECKPOINT),
            high_watermarks=_read_offsets(fs, path, HIGH_WATERMARK_CHECKPOINT),
        )
    except BaseException:
        lock.release()
        raise
    return LogDir(
        fs=fs, clock=clock, dice=dice, path=path, meta=meta, lock=lock, remembered=remembered
    )


def _make_durable_dir(fs: Filesystem, path: str) -> None:
    """A directory whose own name is lost takes everything in it along."""
    missing = []
    while not fs.exists(path):
        missing.append(path)
        path = parent_of(path)
    for directory in reversed(missing):
        fs.make_dir(directory)
        fs.fsync_dir(parent_of(directory))


def _unlink_temporary(fs: Filesystem, path: str) -> None:
    """Files that were being replaced when a crash came; what they were to replace is there."""
    for name in fs.list_dir(path):
        if name.endswith(TMP) and name.removesuffix(TMP) in _REPLACED_AS_A_WHOLE:
            fs.unlink(join(path, name))


def _settle_meta(
    fs: Filesystem, dice: Dice, path: str, node_id: int, cluster_id: str | None
) -> MetaProperties:
    meta_path = join(path, META_PROPERTIES)
    known = read_meta_properties(fs, meta_path)
    if known is None:
        meta = MetaProperties(
            cluster_id=cluster_id or uuid_to_text(random_uuid(dice)),
            node_id=node_id,
            directory_id=random_uuid(dice),
        )
        write_meta_properties(fs, meta_path, meta)
        return meta
    if known.node_id != node_id:
        raise StorageError(f"{meta_path}: belongs to node {known.node_id}, not {node_id}")
    if cluster_id is not None and known.cluster_id not in (None, cluster_id):
        raise StorageError(f"{meta_path}: belongs to cluster {known.cluster_id}, not {cluster_id}")
    return known


def _read_offsets(fs: Filesystem, path: str, name: str) -> dict[TopicPartition, int]:
    """A broken file is read as if nothing were known: recovery then starts from the beginning."""
    try:
        return OffsetCheckpoint(fs, join(path, name)).read()
    except CorruptFile:
        return {}


def _partition_dirs(fs: Filesystem, path: str) -> Iterator[tuple[str, PartitionDir]]:
    for name in fs.list_dir(path):
        if name == REMOTE_LOG_INDEX_CACHE or not fs.is_dir(join(path, name)):
            continue
        found = parse_partition_dir(name)
        if found is None:
            raise StorageError(
                f"{join(path, name)} is not a partition's directory (<topic>-<number>); "
                "move it away, a log directory holds nothing else"
            )
        yield name, found
