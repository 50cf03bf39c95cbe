"""Moves replicas between the log directories of this broker: AlterReplicaLogDirs. Grade D.

One at a time, in the order of the requests, and in small steps, so that clients are served between
them. Cleaning and retention of the log wait meanwhile: their files are being copied.

    COPYING -> SYNCING -> (more was appended: COPYING) -> ASSIGNING -> switched over

The controller learns of the new directory before the switch, as in Kafka: it must not believe in a
directory that is about to fail, and at a crash in the middle its word says which log counts.
"""

import enum
import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import LogStorageError, StorageError
from ledgerstone.replication.directory_assignment import DirectoryAssignment
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server.effects import Effect, SyncCopy
from ledgerstone.storage.future_log import FutureLog, begin_future, drop_future
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.storage.log_move import switch_over
from ledgerstone.types import INT64_MAX, TopicPartition

_LOG: Final = logging.getLogger(__name__)
STEP_BYTES: Final = 512 * 1024
# How often a pass that was called off is looked at: its worker may still be reading.
_CLEANER_CHECK_MS: Final = 50
_REFUSED: Final = (OSError, StorageError, LogStorageError)


class PausesCleaning(Protocol):
    def pause(self, topic_partition: TopicPartition) -> list[Effect]: ...

    def resume(self, topic_partition: TopicPartition) -> None: ...

    def is_at_work(self, topic_partition: TopicPartition) -> bool:
        """Whether a worker still reads or writes the files of a paused log."""
        ...

    def moved(self, topic_partition: TopicPartition) -> None:
        """Its log lies in another directory now."""
        ...


class MoveState(enum.Enum):
    WAITING = "waiting"
    COPYING = "copying"
    SYNCING = "syncing"
    ASSIGNING = "assigning"


@dataclass(slots=True)
class DirectoryMove:
    partition: Partition
    source: LogDir
    future: FutureLog
    state: MoveState = MoveState.WAITING

    @property
    def topic_partition(self) -> TopicPartition:
        return self.partition.topic_partition

    @property
    def target(self) -> LogDir:
        return self.future.target


@dataclass(slots=True, kw_only=True)
class Moves:
    clock: Clock
    node_id: int
    log_dirs: LogDirs
    partitions: HostedPartitions
    cleaning: PausesCleaning
    # Tells the controller where a replica will be.
    assign: Callable[[TopicPartition, DirectoryAssignment], None]
    # The directory that the metadata names for a replica of this broker.
    assigned: Callable[[TopicPartition], bytes | None]
    # replica.alter.log.dirs.io.max.bytes.per.second
    rate: Callable[[], float] = lambda: float(INT64_MAX)
    # In the order of the requests; the first is under way.
    under_way: dict[TopicPartition, DirectoryMove] = field(default_factory=dict)
    _due_ms: int = 0
    # When the last piece was copied, and its bytes: what the pause after it follows from.
    _last_step: tuple[int, int] = (0, 0)

    def __iter__(self) -> Iterator[DirectoryMove]:
        return iter(self.under_way.values())

    # -- wishes -------------------------------------------------------------------------------

    def start(self, partition: Partition, target: LogDir, name: str | None = None) -> None:
        """OSError if the directory of the copy cannot be made. `name` is that of a copy which a
        start has found."""
        source = self.log_dirs.of(partition.topic_partition)
        assert source is not None
        assert source is not target
        future = begin_future(partition.log, target, name)
        self.under_way[partition.topic_partition] = DirectoryMove(partition, source, future)
        self.partitions.moving.add(partition.topic_partition)

    def call_off(self, topic_partition: TopicPartition) -> None:
        """The replica stays where it is, or is gone."""
        move = self.under_way.pop(topic_partition, None)
        if move is None:
            return
        try:
            drop_future(move.future)
        except OSError as error:
            self.log_dirs.io_error(move.target, error)
        self._end(move)
        self.partitions.recheck_directory(topic_partition)

    def _end(self, move: DirectoryMove) -> None:
        self.partitions.moving.discard(move.topic_partition)
        if move.state is not MoveState.WAITING:
            self.cleaning.resume(move.topic_partition)

    # -- time ---------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        for move in self.under_way.values():
            is_idle = move.state in (MoveState.SYNCING, MoveState.ASSIGNING)
            return None if is_idle and self._is_sound(move) else self._due_ms
        return None

    def tick(self) -> list[Effect]:
        now_ms = self.clock.monotonic_ms()
        for move in list(self.under_way.values()):
            if not self._is_sound(move):
                self.call_off(move.topic_partition)
                continue
            return [] if now_ms < self._due_ms else self._advance(move, now_ms)
        return []

    def _is_sound(self, move: DirectoryMove) -> bool:
        tp = move.topic_partition
        return (
            self.partitions.find(tp) is move.partition
            and move.partition.log.failure is None
            and self.log_dirs.of(tp) is move.source
            and self.log_dirs.at(move.target.path) is move.target
        )

    # -- steps --------------------------------------------------------------------------------

    def _advance(self, move: DirectoryMove, now_ms: int) -> list[Effect]:
        try:
            match move.state:
                case MoveState.WAITING:
                    move.state = MoveState.COPYING
                    return self.cleaning.pause(move.topic_partition)
                case MoveState.COPYING:
                    return self._copy(move, now_ms)
                case MoveState.SYNCING:
                    return []
                case MoveState.ASSIGNING:
                    return self._switch(move)
        except _REFUSED as error:
            self._fail(move, error)
        return []

    def _copy(self, move: DirectoryMove, now_ms: int) -> list[Effect]:
        if self.cleaning.is_at_work(move.topic_partition):
            self._due_ms = now_ms + _CLEANER_CHECK_MS
            return []
        future = move.future
        if future.is_stale:
            self._again(move)
            return []
        if not future.is_copying and not future.plan():
            return self._sync(move)
        self._last_step = now_ms, future.step(STEP_BYTES)
        self._due_ms = self._paused_until_ms()
        return [] if future.is_copying else self._sync(move)

    def _paused_until_ms(self) -> int:
        at_ms, copied = self._last_step
        return at_ms + int(copied * 1000 / max(self.rate(), 1.0))

    def rate_changed(self) -> None:
        """A pause by a low rate may be one of days."""
        self._due_ms = min(self._due_ms, self._paused_until_ms())

    def _again(self, move: DirectoryMove) -> None:
        """The log was cut under the copy."""
        name = move.target.futures[move.topic_partition]
        move.future = begin_future(move.partition.log, move.target, name)

    def _sync(self, move: DirectoryMove) -> list[Effect]:
        move.state = MoveState.SYNCING
        topic_id = move.partition.topic_id
        return [SyncCopy(move.topic_partition, topic_id, move.future.take_syncs())]

    def synced(self, effect: SyncCopy, failure: OSError | None) -> list[Effect]:
        move = self.under_way.get(effect.topic_partition)
        is_mine = move is not None and move.partition.topic_id == effect.topic_id
        if move is None or not is_mine or move.state is not MoveState.SYNCING:
            return []
        if failure is not None:
            self._fail(move, failure)
            return []
        if move.future.is_stale or move.future.plan():
            move.state = MoveState.COPYING
            return []
        move.state = MoveState.ASSIGNING
        directory_id = move.target.meta.directory_id
        if directory_id is not None and self.assigned(move.topic_partition) != directory_id:
            assignment = DirectoryAssignment(move.partition.topic_id, directory_id)
            self.assign(move.topic_partition, assignment)
            return []
        return self._advance(move, self.clock.monotonic_ms())

    def metadata_changed(self) -> list[Effect]:
        """The controller may have taken the assignment of the move under way."""
        for move in self.under_way.values():
            if move.state is MoveState.ASSIGNING and self._is_sound(move):
                return self._advance(move, self.clock.monotonic_ms())
            break
        return []

    def _switch(self, move: DirectoryMove) -> list[Effect]:
        tp, directory_id = move.topic_partition, move.target.meta.directory_id
        if directory_id is not None and self.assigned(tp) != directory_id:
            return []
        if move.future.is_stale or move.future.plan():
            move.state = MoveState.COPYING
            return []
        switch_over(move.source, move.future)
        del self.under_way[tp]
        self.cleaning.moved(tp)
        self._end(move)
        self.partitions.recheck_directory(tp)
        _LOG.info(
            "replica moved partition=%s from=%s to=%s bytes=%d",
            tp,
            move.source.path,
            move.target.path,
            move.partition.log.size_bytes,
        )
        return []

    def _fail(self, move: DirectoryMove, error: BaseException) -> None:
        """The move ends; which directory is to blame shows in the path."""
        _LOG.error("replica not moved partition=%s reason=%s", move.topic_partition, error)
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError):
            of_source = str(cause.filename or "").startswith(move.source.path.rstrip("/") + "/")
            self.log_dirs.io_error(move.source if of_source else move.target, cause)
        self.call_off(move.topic_partition)

    # -- start --------------------------------------------------------------------------------

    def resume_all(self) -> None:
        """Moves that a stop interrupted. Copies of replicas that are not here any more go."""
        for target in self.log_dirs.online if len(self.log_dirs.online) > 1 else ():
            for tp, name in list(target.futures.items()):
                partition, source = self.partitions.find(tp), self.log_dirs.of(tp)
                if tp in self.under_way or tp in self.partitions.offline:
                    continue
                try:
                    if partition is not None and source is not None and source is not target:
                        self.start(partition, target, name)
                    else:
                        target.doom_future(tp)
                except OSError as error:
                    self.log_dirs.io_error(target, error)
