"""The partitions this broker hosts: metadata on one side, logs on the other. Grade D.

The metadata image says what must be there; this module makes it so, one delta at a time. Every
method is idempotent in effect: a start replays the image as one big delta. What the disk refuses is
offline until the next start, and does not keep the rest of a delta from being applied: the metadata
is committed by then, and every other partition has to follow it.

One request may make or delete ten thousand partitions, and each costs some synced directories. So a
delta is worked off in slices: the first at once, the others one by one through `work_off`. Others
are served in between, so a slice is short. A partition that is asked for before its turn is made
then and there. That is done for a few only, or one request could make them all; whoever asks for
more is told NOT_LEADER_OR_FOLLOWER, as by a broker of Kafka that the news has not reached. What is
deleted is gone for everybody at once; only its directory stays
for a while. Crash here: the next start makes what is missing, and sets aside what nobody knows.

A broker with several log directories puts a new replica where the metadata says, or else where the
fewest are, and `take_assignments` tells the controller. A replica of a directory that is offline is
offline too, and is not made again elsewhere: its records are only there.
"""

import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from ledgerstone.config.topic import settle_topic
from ledgerstone.config.understood import is_understood
from ledgerstone.dataclasses import replace
from ledgerstone.errors import (
    InconsistentTopicId,
    LogStorageError,
    NotLeaderOrFollower,
    StorageError,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.delta import Delta, PartitionDelta
from ledgerstone.metadata.image import (
    EVERY_BROKER,
    BrokerImage,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ledgerstone.replication.directory_assignment import DirectoryAssignment
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.partition_removal import CleaningKnowledge, PartitionRemoval
from ledgerstone.replication.replica_places import (
    assigned_directory,
    came_back,
    is_stale,
    place,
)
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

_LOG: Final = logging.getLogger(__name__)
# The oldest wishes are forgotten first.
MOST_PREFERRED: Final = 10_000
# Tells one part what is committed, here a partition: which part, of what, and how. Returns whether
# it took that.
Guard = Callable[[str, str, Callable[[], None]], bool]
_DISK_REFUSED: Final = (OSError, StorageError, InconsistentTopicId)
# What is done in one go: as many as usual topics have, and not for longer than others may wait. A
# partition takes some syncs, and one of them a millisecond where the disk is busy.
SLICE_PARTITIONS: Final = 16
_SLICE_MS: Final = 4
# Made out of turn between two slices, for those who ask for them.
ASKED_FOR_PER_SLICE: Final = 2


class HostedPartitions:
    """`broker_values` are the broker's own settings as text: the defaults of its topics."""

    def __init__(
        self,
        log_dirs: LogDirs | LogDir,
        node_id: int,
        broker_values: Mapping[str, str],
        *,
        max_lag_ms: int = 30_000,
    ) -> None:
        self._log_dirs = LogDirs.single(log_dirs) if isinstance(log_dirs, LogDir) else log_dirs
        self._node_id = node_id
        self._own_resource = ConfigResource(ResourceType.BROKER, str(node_id))
        self._max_lag_ms = max_lag_ms
        # Where an operator wants a replica that is not here yet, as a path; see `prefer`.
        self.preferred: dict[TopicPartition, str] = {}
        # Between two directories: the metadata may name either.
        self.moving: set[TopicPartition] = set()
        self.broker_values = broker_values
        # Of a broker of a cluster: its replicas remove no tombstone that others need.
        self.cleaning_knowledge: CleaningKnowledge | None = None
        # A fault over one partition must not keep the others from following the metadata.
        self.guard: Guard = _unguarded
        # Why each partition that should be here is not.
        self.offline: dict[TopicPartition, str] = {}
        # Partitions whose directory failed under them, and where that is: nowhere else.
        self.lost_with: dict[TopicPartition, DirectoryAssignment] = {}
        self._partitions: dict[TopicPartition, Partition] = {}
        # Still to be made, and still to be renamed aside; in the order they were asked for.
        self._to_host: dict[TopicPartition, None] = {}
        self._to_drop: dict[TopicPartition, None] = {}
        # Made out of turn since the last slice, which tells of them.
        self._asked_for: list[Partition] = []
        self._image: MetadataImage | None = None
        self._events: list[LeadershipChanged] = []
        # Partitions whose leader or leader epoch, as a follower sees them, may have changed.
        self._followings: dict[TopicPartition, None] = {}
        self._assignments: dict[TopicPartition, DirectoryAssignment] = {}
        self._removed: list[TopicPartition] = []

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic_partition: TopicPartition) -> Partition:
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition
        if topic_partition in self.offline:
            raise LogStorageError(f"{topic_partition}: {self.offline[topic_partition]}")
        if topic_partition in self._to_host:
            return self._host_asked_for(topic_partition)
        if self._image is not None and self._image.partition(*topic_partition) is not None:
            raise NotLeaderOrFollower(f"{topic_partition} has no replica here")
        raise UnknownTopicOrPartition(f"{topic_partition} does not exist")

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Differs from Kafka, which remembers every wish: most are for replicas that never come, as
        anybody may name any topic."""
        self.preferred.pop(topic_partition, None)
        if len(self.preferred) >= MOST_PREFERRED:
            del self.preferred[next(iter(self.preferred))]
        self.preferred[topic_partition] = path

    def take_events(self) -> list[LeadershipChanged]:
        """What became of leaderships since it was asked last, in order."""
        events, self._events = self._events, []
        return events

    def take_followings(self) -> list[TopicPartition]:
        """Partitions that follow another leader or epoch than when it was asked last, or that no
        longer follow, in order. `find` says what is true of each now."""
        followings, self._followings = self._followings, {}
        return list(followings)

    def take_assignments(self) -> dict[TopicPartition, DirectoryAssignment]:
        """Replicas that lie in another directory than the metadata says, noticed since the last
        call."""
        assignments, self._assignments = self._assignments, {}
        return assignments

    def take_removed(self) -> list[TopicPartition]:
        """Replicas that were assigned to other brokers since the last call. One that comes back
        starts from nothing, so whatever is remembered of it has to go."""
        removed, self._removed = self._removed, []
        return removed

    @property
    def has_assignments(self) -> bool:
        return bool(self._assignments)

    @property
    def backlog(self) -> int:
        """How many partitions are still to be made, to be removed or to be told of."""
        return len(self._to_host) + len(self._to_drop) + len(self._asked_for)

    def is_complete(self, topic: TopicImage) -> bool:
        """Whether every partition of a topic that belongs here has been made."""
        return not any(
            TopicPartition(topic.name, each) in self._to_host for each in topic.partitions
        )

    def load(self, image: MetadataImage, topic_ids: Container[bytes] | None = None) -> None:
        """At start: opens what the directory holds and creates what is missing.

        A directory of a topic the metadata does not know, or of a partition that has no replica
        here, is set aside and stays on disk. `topic_ids` are those of all topics there ever were:
        one that is not among them was not deleted, and then the metadata is the one that is
        wrong."""
        for _ in self.loading(image, topic_ids):
            pass

    def loading(
        self, image: MetadataImage, topic_ids: Container[bytes] | None = None
    ) -> Iterator[None]:
        """As `load`, one partition a step, so that heartbeats leave in between. The image stays
        the same meanwhile: what changes is applied as a delta afterwards."""
        self._image = image
        log_dirs = self._log_dirs
        log_dirs.drop_duplicates(lambda tp: assigned_directory(image, tp, self._node_id))
        log_dirs.drop_stale(lambda tp: is_stale(image.partition(*tp), self._node_id))
        for log_dir in list(log_dirs.online):
            yield from self._open_logs(image, log_dir)
        self._check_unknown(topic_ids)
        for log_dir in log_dirs.online:
            for topic_partition in log_dir.unknown:
                _LOG.warning(
                    "partition set aside partition=%s reason=not a replica", topic_partition
                )
                log_dir.set_aside_stray(topic_partition)
        for topic in image.topics.values():
            for number in topic.partitions:
                if self._host(image, TopicPartition(topic.name, number)) is not None:
                    yield

    def _open_logs(self, image: MetadataImage, log_dir: LogDir) -> Iterator[None]:
        try:
            for _ in log_dir.load(
                lambda tp: self._log_config(image, tp.topic), lambda tp: self._topic_id(image, tp)
            ):
                yield
        except OSError as error:
            self._log_dirs.io_error(log_dir, error)
            if not self._log_dirs.has_failures:
                raise

    def _check_unknown(self, topic_ids: Container[bytes] | None) -> None:
        if topic_ids is None:
            return
        unknown = [(each, tp) for each in self._log_dirs.online for tp in each.unknown]
        for log_dir, topic_partition in unknown:
            topic_id = log_dir.topic_id_of(topic_partition)
            if topic_id is None or topic_id in topic_ids:
                continue
            if topic_partition in log_dir.refused:
                # The topic of its name has another id: the file that says so may be damaged. It
                # stays where it is, and offline; the others serve.
                log_dir.unknown.remove(topic_partition)
            else:
                directory = f"{log_dir.path}/{topic_partition}"
                raise StorageError(
                    f"{directory} belongs to topic id {uuid_to_text(topic_id)}, of which the "
                    "metadata log has never heard: a part of __cluster_metadata-0 is missing, or "
                    "the directory was copied here. The broker does not start, and nothing was "
                    "changed. Restore the metadata log from a backup, or move the directory away"
                )

    def reopen(self, topic_partition: TopicPartition) -> Partition:
        """After its damage was acknowledged."""
        assert self._image is not None
        # Its log is another object from here on: whoever acts for its leader starts anew.
        self._let_go(topic_partition)
        self.offline.pop(topic_partition, None)
        config = self._log_config(self._image, topic_partition.topic)
        try:
            self._log_dirs.noting(topic_partition).reopen(topic_partition, config)
        except _DISK_REFUSED as error:
            self.offline[topic_partition] = str(error)
            raise
        made = self._host(self._image, topic_partition)
        assert made is not None
        return made

    def apply(self, delta: Delta, image: MetadataImage) -> None:
        was_behind = self.backlog > 0
        self._image = image
        for topic in delta.topics_deleted:
            for number in topic.partitions:
                self._retire(TopicPartition(topic.name, number))
        for topic in delta.topics_created:
            for number, state in topic.partitions.items():
                self._want(TopicPartition(topic.name, number), state)
        for change in (*delta.partitions_added, *delta.partitions_changed):
            about = f"{change.topic}-{change.partition}"
            self.guard("Partitions", about, partial(self._change, change))
        self._reconfigure(image, delta.configs_changed)
        if not was_behind:
            self.work_off()

    def work_off(self) -> list[Partition]:
        """One slice of what is still to be done; returns the partitions it has made."""
        clock = self._log_dirs.clock
        end_ms = clock.monotonic_ms() + _SLICE_MS
        # A name may have come back: its old directory goes first.
        doomed = list(self._to_drop)[:SLICE_PARTITIONS]
        self._drop(doomed)
        asked_for, self._asked_for = self._asked_for, []
        made: list[Partition] = []
        for topic_partition in list(self._to_host)[: SLICE_PARTITIONS - len(doomed)]:
            if self._to_drop or ((doomed or made) and clock.monotonic_ms() >= end_ms):
                break
            made += self._host_wanted(topic_partition)
        return asked_for + made

    def work_off_topic(self, topic: str) -> list[Partition]:
        """Everything that is still to be done for one topic, for somebody who cannot wait."""
        self._drop([each for each in self._to_drop if each.topic == topic])
        wanted = [each for each in self._to_host if each.topic == topic]
        return [made for each in wanted for made in self._host_wanted(each)]

    def drop_rest(self) -> None:
        """At a clean stop: what is deleted leaves now, or the next start would find it a stray."""
        self._drop(list(self._to_drop))

    def check_invariants(self) -> None:
        for topic_partition in self._to_host:
            assert topic_partition not in self._partitions, topic_partition
        for topic_partition in self._to_drop:
            assert topic_partition not in self._partitions, topic_partition
            assert any(each.holds(topic_partition) for each in self._log_dirs.online)

    def _change(self, change: PartitionDelta) -> None:
        topic_partition = TopicPartition(change.topic, change.partition)
        hosted = self._partitions.get(topic_partition)
        if self._node_id not in change.after.replicas:
            # Reassigned: its data is on the other replicas.
            self._remove(topic_partition)
        elif hosted is not None and came_back(change, self._node_id):
            # Removed and assigned again, and only the outcome was told: it starts from nothing.
            self._remove(topic_partition)
            self._want(topic_partition, change.after)
        elif hosted is None:
            self._want(topic_partition, change.after)
        else:
            self._assume(hosted, change.after)

    def _remove(self, topic_partition: TopicPartition) -> None:
        self._removed.append(topic_partition)
        self._retire(topic_partition)

    def _want(self, topic_partition: TopicPartition, state: PartitionImage) -> None:
        if self._node_id in state.replicas:
            self._to_host[topic_partition] = None

    def _host_asked_for(self, topic_partition: TopicPartition) -> Partition:
        """Out of turn, unless others were just now, or its name still has an old directory."""
        if len(self._asked_for) >= ASKED_FOR_PER_SLICE or topic_partition in self._to_drop:
            raise NotLeaderOrFollower(f"{topic_partition} is being created")
        made = self._host_wanted(topic_partition)
        if not made:
            raise LogStorageError(f"{topic_partition}: {self.offline[topic_partition]}")
        self._asked_for += made
        return made[0]

    def _host_wanted(self, topic_partition: TopicPartition) -> list[Partition]:
        del self._to_host[topic_partition]
        assert self._image is not None
        made: list[Partition] = []
        host = partial(self._host_into, made, self._image, topic_partition)
        if not self.guard("Partitions", str(topic_partition), host):
            self._partitions.pop(topic_partition, None)
            self.offline[topic_partition] = "it could not be made; the broker's log tells why"
        return made

    def _host_into(
        self, made: list[Partition], image: MetadataImage, topic_partition: TopicPartition
    ) -> None:
        partition = self._host(image, topic_partition)
        if partition is not None:
            made.append(partition)

    def _host(self, image: MetadataImage, topic_partition: TopicPartition) -> Partition | None:
        topic = image.topics[topic_partition.topic]
        state = topic.partitions[topic_partition.partition]
        if self._node_id not in state.replicas or topic_partition in self._partitions:
            return None
        log = self._log_dirs.log(topic_partition)
        if topic_partition in self.lost_with:
            return None
        refused = self._log_dirs.refused(topic_partition)
        if log is None and refused is not None:
            _LOG.error("partition offline partition=%s reason=%s", topic_partition, refused)
            self.offline[topic_partition] = refused
            return None
        if log is None:
            config = self._log_config(image, topic.name)
            try:
                preferred = self.preferred.get(topic_partition, "")
                log_dir = place(self._log_dirs, topic_partition, state, self._node_id, preferred)
                log = log_dir.create(topic_partition, config, topic_id=topic.topic_id)
            except (*_DISK_REFUSED, LogStorageError) as error:
                self._log_dirs.creation_failed(error)
                _LOG.error("partition offline partition=%s reason=%s", topic_partition, error)
                self.offline[topic_partition] = str(error)
                return None
        partition = Partition(
            log=log,
            topic_id=topic.topic_id,
            node_id=self._node_id,
            registered=self._registered,
            max_lag_ms=self._max_lag_ms,
            truncates=self._log_dirs,
        )
        if self.cleaning_knowledge is not None:
            partition.removal = PartitionRemoval(log=log, knowledge=self.cleaning_knowledge)
        partition.configure(self._min_insync(image, topic.name))
        self._partitions[topic_partition] = partition
        self.preferred.pop(topic_partition, None)
        self._assume(partition, state)
        return partition

    def _registered(self, broker_id: int) -> BrokerImage | None:
        return None if self._image is None else self._image.brokers.get(broker_id)

    def _assume(self, partition: Partition, state: PartitionImage) -> None:
        before = _followed_by(partition)
        self._check_directory(partition, state)
        kind = partition.assume(state)
        if _followed_by(partition) != before:
            self._followings[partition.topic_partition] = None
        if kind is not None:
            self._events.append(
                LeadershipChanged(partition.topic_partition, kind, state.leader_epoch)
            )

    def _check_directory(self, partition: Partition, state: PartitionImage) -> None:
        """A single node with one directory has nobody to tell."""
        topic_partition = partition.topic_partition
        if topic_partition in self.moving:
            return
        log_dir = self._log_dirs.of(topic_partition) if self._log_dirs.may_fail else None
        directory_id = None if log_dir is None else log_dir.meta.directory_id
        if directory_id is None or state.directory_of(self._node_id) == directory_id:
            self._assignments.pop(topic_partition, None)
        else:
            assignment = DirectoryAssignment(partition.topic_id, directory_id)
            self._assignments[topic_partition] = assignment

    def recheck_directory(self, topic_partition: TopicPartition) -> None:
        """A move has ended, one way or the other."""
        partition = self._partitions.get(topic_partition)
        if partition is not None and self._image is not None:
            state = self._image.partition(*topic_partition)
            if state is not None and self._node_id in state.replicas:
                self._check_directory(partition, state)

    def directory_failed(self, log_dir: LogDir, reason: str) -> list[TopicPartition]:
        """Takes every partition of a directory offline; returns them. Nothing more is written to
        their files."""
        failed = [each for each in log_dir.logs if each in self._partitions]
        for topic_partition in failed:
            partition = self._let_go(topic_partition)
            assert partition is not None
            self._lose(partition, log_dir)
            self.offline[topic_partition] = f"its log directory {log_dir.path} is offline: {reason}"
        for topic_partition in log_dir.logs:
            self._to_drop.pop(topic_partition, None)
        log_dir.abandon()
        return failed

    def _lose(self, partition: Partition, log_dir: LogDir) -> None:
        """The controller takes its lead away as soon as it knows the directory, which it may not
        have been told yet."""
        assert self._image is not None
        topic_partition, directory_id = partition.topic_partition, log_dir.meta.directory_id
        lost = DirectoryAssignment(partition.topic_id, directory_id or b"")
        self.lost_with[topic_partition] = lost
        known = assigned_directory(self._image, topic_partition, self._node_id)
        if directory_id is not None and known not in (None, directory_id):
            self._assignments[topic_partition] = lost

    def _let_go(self, topic_partition: TopicPartition) -> Partition | None:
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None and not partition.is_leader:
            self._followings[topic_partition] = None
        if partition is not None and partition.is_leader:
            self._events.append(
                LeadershipChanged(topic_partition, Leadership.LOST, partition.leader_epoch)
            )
        return partition

    def _retire(self, topic_partition: TopicPartition) -> None:
        was_offline = self.offline.pop(topic_partition, None) is not None
        self.lost_with.pop(topic_partition, None)
        self._to_host.pop(topic_partition, None)
        was_open = self._let_go(topic_partition) is not None
        # What could not be opened goes as well: it must not stand in the way of a new partition of
        # its name.
        if was_open or (
            was_offline and any(each.holds(topic_partition) for each in self._log_dirs.online)
        ):
            self._to_drop[topic_partition] = None

    def _drop(self, doomed: list[TopicPartition]) -> None:
        for topic_partition in doomed:
            del self._to_drop[topic_partition]
        for log_dir in list(self._log_dirs.online):
            mine = [each for each in doomed if log_dir.holds(each)]
            for topic_partition, error in log_dir.delete_all(mine) if mine else ():
                # The next start finds a directory that the metadata does not know.
                _LOG.error("partition not deleted partition=%s reason=%s", topic_partition, error)
                self._log_dirs.io_error(log_dir, error)

    def _reconfigure(self, image: MetadataImage, changed: Sequence[ConfigResource]) -> None:
        """All that one delta has changed in one go: tools change every topic and broker at once,
        and others wait meanwhile."""
        topics: dict[str, None] = {}
        everything = False
        for resource in changed:
            if resource.resource_type == ResourceType.TOPIC:
                topics[resource.name] = None
            elif resource in (EVERY_BROKER, self._own_resource):
                everything = True
                self._complain(image, resource)
        if not (everything or topics):
            return
        for topic_partition, partition in self._partitions.items():
            if everything or topic_partition.topic in topics:
                settle = partial(self._settle, image, partition)
                self.guard("Partitions", str(topic_partition), settle)

    def _settle(self, image: MetadataImage, partition: Partition) -> None:
        topic = partition.topic_partition.topic
        partition.log.reconfigure(self._log_config(image, topic))
        partition.configure(self._min_insync(image, topic))

    def _complain(self, image: MetadataImage, resource: ConfigResource) -> None:
        for name, text in image.config_of(resource).items():
            if not is_understood(name, text):
                _LOG.error("setting not taken broker=%s key=%s", resource.name, name)

    def _log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        values = settle_topic(image.topic_config(topic), self._defaults(image))
        config = LogConfig.from_values(values)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            # What must not be compacted yet stays, as in Kafka.
            config = replace(config, max_compaction_lag_ms=config.min_compaction_lag_ms)
        return config

    def _min_insync(self, image: MetadataImage, topic: str) -> int:
        values = settle_topic(image.topic_config(topic), self._defaults(image))
        minimum = values["min.insync.replicas"]
        assert isinstance(minimum, int)
        return minimum

    def _defaults(self, image: MetadataImage) -> Mapping[str, str]:
        return image.broker_values(self._node_id, self.broker_values)

    def _topic_id(self, image: MetadataImage, topic_partition: TopicPartition) -> bytes | None:
        state = image.partition(*topic_partition)
        if state is None or self._node_id not in state.replicas:
            return None
        return image.topics[topic_partition.topic].topic_id


def _followed_by(partition: Partition) -> tuple[int, int] | None:
    """Leader and epoch that the partition follows; None of one that this broker leads."""
    return None if partition.is_leader else (partition.leader_id, partition.leader_epoch)


def _unguarded(_part: str, _about: str, tell: Callable[[], None]) -> bool:
    tell()
    return True
