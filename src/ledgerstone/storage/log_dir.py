"""One log directory: whose it is, what it remembers of its partitions, and the logs in it.

Grade D. Owns the lock, the clean-shutdown marker and the offset checkpoints; opens every log with
what the checkpoints say. README.md, "The log directory", lists the files and the start and stop
order. An I/O error in one log takes the whole directory offline; who reacts is decided above.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.errors import (
    CorruptFile,
    Damage,
    DamagedLog,
    InconsistentTopicId,
    KafkaError,
    LogStorageError,
    StorageError,
)
from ledgerstone.fs import FileLock, Filesystem, join, parent_of
from ledgerstone.properties import format_properties, parse_properties
from ledgerstone.records.compression import Codecs
from ledgerstone.storage.checkpoints import (
    OffsetCheckpoint,
    PartitionMetadata,
    read_if_exists,
    write_atomically,
)
from ledgerstone.storage.clean_stop import CleanStop, take_clean_stop, write_clean_stop
from ledgerstone.storage.damage_notes import CUT, OFFLINE, READ_ONLY, TOLD, DamageNotes
from ledgerstone.storage.damage_repair import repair
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLEANING_HISTORY,
    DAMAGE_NOTES,
    HIGH_WATERMARK_CHECKPOINT,
    LAST_START,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_LOG_INDEX_CACHE,
    SIZES_AT_STOP,
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
from ledgerstone.types import INT64_MAX, TopicPartition
from ledgerstone.uuid_text import random_uuid, uuid_to_text

_LOG: Final = logging.getLogger(__name__)

ConfigFor = Callable[[TopicPartition], LogConfig]
# The id of the topic a partition belongs to; None: nobody knows the topic.
TopicIdFor = Callable[[TopicPartition], bytes | None]
# What one partition may fail with while it is opened, without the others having to suffer.
_NOT_OPENED: Final = (OSError, StorageError, KafkaError)

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
    DAMAGE_NOTES,
    SIZES_AT_STOP,
    LAST_START,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the checkpoints said at start; partitions they do not name begin at 0."""

    clean: bool
    recovery_points: dict[TopicPartition, int]
    log_start_offsets: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]
    stop: CleanStop | None = None
    # False: the machine has been up all the time, so that every write that returned is there.
    may_have_lost_power: bool = True


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
    notes: DamageNotes
    # Partitions found here that could not be opened, and why; and those that nobody knows.
    refused: dict[TopicPartition, str] = field(default_factory=dict)
    unknown: list[TopicPartition] = field(default_factory=list)
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    recoveries: dict[TopicPartition, Recovery] = field(default_factory=dict)
    # Directories renamed aside, and when they may go.
    doomed: dict[str, int] = field(default_factory=dict)
    codecs: Codecs = field(default_factory=Codecs, repr=False)
    # No log here was ever copied from another broker, so that only compaction leaves holes.
    is_only_replica: bool = False
    # What the cleaner's checkpoint said at start, once somebody has asked.
    _cleaned: dict[TopicPartition, int] | None = field(default=None, repr=False)
    # Told before a log is cut at an offset: who keeps facts of what lies above it takes them back
    # first, or else they would be taken for facts of what is written there later.
    before_truncation: Callable[[PartitionLog, int], None] | None = None

    # -- partitions ---------------------------------------------------------------------------

    def load(
        self, config_for: ConfigFor, topic_id_for: TopicIdFor | None = None
    ) -> Iterator[PartitionLog]:
        """Opens every partition found, one by one, so that a shell can show how far it is.

        What cannot be opened is in `refused` afterwards; with `topic_id_for`, what belongs to no
        topic is in `unknown` and stays closed."""
        for name, found in _partition_dirs(self.fs, self.path):
            topic_partition = found.topic_partition
            if found.state is DirState.DELETE:
                self.doomed[join(self.path, name)] = self.clock.now_ms()
            elif found.state is DirState.LIVE and topic_partition not in self.logs:
                topic_id = None if topic_id_for is None else topic_id_for(topic_partition)
                if topic_id_for is not None and topic_id is None:
                    self.unknown.append(topic_partition)
                    continue
                try:
                    if topic_id is not None:
                        self._check_topic_id(join(self.path, name), topic_partition, topic_id)
                    log = self._open(topic_partition, config_for(topic_partition))
                except _NOT_OPENED as error:
                    self._refuse(topic_partition, error)
                    continue
                yield log

    def _refuse(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Keeps one partition closed; the others serve."""
        name = partition_dir_name(topic_partition)
        if isinstance(error, DamagedLog):
            sizes = self._sizes_at_stop(name)
            if sizes is not None and name not in self.notes.sizes:
                self.notes.sizes[name] = dict(sizes)
            self.notes.add(name, error.damages, OFFLINE, now_ms=self.clock.now_ms())
        self.refused[topic_partition] = str(error)

    def create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        topic_id: bytes | None = None,
        is_synced_in_order: bool = False,
    ) -> PartitionLog:
        """Makes a new partition, or opens the one that is there; the topic id must agree."""
        if topic_partition in self.logs:
            raise StorageError(f"{topic_partition} is open already in {self.path}")
        name = partition_dir_name(topic_partition)
        directory = join(self.path, name)
        is_new = not self.fs.exists(directory)
        if is_new:
            self._check_not_lost(topic_partition, name)
        self.fs.make_dir(directory)
        if topic_id is not None:
            # Before the first batch: data must never be younger than the name it belongs to.
            self._check_topic_id(directory, topic_partition, topic_id, is_new=is_new)
        log = self._open(topic_partition, config, is_synced_in_order=is_synced_in_order)
        if is_new:
            self.fs.fsync_dir(directory)
            self.fs.fsync_dir(self.path)
        return log

    def _check_not_lost(self, topic_partition: TopicPartition, name: str) -> None:
        """A directory that the clean stop left behind is missing; after another stop, it may also
        have been deleted with its topic just before."""
        sizes = self._sizes_at_stop(name)
        directory = join(self.path, name)
        if sizes is not None and any(sizes.values()):
            lost = sum(sizes.values())
            damage = Damage(directory, 0, lost, "the directory is missing", is_gap=True)
            error = DamagedLog([damage])
            self._refuse(topic_partition, error)
            raise error
        synced = self.remembered.recovery_points.get(topic_partition, 0)
        if self._forget(topic_partition):
            # A crash kept its deletion from being written down: first that, then the new one.
            self.checkpoint()
            if synced and not self.remembered.clean:
                reason = (
                    f"the directory was missing, and offset {synced} had been synced: made anew"
                )
                damage = Damage(directory, 0, 0, reason)
                self.notes.add(name, [damage], TOLD, now_ms=self.clock.now_ms())

    def _sizes_at_stop(self, name: str) -> Mapping[int, int] | None:
        """Of the log files of one partition, if nobody has opened it since a clean stop."""
        stop = self.remembered.stop
        kept = self.notes.sizes.get(name)
        return kept if kept is not None or stop is None else stop.sizes.get(name)

    def _index_sizes_at_stop(self, name: str) -> Mapping[int, Sequence[int]] | None:
        stop = self.remembered.stop
        return None if stop is None else stop.indexes.get(name)

    def _check_topic_id(
        self, directory: str, tp: TopicPartition, topic_id: bytes, *, is_new: bool = False
    ) -> None:
        metadata = PartitionMetadata(self.fs, join(directory, PARTITION_METADATA))
        try:
            known = metadata.read()
        except CorruptFile as error:
            known = None
            _LOG.warning("partition.metadata is written anew partition=%s reason=%s", tp, error)
        else:
            if known is None and not is_new:
                _LOG.warning(
                    "partition.metadata is written anew partition=%s reason=%s is missing",
                    tp,
                    metadata.path,
                )
        if known is None:
            metadata.write(topic_id)
        elif known != topic_id:
            raise InconsistentTopicId(
                f"{metadata.path}: {tp} on disk belongs to topic {uuid_to_text(known)}, "
                f"not {uuid_to_text(topic_id)}"
            )

    def live_partitions(self) -> list[TopicPartition]:
        """By the names of the directories."""
        return [
            found.topic_partition
            for name in self.fs.list_dir(self.path)
            if (found := parse_partition_dir(name)) is not None
            and found.state is DirState.LIVE
            and self.fs.is_dir(join(self.path, name))
        ]

    def _directory_of(self, topic_partition: TopicPartition) -> str:
        return join(self.path, partition_dir_name(topic_partition))

    def topic_id_of(self, topic_partition: TopicPartition) -> bytes | None:
        """What the directory itself says; None where it does not."""
        path = join(self._directory_of(topic_partition), PARTITION_METADATA)
        try:
            return PartitionMetadata(self.fs, path).read()
        except CorruptFile:
            return None

    def reopen(self, topic_partition: TopicPartition, config: LogConfig) -> PartitionLog:
        """Opens a partition whose damage somebody has acknowledged: what cannot be read goes, what
        can be stays. Everything is looked at again."""
        name = partition_dir_name(topic_partition)
        log = self.logs.pop(topic_partition, None)
        for segment in log.segments if log is not None else ():
            segment.forget()
        repair(self.fs, join(self.path, name))
        self.notes.acknowledge(name, now_ms=self.clock.now_ms())
        self.refused.pop(topic_partition, None)
        self.remembered.recovery_points[topic_partition] = 0
        return self._open(topic_partition, config, is_repaired=True)

    def _open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        is_synced_in_order: bool = False,
        is_repaired: bool = False,
    ) -> PartitionLog:
        remembered = self.remembered
        name = partition_dir_name(topic_partition)
        is_noted = any(note.outcome != TOLD for note in self.notes.open_notes(name))
        sizes = None if is_repaired else self._sizes_at_stop(name)
        # Nobody has opened it since it was found damaged: it is looked at from the beginning.
        synced = (
            INT64_MAX if sizes is not None else remembered.recovery_points.get(topic_partition, 0)
        )
        is_thorough = is_noted or is_repaired
        log, recovery = open_log(
            OpenLog(
                fs=self.fs,
                clock=self.clock,
                dice=self.dice,
                directory=join(self.path, name),
                topic_partition=topic_partition,
                config=config,
                clean=remembered.clean and not is_thorough,
                recovery_point=synced
                if is_thorough
                else self._recovery_point(topic_partition, name),
                log_start_offset=self._log_start(topic_partition, name),
                high_watermark=remembered.high_watermarks.get(topic_partition, 0),
                codecs=self.codecs,
                may_have_lost_power=remembered.may_have_lost_power or is_repaired,
                is_synced_in_order=is_synced_in_order,
                is_only_replica=self.is_only_replica,
                may_have_gaps=self._may_have_gaps(topic_partition, config, name),
                is_thorough=is_thorough,
                sizes_at_stop=sizes,
                index_sizes_at_stop=self._index_sizes_at_stop(name),
                accepted_gaps=self.notes.accepted_gaps(name),
            )
        )
        if is_noted:
            self.notes.resolve(name)
        if recovery.losses:
            self.notes.add(name, recovery.losses, CUT, now_ms=self.clock.now_ms())
        log.on_damage = self._found_damage
        self._stop_is_past(name)
        self.logs[topic_partition] = log
        self.recoveries[topic_partition] = recovery
        # A log that ends below what is remembered of it, as after a truncation cut short, grows
        # anew from there. Unless that is written down, the next start would take what is appended
        # now for durable, or for replicated.
        if log.log_end_offset < remembered.recovery_points.get(topic_partition, 0) or is_repaired:
            self.checkpoint_recovery_points()
        if log.log_end_offset < remembered.high_watermarks.get(topic_partition, 0):
            self.checkpoint_high_watermarks()
        return log

    def _recovery_point(self, topic_partition: TopicPartition, name: str) -> int:
        """A clean stop knows it twice: there, it is the log's end."""
        checkpointed = self.remembered.recovery_points.get(topic_partition, 0)
        stop = self.remembered.stop
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

    def _stop_is_past(self, name: str) -> None:
        """From here on the partition changes: what the clean stop knew of it is history."""
        stop = self.remembered.stop
        if stop is not None:
            stop.sizes.pop(name, None)
            stop.starts.pop(name, None)
            stop.ends.pop(name, None)
            stop.indexes.pop(name, None)

    def _found_damage(self, log: PartitionLog, damages: Sequence[Damage]) -> None:
        name = partition_dir_name(log.topic_partition)
        self.notes.add(name, damages, READ_ONLY, now_ms=self.clock.now_ms())

    def _log_start(self, topic_partition: TopicPartition, name: str) -> int:
        """A clean stop knows it twice."""
        checkpointed = self.remembered.log_start_offsets.get(topic_partition, 0)
        stop = self.remembered.stop
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

    def _may_have_gaps(self, topic_partition: TopicPartition, config: LogConfig, name: str) -> bool:
        """Compaction and replication leave holes; the policy may have changed since."""
        if not self.is_only_replica or config.compacts or self.notes.has_gaps(name):
            return True
        if self.fs.exists(join(self._directory_of(topic_partition), CLEANING_HISTORY)):
            return True
        if self._cleaned is None:
            path = join(self.path, CLEANER_OFFSET_CHECKPOINT)
            try:
                self._cleaned = OffsetCheckpoint(self.fs, path).read()
            except CorruptFile:
                return True
        return topic_partition in self._cleaned

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
            delay_ms = 0 if log is None else log.config.file_delete_delay_ms
            due_ms = self.clock.now_ms() + delay_ms
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

    def _rename_aside(self, topic_partition: TopicPartition, aside: str) -> PartitionLog | None:
        name = partition_dir_name(topic_partition)
        log = self.logs.pop(topic_partition, None)
        for segment in log.segments if log is not None else ():
            segment.forget()
        self.fs.rename(join(self.path, name), join(self.path, aside))
        self._forget(topic_partition)
        self.notes.forget(name)
        return log

    def _renamed_aside(self) -> None:
        # The names first: a checkpoint without them would have a directory begin anew.
        self.fs.fsync_dir(self.path)
        self.checkpoint()

    def _forget(self, topic_partition: TopicPartition) -> bool:
        """The name may come back: it must not inherit what is remembered of a deleted log."""
        remembered = self.remembered
        self._stop_is_past(partition_dir_name(topic_partition))
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
        self._lower_recovery_point(log, offset)
        truncated = truncate_to(log, offset)
        if truncated:
            self._checkpoint_truncation(log)
        return truncated

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        log = self.logs[topic_partition]
        self._announce_truncation(log, log.log_start_offset)
        self._lower_recovery_point(log, 0)
        truncate_fully_and_start_at(log, offset)
        self._checkpoint_truncation(log)

    def _announce_truncation(self, log: PartitionLog, offset: int) -> None:
        if self.before_truncation is not None and offset < log.log_end_offset:
            self.before_truncation(log, offset)

    def _lower_recovery_point(self, log: PartitionLog, offset: int) -> None:
        """Before anything is cut. Crash here: what was synced is checked once more; but a log that
        ends below its recovery point would be taken for a damaged one."""
        if offset < log.recovery_point:
            log.recovery_point = offset
            try:
                self.checkpoint_recovery_points()
            except OSError as error:
                raise LogStorageError(
                    f"{log.topic_partition}: truncation was not begun: {error}"
                ) from error

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
        if not self.fs.exists(join(self.path, LOG_START_OFFSET_CHECKPOINT)):
            # Without it, the next start would take it for lost.
            self.checkpoint_log_start_offsets()
        points = {tp: log.recovery_point for tp, log in self.logs.items()}
        self._write(RECOVERY_POINT_CHECKPOINT, points, self.remembered.recovery_points)

    def checkpoint_log_start_offsets(self) -> None:
        """Only where the start lies inside a segment; otherwise the first file's name says it."""
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
            content = marker.content(broker_epoch)
            write_clean_stop(
                self.fs, join(self.path, SIZES_AT_STOP), self._clean_stop(), marker=content
            )
            marker.write(broker_epoch)
        self.lock.release()

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

    def _is_clean(self) -> bool:
        """Whether nothing in the directory needs recovery. A log that was never opened does,
        unless the stop before this one was clean."""
        if any(log.failure is not None for log in self.logs.values()):
            return False
        found = [parse_partition_dir(name) for name in self.fs.list_dir(self.path)]
        live = [name.topic_partition for name in found if name and name.state is DirState.LIVE]
        return self.remembered.clean or all(tp in self.logs for tp in live)


def _has_moved(log: PartitionLog) -> bool:
    """The log starts inside of a segment; otherwise the first file's name says where."""
    return not len(log.segments) or log.log_start_offset > log.segments.first.base_offset


def open_log_dir(
    fs: Filesystem,
    clock: Clock,
    dice: Dice,
    path: str,
    *,
    node_id: int = 1,
    cluster_id: str | None = None,
    boot_id: str | None = None,
    is_only_replica: bool = False,
) -> LogDir:
    """Takes the directory, formatting it where it is new. The logs in it are opened by `load`.

    `boot_id` is the machine's, and another one after each time it lost its power."""
    _make_durable_dir(fs, path)
    lock = fs.lock(join(path, LOCK_FILE))
    try:
        _unlink_temporary(fs, path)
        meta = _settle_meta(fs, dice, path, node_id, cluster_id)
        may_have_lost_power = _settle_last_start(fs, path, meta, boot_id)
        notes = DamageNotes.load(fs, join(path, DAMAGE_NOTES), now_ms=clock.now_ms())
        marker = CleanShutdownFile(fs, join(path, CLEAN_SHUTDOWN_FILE))
        clean = marker.exists()
        stop = take_clean_stop(fs, join(path, SIZES_AT_STOP), marker=marker.read())
        # At once: a start that crashes half way was not a clean stop.
        marker.remove()
        remembered = Remembered(
            clean=clean,
            recovery_points=_read_offsets(fs, path, RECOVERY_POINT_CHECKPOINT),
            log_start_offsets=_read_log_starts(fs, path, notes, stop, now_ms=clock.now_ms()),
            high_watermarks=_read_offsets(fs, path, HIGH_WATERMARK_CHECKPOINT),
            stop=stop,
            may_have_lost_power=may_have_lost_power,
        )
    except BaseException:
        lock.release()
        raise
    return LogDir(
        fs=fs,
        clock=clock,
        dice=dice,
        path=path,
        meta=meta,
        lock=lock,
        remembered=remembered,
        notes=notes,
        is_only_replica=is_only_replica,
    )


def _settle_last_start(
    fs: Filesystem, path: str, meta: MetaProperties, boot_id: str | None
) -> bool:
    """Whether the machine may have lost its power since the last start, which wrote this file. It
    also knows the cluster's id, for the case that `meta.properties` is lost or damaged."""
    if boot_id is None:
        return True
    written = join(path, LAST_START)
    before = _read_last_start(fs, path)
    directory_id = "" if meta.directory_id is None else uuid_to_text(meta.directory_id)
    now = {
        "boot.id": boot_id,
        "cluster.id": meta.cluster_id or "",
        "directory.id": directory_id,
    }
    for key in ("cluster.id", "directory.id"):
        if before.get(key, now[key]) != now[key]:
            raise StorageError(
                f"{join(path, META_PROPERTIES)} says {key}={now[key]}, but the last start, in "
                f"{written}, knew {before[key]}: one of the two files is damaged. Mend the first, "
                "or remove the second if the first is right. Nothing was changed"
            )
    if before != now:
        write_atomically(fs, written, format_properties(now))
    return before.get("boot.id") != boot_id


def _read_last_start(fs: Filesystem, path: str) -> dict[str, str]:
    data = read_if_exists(fs, join(path, LAST_START))
    if data is None:
        return {}
    try:
        found = dict(parse_properties(data))
        if found.keys() != {"boot.id", "cluster.id", "directory.id"}:
            raise ValueError(f"{data[:40]!r}")
    except ValueError as error:
        _LOG.warning("written anew file=%s reason=%s", join(path, LAST_START), error)
        return {}
    return found


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
        _check_never_used(fs, path, meta_path, node_id)
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


def _check_never_used(fs: Filesystem, path: str, meta_path: str, node_id: int) -> None:
    """A directory that holds partitions was formatted once: a new identity would hide that."""
    for name in fs.list_dir(path):
        found = parse_partition_dir(name)
        if found is None or found.state is not DirState.LIVE or not fs.is_dir(join(path, name)):
            continue
        cluster_id = _read_last_start(fs, path).get("cluster.id") or "..."
        raise StorageError(
            f"{meta_path} is missing, but {join(path, name)} is there: this directory belongs to a "
            f"cluster. Restore the file from a backup, or write it anew with the lines "
            f"'version=1', 'node.id={node_id}' and 'cluster.id={cluster_id}'; the cluster's id is "
            f"also in earlier log lines ('log directory opened') and in what clients were told. "
            f"Nothing was changed."
        )


def _read_offsets(fs: Filesystem, path: str, name: str) -> dict[TopicPartition, int]:
    """A broken file is read as if nothing were known: recovery then starts from the beginning."""
    try:
        if _is_missing(fs, path, name):
            raise CorruptFile(join(path, name), 0, "the file is missing or empty")
        return OffsetCheckpoint(fs, join(path, name)).read()
    except CorruptFile as error:
        _LOG.warning("checkpoint is not used, it is written anew reason=%s", error)
        return {}


def _is_missing(fs: Filesystem, path: str, name: str) -> bool:
    """They are written together, and never empty."""
    written = [
        each
        for each in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
        if fs.exists(join(path, each)) and fs.size_of(join(path, each))
    ]
    return bool(written) and name not in written and name != HIGH_WATERMARK_CHECKPOINT


def _read_log_starts(
    fs: Filesystem, path: str, notes: DamageNotes, stop: CleanStop | None, *, now_ms: int
) -> dict[TopicPartition, int]:
    """Without them, records that somebody has deleted would be readable again."""
    checkpoint = OffsetCheckpoint(fs, join(path, LOG_START_OFFSET_CHECKPOINT))
    reason = "the file is missing or empty"
    try:
        if not _is_missing(fs, path, LOG_START_OFFSET_CHECKPOINT):
            return checkpoint.read()
    except CorruptFile as error:
        reason = f"line {error.position}: {error.reason}"
    if stop is None:
        reason += "; records below a log start that was moved may be readable again"
        notes.add("", [Damage(checkpoint.path, 0, 0, reason)], TOLD, now_ms=now_ms)
    else:
        _LOG.warning("checkpoint is written anew file=%s reason=%s", checkpoint.path, reason)
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
