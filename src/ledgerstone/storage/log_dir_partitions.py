"""The partitions of a log directory: found, made and opened. Grade D.

Opens every log with its checkpoints. A partition that cannot be opened stays closed, and the others
serve. Damage goes to the notes; README.md, "Damage".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import (
    CorruptFile,
    Damage,
    DamagedLog,
    InconsistentTopicId,
    KafkaError,
    StorageError,
)
from ledgerstone.fs import Filesystem, join
from ledgerstone.records.compression import Codecs
from ledgerstone.storage.checkpoints import OffsetCheckpoint, write_atomically
from ledgerstone.storage.damage_notes import CUT, OFFLINE, READ_ONLY, TOLD, DamageNotes
from ledgerstone.storage.damage_repair import repair
from ledgerstone.storage.filenames import (
    CLEANER_OFFSET_CHECKPOINT,
    CLEANING_HISTORY,
    LAST_START,
    REMOTE_LOG_INDEX_CACHE,
    SECURE,
    DirState,
    PartitionDir,
    parse_partition_dir,
    partition_dir_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir_checkpoints import CheckpointedLogs
from ledgerstone.storage.log_dir_identity import read_topic_id, settle_topic_id
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.storage.log_recovery import Recovery
from ledgerstone.storage.producer_state import DEFAULT_PRODUCER_EXPIRATION_MS
from ledgerstone.types import INT64_MAX, TopicPartition

ConfigFor = Callable[[TopicPartition], LogConfig]
# The id of the topic a partition belongs to; None if the topic is unknown.
TopicIdFor = Callable[[TopicPartition], bytes | None]
# Errors that keep one partition closed without affecting the others.
NOT_OPENED: Final = (OSError, StorageError, KafkaError)


@dataclass(slots=True, kw_only=True)
class LogDirPartitions(CheckpointedLogs):
    """Open, refused, unknown or doomed: every partition of one log directory."""

    clock: Clock
    dice: Dice
    notes: DamageNotes
    # Partitions that could not be opened, and why; and those of unknown topics.
    refused: dict[TopicPartition, str] = field(default_factory=dict)
    unknown: list[TopicPartition] = field(default_factory=list)
    recoveries: dict[TopicPartition, Recovery] = field(default_factory=dict)
    # Directories renamed for deletion, and when they may be removed.
    doomed: dict[str, int] = field(default_factory=dict)
    # The longest that any of them was to wait.
    doom_delay_ms: int = 0
    # Copies that are being made here of partitions in other directories, by their names.
    futures: dict[TopicPartition, str] = field(default_factory=dict)
    # Called when the disk refuses a write of one of the logs.
    on_failure: Callable[["LogDirPartitions", BaseException], None] | None = field(
        default=None, repr=False
    )
    codecs: Codecs = field(default_factory=Codecs, repr=False)
    # No log here was copied from another broker, so only compaction leaves holes.
    is_only_replica: bool = False
    # producer.id.expiration.ms: those that were silent for longer are not loaded.
    producer_id_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS
    # For `last-start`, once the logs were opened.
    unwritten_start: bytes | None = None
    # The cleaner's checkpoint at start, read on demand.
    _cleaned: dict[TopicPartition, int] | None = field(default=None, repr=False)

    def doom(self, directory: str, delay_ms: int) -> None:
        """It was renamed for deletion, and goes after the delay."""
        self.doom_delay_ms = max(self.doom_delay_ms, delay_ms)
        self.doomed[directory] = self.clock.now_ms() + delay_ms

    def load(
        self, config_for: ConfigFor, topic_id_for: TopicIdFor | None = None
    ) -> Iterator[PartitionLog]:
        """Opens every partition found, one by one, so that a shell can show progress.

        Partitions that cannot be opened end up in `refused`. With `topic_id_for`, those of no known
        topic end up in `unknown` and stay closed. Those that have another id than the topic of
        their name are in both."""
        for name, found in _partition_dirs(self.fs, self.path):
            topic_partition = found.topic_partition
            if found.state is DirState.DELETE:
                self.doomed[join(self.path, name)] = self.clock.now_ms()
            elif found.state is DirState.FUTURE:
                self.futures[topic_partition] = name
            elif (
                found.state is DirState.LIVE
                and topic_partition not in self.logs
                and topic_partition not in self.refused
            ):
                topic_id = None if topic_id_for is None else topic_id_for(topic_partition)
                if topic_id_for is not None and topic_id is None:
                    self.unknown.append(topic_partition)
                    continue
                try:
                    if topic_id is not None:
                        settle_topic_id(self.fs, join(self.path, name), topic_partition, topic_id)
                    log = self._open(topic_partition, config_for(topic_partition))
                except InconsistentTopicId as error:
                    self._refuse(topic_partition, error)
                    self.unknown.append(topic_partition)
                    continue
                except NOT_OPENED as error:
                    self._refuse(topic_partition, error)
                    continue
                yield log
        self.note_start()

    def note_start(self) -> None:
        """Every log has been looked at. Not sooner: a node of a cluster may start and stop several
        times before it opens its logs, and must not forget that power was lost before."""
        if self.unwritten_start is not None:
            # What was lost with the power must not look as if it had been lost since.
            self.checkpoint_high_watermarks()
            write_atomically(self.fs, join(self.path, LAST_START), self.unwritten_start)
            self.unwritten_start = None

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
        """Makes a new partition, or opens the existing one; the topic id must match. Its names are
        synced before the caller sees it. Crash before: a directory without a topic id has no record
        yet, and gets its id again."""
        if topic_partition in self.logs:
            raise StorageError(f"{topic_partition} is already open in {self.path}")
        name = partition_dir_name(topic_partition)
        directory = join(self.path, name)
        is_new = not self.fs.exists(directory)
        is_empty = False
        if is_new:
            self._check_not_lost(topic_partition, name)
        self.fs.make_dir(directory)
        if topic_id is not None:
            # Before the first batch: data must never exist without its topic id.
            # A format leaves a directory with voters and no data yet.
            is_empty = not any(each.endswith(".log") for each in self.fs.list_dir(directory))
            settle_topic_id(self.fs, directory, topic_partition, topic_id, is_new=is_empty)
        log = self._open(topic_partition, config, is_synced_in_order=is_synced_in_order)
        if is_new or is_empty:
            self.fs.fsync_dir(directory)
        if is_new:
            self.fs.fsync_dir(self.path)
        return log

    def _check_not_lost(self, topic_partition: TopicPartition, name: str) -> None:
        """Refuses if a directory from the clean stop is missing. After an unclean stop it
        may have been deleted with its topic just before."""
        sizes = self._sizes_at_stop(name)
        directory = join(self.path, name)
        if sizes is not None and any(sizes.values()):
            lost = sum(sizes.values())
            damage = Damage(directory, 0, lost, "the directory is missing", is_gap=True)
            error = DamagedLog([damage])
            self._refuse(topic_partition, error)
            raise error
        synced = self.remembered.recovery_points.get(topic_partition, 0)
        if self.remembered.forget(topic_partition):
            # A crash kept its deletion from being recorded: record it first, then create.
            self.checkpoint()
            if synced and not self.remembered.clean:
                reason = (
                    f"the directory was missing, and offset {synced} had been synced: created empty"
                )
                damage = Damage(directory, 0, 0, reason)
                self.notes.add(name, [damage], TOLD, now_ms=self.clock.now_ms())

    def _sizes_at_stop(self, name: str) -> Mapping[int, int] | None:
        """Sizes of a partition's log files, if it was not opened since a clean stop."""
        kept = self.notes.sizes.get(name)
        return kept if kept is not None else self.remembered.sizes_at_stop(name)

    def reopen(self, topic_partition: TopicPartition, config: LogConfig) -> PartitionLog:
        """Opens a partition whose damage was acknowledged: unreadable parts are dropped, the rest
        stays. Everything is checked again."""
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
        # Not opened since it was found damaged: check it from the beginning.
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
                else remembered.recovery_point(topic_partition),
                log_start_offset=remembered.log_start_offset(topic_partition),
                high_watermark=remembered.high_watermarks.get(topic_partition, 0),
                codecs=self.codecs,
                may_have_lost_power=remembered.may_have_lost_power or is_repaired,
                is_synced_in_order=is_synced_in_order,
                is_only_replica=self.is_only_replica,
                may_have_gaps=self._may_have_gaps(topic_partition, config, name),
                is_thorough=is_thorough,
                sizes_at_stop=sizes,
                index_sizes_at_stop=remembered.index_sizes_at_stop(name),
                accepted_gaps=self.notes.accepted_gaps(name),
                producer_id_expiration_ms=self.producer_id_expiration_ms,
            )
        )
        if is_noted:
            self.notes.resolve(name)
        if recovery.losses:
            self.notes.add(name, recovery.losses, CUT, now_ms=self.clock.now_ms())
        log.on_damage = self._found_damage
        log.on_disk_error = self._disk_refused
        remembered.stop_is_past(name)
        self.logs[topic_partition] = log
        self.recoveries[topic_partition] = recovery
        # A log that ends below its checkpoint, as after an interrupted truncation, grows again from
        # there. The checkpoint must be lowered, or the next start would take new records for
        # durable, or for replicated.
        if log.log_end_offset < remembered.recovery_points.get(topic_partition, 0) or is_repaired:
            self.checkpoint_recovery_points()
        if log.log_end_offset < remembered.high_watermarks.get(topic_partition, 0):
            self.checkpoint_high_watermarks()
        return log

    def take_over(self, log: PartitionLog) -> None:
        """A log that was moved here from another directory."""
        tp = log.topic_partition
        log.on_damage = self._found_damage
        log.on_disk_error = self._disk_refused
        self.logs[tp] = log
        self.refused.pop(tp, None)

    def _disk_refused(self, error: BaseException) -> None:
        if self.on_failure is not None:
            self.on_failure(self, error)

    def _found_damage(self, log: PartitionLog, damages: Sequence[Damage]) -> None:
        name = partition_dir_name(log.topic_partition)
        self.notes.add(name, damages, READ_ONLY, now_ms=self.clock.now_ms())

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

    def live_partitions(self) -> list[TopicPartition]:
        """According to the names of the directories."""
        return [
            found.topic_partition
            for name in self.fs.list_dir(self.path)
            if (found := parse_partition_dir(name)) is not None
            and found.state is DirState.LIVE
            and self.fs.is_dir(join(self.path, name))
        ]

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is here, open or not."""
        return (
            topic_partition in self.logs
            or topic_partition in self.refused
            or self.fs.exists(self._directory_of(topic_partition))
        )

    def topic_id_of(self, topic_partition: TopicPartition) -> bytes | None:
        """The topic id in the directory itself; None if it has none."""
        return read_topic_id(self.fs, self._directory_of(topic_partition))

    def _directory_of(self, topic_partition: TopicPartition) -> str:
        return join(self.path, partition_dir_name(topic_partition))


def _partition_dirs(fs: Filesystem, path: str) -> Iterator[tuple[str, PartitionDir]]:
    for name in fs.list_dir(path):
        if name in (REMOTE_LOG_INDEX_CACHE, SECURE) or not fs.is_dir(join(path, name)):
            continue
        found = parse_partition_dir(name)
        if found is None:
            raise StorageError(
                f"{join(path, name)} is not a partition's directory (<topic>-<number>); "
                "move it away: a log directory must hold nothing else"
            )
        yield name, found
