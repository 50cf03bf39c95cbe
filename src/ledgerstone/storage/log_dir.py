"""One log directory: open, delete, truncate, close. Grade D.

Owns the lock, deletes and truncates partitions, and stops cleanly. `log_dir_identity` knows which
cluster it belongs to, `log_dir_remembered` reads the checkpoints at start, `log_dir_partitions`
opens the logs, `log_dir_checkpoints` writes the checkpoints. README.md, "The log directory", lists
the files and the order of start and stop. An I/O error in one log takes the whole directory
offline; the layer above reacts.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import LogStorageError
from ledgerstone.fs import FileLock, Filesystem, join, parent_of
from ledgerstone.storage.damage_notes import DamageNotes
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    DAMAGE_NOTES,
    HIGH_WATERMARK_CHECKPOINT,
    LAST_START,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    SIZES_AT_STOP,
    TMP,
    delete_dir_name,
    partition_dir_name,
    stray_dir_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir_files import MetaProperties
from ledgerstone.storage.log_dir_identity import check_last_start, settle_meta
from ledgerstone.storage.log_dir_partitions import NOT_OPENED, LogDirPartitions
from ledgerstone.storage.log_dir_remembered import take_remembered
from ledgerstone.storage.log_shrink import truncate_fully_and_start_at, truncate_to
from ledgerstone.storage.producer_state import DEFAULT_PRODUCER_EXPIRATION_MS
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import random_uuid

# Directories in one unlink plan; each has about half a dozen files.
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


@dataclass(slots=True, kw_only=True)
class LogDir(LogDirPartitions):
    """Made by `open_log_dir`; `close` stops it cleanly."""

    meta: MetaProperties
    lock: FileLock
    # Called before a log is cut at an offset. Listeners drop what they know of offsets above it, or
    # it would pass for knowledge of records written there later.
    before_truncation: Callable[[PartitionLog, int], None] | None = None

    # -- delete -------------------------------------------------------------------------------

    def delete(self, topic_partition: TopicPartition) -> None:
        """Renames the partition aside; its files go after file.delete.delay.ms."""
        for _, error in self.delete_all([topic_partition]):
            raise error

    def delete_all(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> list[tuple[TopicPartition, OSError]]:
        """As `delete`, with one sync and one checkpoint for all; returns the failures."""
        refused: list[tuple[TopicPartition, OSError]] = []
        for topic_partition in topic_partitions:
            aside = delete_dir_name(topic_partition, random_uuid(self.dice).hex())
            try:
                log = self._rename_aside(topic_partition, aside)
            except OSError as error:
                refused.append((topic_partition, error))
                continue
            # One that was refused may be refused because its directory is missing.
            if log is not None or self.fs.exists(join(self.path, aside)):
                delay_ms = 0 if log is None else log.config.file_delete_delay_ms
                self.doom(join(self.path, aside), delay_ms)
        if len(refused) < len(topic_partitions):
            try:
                self._renamed_aside()
            except OSError as error:
                refused.append((topic_partitions[-1], error))
        return refused

    def set_aside_stray(self, topic_partition: TopicPartition) -> None:
        """Renames a partition that belongs to no topic; its files stay for an operator.

        What an unclean stop has torn is cut first, as in every log that is opened: nobody opens
        this one later, and a scan for erased keys proves nothing of bytes that it cannot read."""
        if not self.remembered.clean:
            with suppress(*NOT_OPENED):
                # Synced, or the next loss of power tears it again. Damage stays as it is.
                self._open(topic_partition, LogConfig()).flush()
        aside = stray_dir_name(topic_partition, random_uuid(self.dice).hex())
        self._rename_aside(topic_partition, aside)
        self._renamed_aside()

    def _rename_aside(self, topic_partition: TopicPartition, aside: str) -> PartitionLog | None:
        name = partition_dir_name(topic_partition)
        log = self.logs.pop(topic_partition, None)
        for segment in log.segments if log is not None else ():
            segment.forget()
        if log is not None or self.fs.exists(join(self.path, name)):
            self.fs.rename(join(self.path, name), join(self.path, aside))
        self.refused.pop(topic_partition, None)
        self.remembered.forget(topic_partition)
        self.notes.forget(name)
        return log

    def _renamed_aside(self) -> None:
        # Rename first: with only the checkpoint gone, the directory would start over.
        self.fs.fsync_dir(self.path)
        self.checkpoint()

    def doom_future(self, topic_partition: TopicPartition) -> None:
        """Renames a copy that nobody wants any more; it goes at once."""
        name = self.futures.pop(topic_partition)
        aside = join(self.path, delete_dir_name(topic_partition, random_uuid(self.dice).hex()))
        self.fs.rename(join(self.path, name), aside)
        self.fs.fsync_dir(self.path)
        self.doomed[aside] = self.clock.now_ms()

    def forget_closed(self, topic_partition: TopicPartition) -> None:
        """The directory of a partition that is not open was renamed: drops all that is known of it,
        so that a new one of its name inherits nothing."""
        self.remembered.forget(topic_partition)
        self.notes.forget(partition_dir_name(topic_partition))
        self.checkpoint()

    def plan_unlink(self) -> UnlinkPlan | None:
        """Files and directories whose delay has passed; None if there are none.

        A limited number at a time, since a stop waits for the running plan."""
        now_ms = self.clock.now_ms()
        files = [
            path
            for log in self.logs.values()
            for path in log.deleted_files.due(now_ms, longest_ms=log.config.file_delete_delay_ms)
        ]
        for path, due_ms in self.doomed.items():
            # As for files: the clock may have been set back.
            self.doomed[path] = min(due_ms, now_ms + self.doom_delay_ms)
        directories = [path for path, due_ms in self.doomed.items() if due_ms <= now_ms]
        if not files and not directories:
            return None
        return UnlinkPlan(
            files=tuple(files[:FILES_AT_ONCE]),
            directories=tuple(directories[:DIRECTORIES_AT_ONCE]),
            is_part=len(files) > FILES_AT_ONCE or len(directories) > DIRECTORIES_AT_ONCE,
        )

    def unlink_done(self, gone: Sequence[str]) -> None:
        """The plan has run, perhaps only in part: forgets the files that are gone."""
        for log in self.logs.values():
            if len(log.deleted_files):
                log.deleted_files.forget(gone)
        for path in gone:
            self.doomed.pop(path, None)

    # -- truncate -----------------------------------------------------------------------------

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Cuts a log and lowers its recovery point on disk, before anything is appended again."""
        log = self.logs[topic_partition]
        self._announce_truncation(log, offset)
        self._lower_checkpoints(log, offset)
        truncated = truncate_to(log, offset)
        if truncated:
            self._checkpoint_truncation(log)
        return truncated

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        log = self.logs[topic_partition]
        self._announce_truncation(log, log.log_start_offset)
        self._lower_checkpoints(log, 0)
        truncate_fully_and_start_at(log, offset)
        self._checkpoint_truncation(log)

    def _announce_truncation(self, log: PartitionLog, offset: int) -> None:
        if self.before_truncation is None or offset >= log.log_end_offset:
            return
        try:
            self.before_truncation(log, offset)
        except OSError as error:
            raise _not_started(log, error) from error

    def _lower_checkpoints(self, log: PartitionLog, offset: int) -> None:
        """Done before the cut. Crash here: synced data is checked again. The other way round, a log
        that ends below its recovery point or its high watermark would look damaged."""
        before = log.recovery_point, log.high_watermark
        try:
            if offset < log.recovery_point:
                log.recovery_point = offset
                self.checkpoint_recovery_points()
            if offset < log.high_watermark:
                log.high_watermark = max(offset, log.log_start_offset)
                self.checkpoint_high_watermarks()
        except OSError as error:
            # The disk may say what it said, so the next attempt must write as well.
            log.recovery_point, log.high_watermark = before
            raise _not_started(log, error) from error

    def _checkpoint_truncation(self, log: PartitionLog) -> None:
        try:
            self.checkpoint()
        except OSError as error:
            log.fail(f"truncation was not recorded: {error}", error)
            raise LogStorageError(
                f"{log.topic_partition}: truncation was not recorded: {error}"
            ) from error

    # -- stop ---------------------------------------------------------------------------------

    def abandon(self) -> None:
        """The disk has failed: lets go of every file, and writes nothing more."""
        for log in self.logs.values():
            for segment in log.segments:
                segment.forget()
        self.logs.clear()
        self.lock.release()

    def close(self, *, broker_epoch: int = -1) -> None:
        """A clean stop. Crash here: no marker, and the next start recovers."""
        for log in self.logs.values():
            log.close()
        self.checkpoint()
        self._mark_clean_stop(broker_epoch)
        self.lock.release()


def _not_started(log: PartitionLog, error: OSError) -> LogStorageError:
    """Nothing is cut yet: there may be room the next time."""
    return LogStorageError(f"{log.topic_partition}: truncation was not started: {error}")


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
    producer_id_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS,
) -> LogDir:
    """Locks the directory, formatting it if it is new. `load` opens the logs in it.

    `boot_id` is the machine's; it changes with every boot."""
    make_durable_dir(fs, path)
    lock = fs.lock(join(path, LOCK_FILE))
    try:
        _unlink_temporary(fs, path)
        meta = settle_meta(fs, dice, path, node_id, cluster_id)
        start = check_last_start(fs, path, meta, boot_id)
        notes = DamageNotes.load(fs, join(path, DAMAGE_NOTES), now_ms=clock.now_ms())
        remembered = take_remembered(
            fs, path, notes, now_ms=clock.now_ms(), may_have_lost_power=start.may_have_lost_power
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
        producer_id_expiration_ms=producer_id_expiration_ms,
        unwritten_start=start.content,
    )


def make_durable_dir(fs: Filesystem, path: str) -> None:
    """If a directory's own name is lost, so is everything in it."""
    missing = []
    while not fs.exists(path):
        missing.append(path)
        path = parent_of(path)
    for directory in reversed(missing):
        fs.make_dir(directory)
        fs.fsync_dir(parent_of(directory))


def _unlink_temporary(fs: Filesystem, path: str) -> None:
    """New versions of files that a crash interrupted; the old versions are still there."""
    for name in fs.list_dir(path):
        if name.endswith(TMP) and name.removesuffix(TMP) in _REPLACED_AS_A_WHOLE:
            fs.unlink(join(path, name))
