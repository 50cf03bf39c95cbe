"""All log directories of a broker: which one holds a partition, and where a new one goes. Grade D.

Each directory is a `LogDir` of its own, with its lock, identity, checkpoints and damage notes. The
metadata log lies in one of them, or in a directory of its own that takes no partitions.

A failed write or fsync takes a whole directory offline, as in Kafka: `failed` notes it at once, and
the layer above acts on `take_failures`. A single directory of a single node is never taken offline:
there is no other replica and no other directory, so partitions refuse writes one by one instead.
"""

import errno
import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import StorageError
from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.damage_notes import DamageNotes, Note
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.filenames import (
    delete_dir_name,
    partition_dir_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dir import FILES_AT_ONCE, LogDir
from ledgerstone.storage.log_dir_partitions import LogDirPartitions
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import random_uuid

_LOG: Final = logging.getLogger(__name__)
METADATA_TOPIC: Final = "__cluster_metadata"
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
# The process ran out of something: no directory is to blame, and another one would not help.
_NOT_THE_DISK: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)
# A read that fails with anything else has found a file gone, which concerns one log.
_DISK_GONE: Final = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.EROFS, errno.ESTALE)


class OfflineDir(NamedTuple):
    path: str
    # None if its meta.properties could not be read.
    directory_id: bytes | None
    reason: str


@dataclass(slots=True, kw_only=True)
class LogDirs:
    """`online` has the directories that take partitions, in the order of log.dirs."""

    metadata: LogDir
    online: list[LogDir]
    offline: list[OfflineDir] = field(default_factory=list)
    # False for a single node with one directory: see the module's docstring.
    may_fail: bool = False
    # In a cluster, other replicas take over from a full disk; a single node waits for room.
    fails_when_full: bool = False
    _failures: dict[str, str] = field(default_factory=dict)

    @classmethod
    def single(cls, log_dir: LogDir) -> "LogDirs":
        return cls(metadata=log_dir, online=[log_dir])

    def listen_to_failures(self) -> None:
        """Once all directories are known. Without it, logs fail one by one."""
        for log_dir in self.everything if self.may_fail else ():
            log_dir.on_failure = self.io_error

    # -- what is there ------------------------------------------------------------------------

    @property
    def fs(self) -> Filesystem:
        return self.metadata.fs

    @property
    def clock(self) -> Clock:
        return self.metadata.clock

    @property
    def dice(self) -> Dice:
        return self.metadata.dice

    @property
    def everything(self) -> list[LogDir]:
        """Also the directory of the metadata log, where it is not one of log.dirs."""
        is_shared = any(each is self.metadata for each in self.online)
        return list(self.online) if is_shared else [*self.online, self.metadata]

    @property
    def offline_ids(self) -> list[bytes]:
        return [each.directory_id for each in self.offline if each.directory_id is not None]

    @property
    def online_ids(self) -> list[bytes]:
        ids = [each.meta.directory_id for each in self.online]
        return [each for each in ids if each is not None]

    def with_id(self, directory_id: bytes) -> LogDir | None:
        """The online directory of this id."""
        for each in self.online:
            if each.meta.directory_id == directory_id:
                return each
        return None

    def at(self, path: str) -> LogDir | None:
        """The online directory of this path."""
        wanted = path.rstrip("/")
        for each in self.online:
            if each.path.rstrip("/") == wanted:
                return each
        return None

    def of(self, topic_partition: TopicPartition) -> LogDir | None:
        """The directory in which a partition's log is open."""
        for each in self.online:
            if topic_partition in each.logs:
                return each
        return None

    def log(self, topic_partition: TopicPartition) -> PartitionLog | None:
        log_dir = self.of(topic_partition)
        return None if log_dir is None else log_dir.logs[topic_partition]

    def logs(self) -> Iterator[PartitionLog]:
        """Of partitions, without the metadata log."""
        for each in self.online:
            yield from (log for tp, log in each.logs.items() if tp.topic != METADATA_TOPIC)

    @property
    def doomed(self) -> dict[str, int]:
        """Directories renamed for deletion, and when they may be removed."""
        return {path: due for each in self.everything for path, due in each.doomed.items()}

    def refused(self, topic_partition: TopicPartition) -> str | None:
        """Why a partition that is on disk was not opened."""
        for each in self.online:
            if topic_partition in each.refused:
                return each.refused[topic_partition]
        return None

    def least_used(self) -> LogDir:
        """Where a new replica goes: the directory with the fewest partitions, as in Kafka; the
        earlier one in log.dirs among equals."""
        return min(self.online, key=_partition_count)

    # -- damage -------------------------------------------------------------------------------

    def open_notes(self, partition: str | None = None) -> list[Note]:
        return [
            note
            for notes in self.all_notes()
            for note in (notes.open_notes() if partition is None else notes.open_notes(partition))
        ]

    def all_notes(self) -> list[DamageNotes]:
        return [each.notes for each in self.everything]

    # -- checkpoints, truncation, unlinking -----------------------------------------------------

    def checkpoint_recovery_points(self) -> None:
        self._in_each(LogDir.checkpoint_recovery_points)

    def checkpoint_log_start_offsets(self) -> None:
        self._in_each(LogDir.checkpoint_log_start_offsets)

    def checkpoint_high_watermarks(self) -> None:
        self._in_each(LogDir.checkpoint_high_watermarks)

    def _in_each(self, run: Callable[[LogDir], None]) -> None:
        """A directory that refuses does not keep the others; its error is raised at the end."""
        refusal: OSError | None = None
        for each in self.everything:
            try:
                run(each)
            except OSError as error:
                refusal = error
                self.io_error(each, error)
        if refusal is not None:
            raise refusal

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> bool:
        return self._holding(topic_partition).truncate_to(topic_partition, offset)

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        self._holding(topic_partition).truncate_fully_and_start_at(topic_partition, offset)

    def noting(self, topic_partition: TopicPartition) -> LogDir:
        """The directory that has a partition open, or notes of why it is not."""
        holder = self.of(topic_partition)
        name = partition_dir_name(topic_partition)
        for each in (holder,) if holder is not None else self.online:
            if holder is not None or topic_partition in each.refused or each.notes.open_notes(name):
                return each
        return self.online[0]

    def _holding(self, topic_partition: TopicPartition) -> LogDir:
        log_dir = self.of(topic_partition)
        if log_dir is None:
            raise StorageError(f"{topic_partition} is not open in any log directory")
        return log_dir

    def listen_to_truncations(self, listener: Callable[[PartitionLog, int], None]) -> None:
        for each in self.everything:
            each.before_truncation = listener

    def plan_unlink(self) -> UnlinkPlan | None:
        """As `LogDir.plan_unlink`, of all directories; one plan at a time."""
        plans = [plan for each in self.everything if (plan := each.plan_unlink()) is not None]
        if len(plans) < 2:
            return plans[0] if plans else None
        files = [path for plan in plans for path in plan.files]
        return UnlinkPlan(
            files=tuple(files[:FILES_AT_ONCE]),
            directories=tuple(path for plan in plans for path in plan.directories),
            is_part=len(files) > FILES_AT_ONCE or any(plan.is_part for plan in plans),
        )

    def unlink_done(self, gone: tuple[str, ...]) -> None:
        for each in self.everything:
            each.unlink_done(gone)

    # -- several directories with the same partition --------------------------------------------

    def drop_duplicates(self, assigned: Callable[[TopicPartition], bytes | None]) -> None:
        """At start, before logs are opened. A crash in the middle of a move leaves a partition in
        two directories: the one that the metadata names is whole, the other one goes. Without such
        a name nothing is changed, and the partition stays closed."""
        found: dict[TopicPartition, list[LogDir]] = {}
        for log_dir in self.online if len(self.online) > 1 else ():
            for topic_partition in log_dir.live_partitions():
                found.setdefault(topic_partition, []).append(log_dir)
        for topic_partition, holders in found.items():
            if len(holders) < 2:
                continue
            directory_id = assigned(topic_partition)
            if any(each.meta.directory_id == directory_id for each in holders):
                for each in holders:
                    if each.meta.directory_id != directory_id:
                        self._drop(each, topic_partition, "replica was moved")
                continue
            paths = " and ".join(join(each.path, str(topic_partition)) for each in holders)
            reason = (
                f"Duplicate log directories for {topic_partition} are found in both {paths}, and "
                "the metadata names neither of them: delete one by hand"
            )
            for each in holders:
                each.refused[topic_partition] = reason

    def drop_stale(self, is_stale: Callable[[TopicPartition], bool]) -> None:
        """At start, before logs are opened: logs that must not be used again."""
        for log_dir in self.online:
            for topic_partition in log_dir.live_partitions():
                if topic_partition not in log_dir.logs and is_stale(topic_partition):
                    self._drop(log_dir, topic_partition, "replica was assigned anew")

    def _drop(self, log_dir: LogDir, topic_partition: TopicPartition, why: str) -> None:
        name = partition_dir_name(topic_partition)
        aside = delete_dir_name(topic_partition, random_uuid(self.dice).hex())
        _LOG.warning("%s, its old log goes path=%s", why, join(log_dir.path, name))
        log_dir.fs.rename(join(log_dir.path, name), join(log_dir.path, aside))
        log_dir.fs.fsync_dir(log_dir.path)
        log_dir.forget_closed(topic_partition)

    # -- failures -----------------------------------------------------------------------------

    def io_error(self, log_dir: LogDirPartitions, error: BaseException) -> None:
        """The disk refused something that concerns the whole directory."""
        cause = error if isinstance(error, OSError) else error.__cause__
        if not self.may_fail or (isinstance(cause, OSError) and cause.errno in _NOT_THE_DISK):
            return
        if self.fails_when_full or not is_full(error):
            self._failures.setdefault(log_dir.path, str(error))

    def creation_failed(self, error: BaseException) -> None:
        """A new partition could not be made: the directory it was meant for refuses names."""
        if isinstance(error, OSError) and error.filename is not None:
            for each in self.online:
                if str(error.filename).startswith(each.path.rstrip("/") + "/"):
                    self.io_error(each, error)

    def partition_error(self, topic_partition: TopicPartition, error: BaseException) -> None:
        """A read of a partition failed; nothing happens unless the disk is to blame. Failed writes
        are told by the log itself."""
        cause = error if isinstance(error, OSError) else error.__cause__
        log_dir = self.of(topic_partition) if self.may_fail else None
        is_disk = isinstance(cause, OSError) and cause.errno in _DISK_GONE
        if log_dir is not None and cause is not None and is_disk:
            self.io_error(log_dir, cause)

    @property
    def has_failures(self) -> bool:
        return bool(self._failures)

    def take_failures(self) -> list[tuple[LogDir, str]]:
        """Directories that failed since the last call, each with the reason. They are offline from
        here on; their logs are closed without another write."""
        failures, self._failures = self._failures, {}
        taken: list[tuple[LogDir, str]] = []
        for log_dir in self.everything:
            reason = failures.get(log_dir.path)
            if reason is None:
                continue
            taken.append((log_dir, reason))
            self.offline.append(OfflineDir(log_dir.path, log_dir.meta.directory_id, reason))
            self.online = [each for each in self.online if each is not log_dir]
        return taken

    # -- stop ---------------------------------------------------------------------------------

    @property
    def stopped_cleanly(self) -> bool:
        """Whether every directory was closed cleanly before this start."""
        return not self.offline and all(each.remembered.clean for each in self.everything)

    @property
    def previous_broker_epoch(self) -> int:
        """Of the last clean stop; -1 unless all directories are online and agree."""
        epochs = {each.remembered.broker_epoch for each in self.everything}
        return epochs.pop() if len(epochs) == 1 and not self.offline else -1

    def close(self, *, broker_epoch: int = -1) -> None:
        """A clean stop. One directory that cannot be closed does not keep the others; the metadata
        log goes last."""
        failure: BaseException | None = None
        for each in sorted(self.everything, key=lambda each: each is self.metadata):
            try:
                each.close(broker_epoch=broker_epoch)
            except (OSError, StorageError) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def release(self) -> None:
        for each in self.everything:
            each.lock.release()


def _partition_count(log_dir: LogDir) -> int:
    hosted = sum(tp.topic != METADATA_TOPIC for tp in log_dir.logs)
    return hosted + len(log_dir.futures)


def is_full(error: BaseException) -> bool:
    """Whether there was no room, which may come back."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno in _NO_ROOM
