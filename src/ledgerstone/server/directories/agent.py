"""Acts on log directories: takes failed ones offline, tells the controller where replicas are.

Grade D. A directory that failed: its partitions answer KAFKA_STORAGE_ERROR, the next heartbeat
names it, and the controller elects other leaders. Without any directory left, or without the one of
the metadata log, the process ends: whatever it would say next could be wrong.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import (
    KafkaError,
    LogDirNotFound,
    LogStorageError,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
    StorageError,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from ledgerstone.replication.directory_assignment import DirectoryAssignment
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server.directories.assignments import Assignments
from ledgerstone.server.directories.moving import Moves, PausesCleaning
from ledgerstone.server.effects import Effect, Halt, SyncCopy
from ledgerstone.server.results import Done, Failed, Result
from ledgerstone.storage.filenames import future_dir_name
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import INT64_MAX, TopicPartition

_LOG: Final = logging.getLogger(__name__)
_REFUSED: Final = (KafkaError, StorageError, OSError)

_MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_NO_LIMIT: Final = str(INT64_MAX)
_ANY_UUID: Final = "0" * 32

AskController = Callable[[ApiMessage, Callable[[ApiMessage], None]], None]


class DirectoryTurn(Protocol):
    """The broker, as far as failed directories concern it."""

    def grew(self, topic_partition: TopicPartition) -> None: ...


class TellsController(Protocol):
    """The broker's life, where there is a cluster."""

    def directory_failed(self, directory_id: bytes) -> None:
        """Every heartbeat from now on names it."""
        ...


class CleansDirectories(PausesCleaning, Protocol):
    def directory_failed(self, path: str, partitions: Iterable[TopicPartition]) -> list[Effect]: ...


@dataclass(slots=True, kw_only=True)
class Directories:
    """An agent (`server.agent`)."""

    clock: Clock
    node_id: int
    log_dirs: LogDirs
    partitions: HostedPartitions
    cleaning: CleansDirectories
    turn: DirectoryTurn
    image: Callable[[], MetadataImage]
    ask: AskController
    # Tells everyone that acts on leaderships of those that were lost.
    leadership: Callable[[], None]
    # Of a node of a cluster; set when it joins.
    life: TellsController | None = None
    # Settings of this broker as the metadata has them now.
    settings: Callable[[], Mapping[str, str]] = dict
    assignments: Assignments = field(default_factory=Assignments)
    moves: Moves = field(init=False)

    def __post_init__(self) -> None:
        self.moves = Moves(
            clock=self.clock,
            node_id=self.node_id,
            log_dirs=self.log_dirs,
            partitions=self.partitions,
            cleaning=self.cleaning,
            assign=lambda tp, assignment: self.assignments.add({tp: assignment}),
            assigned=self._assigned_directory,
            rate=lambda: float(self.settings().get(_MOVE_RATE, _NO_LIMIT)),
        )

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if self.log_dirs.has_failures or self.partitions.has_assignments:
            return self.clock.monotonic_ms()
        times = (self.assignments.next_deadline_ms(), self.moves.next_deadline_ms)
        return min((each for each in times if each is not None), default=None)

    def tick(self) -> list[Effect]:
        effects: list[Effect] = []
        for log_dir, reason in self.log_dirs.take_failures():
            effects += self._fail(log_dir, reason)
        if self.partitions.has_assignments:
            self.assignments.add(self.partitions.take_assignments())
        effects += self.moves.tick()
        if len(self.assignments):
            self._assign()
        return effects

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        match effect, result:
            case SyncCopy(), Done():
                return self.moves.synced(effect, None)
            case SyncCopy(), Failed(error):
                return self.moves.synced(effect, error)
            case _:
                raise AssertionError(f"directories asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        if delta.configs_changed:
            self.moves.rate_changed()
        return self.moves.metadata_changed()

    def load(self) -> None:
        """Once the partitions are hosted: moves that a stop interrupted go on."""
        self.moves.resume_all()

    # -- AlterReplicaLogDirs ------------------------------------------------------------------

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """KafkaError as Kafka's; nothing happens if the replica is there already."""
        future_dir_name(topic_partition, _ANY_UUID)
        target = self.log_dirs.at(path)
        if target is None:
            if any(each.path.rstrip("/") == path.rstrip("/") for each in self.log_dirs.offline):
                raise LogStorageError(f"Log directory {path} is offline")
            raise LogDirNotFound(f"Log directory {path} is not found in the config.")
        if topic_partition in self.partitions.offline:
            raise LogStorageError(f"Partition {topic_partition} is offline")
        known = self.moves.under_way.get(topic_partition)
        if known is not None and known.target is not target:
            self.moves.call_off(topic_partition)
        partition = self._partition_to_move(topic_partition, path)
        if self.log_dirs.of(topic_partition) is target or (known and known.target is target):
            return
        if self.log_dirs.offline:
            raise LogStorageError("Can not create log while log directories are offline")
        try:
            self.moves.start(partition, target)
        except OSError as error:
            self.log_dirs.io_error(target, error)
            raise LogStorageError(f"{topic_partition}: {error}") from error

    def _partition_to_move(self, topic_partition: TopicPartition, path: str) -> Partition:
        """A replica that is still to come goes there: the wish is kept until then."""
        try:
            return self.partitions.get(topic_partition)
        except NotLeaderOrFollower as error:
            self.partitions.prefer(topic_partition, path)
            raise ReplicaNotAvailable(str(error)) from error
        except UnknownTopicOrPartition:
            self.partitions.prefer(topic_partition, path)
            raise

    def _assigned_directory(self, topic_partition: TopicPartition) -> bytes | None:
        state = self.image().partition(*topic_partition)
        if state is None or self.node_id not in state.replicas:
            return None
        return state.directory_of(self.node_id)

    # -- offline ------------------------------------------------------------------------------

    def _fail(self, log_dir: LogDir, reason: str) -> list[Effect]:
        if log_dir is self.log_dirs.metadata:
            return [Halt(f"the directory of the metadata log {log_dir.path} failed: {reason}")]
        if not self.log_dirs.online:
            paths = ", ".join(each.path for each in self.log_dirs.offline)
            return [Halt(f"all log dirs in {paths} have failed: {reason}")]
        failed = self.partitions.directory_failed(log_dir, reason)
        _LOG.error(
            "log directory is offline path=%s partitions=%d reason=%s",
            log_dir.path,
            len(failed),
            reason,
        )
        effects = self.cleaning.directory_failed(log_dir.path, failed)
        for topic_partition in failed:
            self.turn.grew(topic_partition)
        self.leadership()
        if self.life is not None and log_dir.meta.directory_id is not None:
            self.life.directory_failed(log_dir.meta.directory_id)
        return effects

    # -- assignments --------------------------------------------------------------------------

    def _assign(self) -> None:
        broker = self.image().brokers.get(self.node_id)
        if broker is None:
            return
        request = self.assignments.take_request(
            self.clock.monotonic_ms(),
            broker_id=self.node_id,
            broker_epoch=broker.broker_epoch,
            is_true=self._is_true,
        )
        if request is None:
            return
        try:
            self.ask(request, self._assigned)
        except _REFUSED as error:
            # This node is the controller, and its disk takes nothing.
            _LOG.warning("replicas not assigned to directories reason=%s", error)
            self.assignments.failed(self.clock.monotonic_ms())

    def _is_true(self, topic_partition: TopicPartition, assignment: DirectoryAssignment) -> bool:
        if self.partitions.lost_with.get(topic_partition) == assignment:
            return True
        move = self.moves.under_way.get(topic_partition)
        log_dir = self.log_dirs.of(topic_partition) if move is None else move.target
        partition = self.partitions.find(topic_partition)
        return (
            log_dir is not None
            and partition is not None
            and partition.topic_id == assignment.topic_id
            and log_dir.meta.directory_id == assignment.directory_id
        )

    def _assigned(self, answer: ApiMessage) -> None:
        assert isinstance(answer, AssignReplicasToDirsResponse), answer
        if answer.error_code:
            _LOG.warning("replicas not assigned to directories error_code=%d", answer.error_code)
        self.assignments.answered(self.clock.monotonic_ms(), answer)
