"""Partitions follow the metadata: made, led, let go, and every change of leadership is told."""

import errno

import pytest

from ledgerstone.errors import (
    LogStorageError,
    NotLeaderOrFollower,
    StorageError,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.replay import apply
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ledgerstone.replication.hosted_partitions import (
    ASKED_FOR_PER_SLICE,
    SLICE_PARTITIONS,
    HostedPartitions,
)
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition
from tests.kit.logs import T0, batch

TOPIC_ID = bytes(15) + b"\x07"
OTHER_ID = bytes(15) + b"\x09"
TP = TopicPartition("t", 0)


def a_topic(
    partitions: int = 1,
    replicas: tuple[int, ...] = (1,),
    name: str = "t",
    topic_id: bytes = TOPIC_ID,
) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
            )
            for number in range(partitions)
        ),
    ]


def change(
    number: int = 0,
    leader: int = -2,
    isr: list[int] | None = None,
    replicas: list[int] | None = None,
) -> MetadataRecord:
    return PartitionChangeRecord(
        partition_id=number, topic_id=TOPIC_ID, leader=leader, isr=isr, replicas=replicas
    )


class Node:
    """Broker 1, its disk, and the metadata it has followed so far."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start_ms=T0)
        self.fs = SimFilesystem(dice=SeededDice(0), clock=self.clock)
        self.image = MetadataImage(cluster_id="c")
        self.start()

    def start(self) -> None:
        self.log_dir = open_log_dir(self.fs, self.clock, SeededDice(1), "/data", node_id=1)
        self.hosted = HostedPartitions(self.log_dir, 1, {})
        self.hosted.load(self.image)

    def follow(self, *records: MetadataRecord) -> list[tuple[int, Leadership, int]]:
        self.image, delta = apply(self.image, records)
        self.hosted.apply(delta, self.image)
        self.hosted.check_invariants()
        return told(self.hosted.take_events())


def told(events: list[LeadershipChanged]) -> list[tuple[int, Leadership, int]]:
    return [(each.topic_partition.partition, each.kind, each.leader_epoch) for each in events]


@pytest.fixture
def node() -> Node:
    return Node()


def test_partition_that_is_made_and_led_is_gained(node: Node) -> None:
    events = node.follow(*a_topic(partitions=2))

    assert events == [(0, Leadership.GAINED, 0), (1, Leadership.GAINED, 0)]
    assert node.hosted.get(TP).is_leader
    assert node.hosted.take_events() == []


def test_partition_of_others_is_not_hosted_and_one_they_lead_is_not_gained(node: Node) -> None:
    events = node.follow(*a_topic(replicas=(2, 1)))
    events += node.follow(*a_topic(name="other", topic_id=bytes(16), replicas=(2,)))

    assert events == []
    assert not node.hosted.get(TP).is_leader
    with pytest.raises(NotLeaderOrFollower):
        node.hosted.get(TopicPartition("other", 0))
    with pytest.raises(UnknownTopicOrPartition):
        node.hosted.get(TopicPartition("other", 1))


def test_leadership_is_lost_gained_and_kept_in_a_new_epoch(node: Node) -> None:
    node.follow(*a_topic(replicas=(1, 2)))

    assert node.follow(change(leader=2)) == [(0, Leadership.LOST, 1)]
    assert node.follow(change(leader=-1)) == []
    assert node.follow(change(leader=1)) == [(0, Leadership.GAINED, 3)]
    assert node.follow(change(leader=1)) == [(0, Leadership.EPOCH_CHANGED, 4)]
    assert node.hosted.get(TP).partition_epoch == 4


def test_isr_that_shrinks_is_told_only_where_it_commits_something(node: Node) -> None:
    node.follow(*a_topic(replicas=(1, 2)))
    node.hosted.get(TP).append(batch(("k", "v")), acks=1)

    assert node.follow(change(isr=[1])) == [(0, Leadership.COMMITTED, 0)]
    assert node.follow(change(isr=[1, 2])) == []


def test_deleted_partition_is_lost_and_unknown_at_once(node: Node) -> None:
    node.follow(*a_topic())

    assert node.follow(RemoveTopicRecord(topic_id=TOPIC_ID)) == [(0, Leadership.LOST, 0)]
    with pytest.raises(UnknownTopicOrPartition):
        node.hosted.get(TP)


def test_name_that_comes_back_in_the_same_delta_is_lost_then_gained(node: Node) -> None:
    node.follow(*a_topic())
    node.hosted.get(TP).append(batch(("k", "v")), acks=1)

    again = a_topic(topic_id=bytes(15) + b"\x08")
    events = node.follow(RemoveTopicRecord(topic_id=TOPIC_ID), *again)

    assert events == [(0, Leadership.LOST, 0), (0, Leadership.GAINED, 0)]
    assert node.hosted.get(TP).log.log_end_offset == 0


def test_large_topic_is_made_in_slices_and_each_partition_gained_in_its_own(node: Node) -> None:
    first = node.follow(*a_topic(partitions=SLICE_PARTITIONS + 3))
    late = TopicPartition("t", SLICE_PARTITIONS)
    topic = node.image.topics["t"]
    assert node.hosted.find(late) is None
    assert (len(first), node.hosted.backlog) == (SLICE_PARTITIONS, 3)
    assert not node.hosted.is_complete(topic)

    made = node.hosted.work_off()

    assert [each.topic_partition.partition for each in made] == [16, 17, 18]
    assert [number for number, _, _ in told(node.hosted.take_events())] == [16, 17, 18]
    assert node.hosted.is_complete(topic)


def test_partition_is_made_when_it_is_asked_for_and_its_slice_tells_of_it(node: Node) -> None:
    node.follow(*a_topic(partitions=SLICE_PARTITIONS + 4))
    *asked_for, refused = (TopicPartition("t", SLICE_PARTITIONS + 3 - each) for each in range(3))

    at_once = [node.hosted.get(each) for each in asked_for]
    with pytest.raises(NotLeaderOrFollower, match="being created"):
        node.hosted.get(refused)
    made = node.hosted.work_off()

    assert len(asked_for) == ASKED_FOR_PER_SLICE
    assert made[: len(at_once)] == at_once
    assert [each.topic_partition.partition for each in made] == [19, 18, 16, 17]
    assert node.hosted.backlog == 0


def test_topic_deleted_before_it_was_made_gains_nothing(node: Node) -> None:
    node.follow(*a_topic(partitions=SLICE_PARTITIONS + 3))

    lost = node.follow(RemoveTopicRecord(topic_id=TOPIC_ID))
    while node.hosted.backlog:
        node.hosted.work_off()

    assert [kind for _, kind, _ in lost] == [Leadership.LOST] * SLICE_PARTITIONS
    assert node.hosted.take_events() == []
    assert len(node.hosted) == 0


def test_start_gains_what_it_leads_and_opens_what_the_disk_holds(node: Node) -> None:
    node.follow(*a_topic(partitions=2))
    node.hosted.get(TP).append(batch(("k", "v")), acks=1)
    node.fs.kill()

    node.start()

    assert told(node.hosted.take_events()) == [(0, Leadership.GAINED, 0), (1, Leadership.GAINED, 0)]
    assert node.hosted.get(TP).log.log_end_offset == 1


def test_partition_the_disk_refuses_is_offline_and_the_others_are_made(node: Node) -> None:
    node.fs.fail_matching("*", "*/t-0*", errno.ENOSPC)

    events = node.follow(*a_topic(partitions=2))

    assert events == [(1, Leadership.GAINED, 0)]
    with pytest.raises(LogStorageError, match="No space left"):
        node.hosted.get(TP)


def test_reopened_partition_is_lost_and_gained_with_another_log(node: Node) -> None:
    node.follow(*a_topic())
    before = node.hosted.get(TP)

    after = node.hosted.reopen(TP)

    assert told(node.hosted.take_events()) == [(0, Leadership.LOST, 0), (0, Leadership.GAINED, 0)]
    assert after.log is not before.log


def test_settings_reach_the_log_and_the_role(node: Node) -> None:
    node.follow(*a_topic(replicas=(1, 2)))

    node.follow(
        ConfigRecord(2, "t", "min.insync.replicas", "2"),
        ConfigRecord(2, "t", "cleanup.policy", "compact"),
    )

    partition = node.hosted.get(TP)
    assert partition.effective_min_isr == 2
    assert partition.log.config.compacts


def test_settings_that_change_together_reach_each_log_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.follow(*a_topic(partitions=3), *a_topic(name="u", topic_id=OTHER_ID))
    reached: list[TopicPartition] = []

    def reconfigure(log: PartitionLog, config: LogConfig) -> None:
        reached.append(log.topic_partition)

    monkeypatch.setattr(PartitionLog, "reconfigure", reconfigure)
    node.follow(*(ConfigRecord(4, each, "log.retention.ms", "9") for each in ("2", "3", "4")))
    of_others, reached = reached, []
    node.follow(*(ConfigRecord(4, each, "log.retention.ms", "9") for each in ("1", "2", "")))
    of_all, reached = reached, []
    node.follow(*(ConfigRecord(2, "t", key, "9") for key in ("retention.ms", "segment.ms")))

    assert of_others == []
    assert of_all == [*(TopicPartition("t", each) for each in range(3)), TopicPartition("u", 0)]
    assert reached == [TopicPartition("t", each) for each in range(3)]


def test_directory_of_a_topic_the_metadata_never_had_stops_the_start(node: Node) -> None:
    node.follow(*a_topic())
    node.fs.kill()
    node.log_dir = open_log_dir(node.fs, node.clock, SeededDice(1), "/data", node_id=1)
    hosted = HostedPartitions(node.log_dir, 1, {})

    with pytest.raises(StorageError, match="has never heard"):
        hosted.load(MetadataImage(cluster_id="c"), topic_ids=set())


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("replicas", [(1,), (2, 1)])
def test_topic_that_was_deleted_and_made_again_while_the_broker_was_down_starts_empty(
    node: Node, replicas: tuple[int, ...], *, is_clean: bool
) -> None:
    node.follow(*a_topic(replicas=replicas))
    node.hosted.get(TP).log.append_as_follower(batch(("k", "v"), base_offset=0))
    if is_clean:
        node.log_dir.close()
    else:
        node.fs.kill()
    node.image, _ = apply(node.image, [RemoveTopicRecord(topic_id=TOPIC_ID)])
    node.image, _ = apply(node.image, a_topic(topic_id=OTHER_ID, replicas=replicas))
    node.start()

    assert node.hosted.get(TP).log.log_end_offset == 0
    assert node.log_dir.topic_id_of(TP) == OTHER_ID
    names = node.fs.list_dir("/data")
    assert [name for name in names if name.startswith(TP.topic) and name.endswith("-stray")]


def test_directory_of_a_known_name_whose_id_nobody_ever_had_stays_offline(node: Node) -> None:
    node.follow(*a_topic())
    node.fs.kill()
    node.log_dir = open_log_dir(node.fs, node.clock, SeededDice(1), "/data", node_id=1)
    image, _ = apply(MetadataImage(cluster_id="c"), a_topic(topic_id=OTHER_ID))
    hosted = HostedPartitions(node.log_dir, 1, {})

    hosted.load(image, topic_ids={OTHER_ID})

    assert TP in hosted.offline
    assert TP in node.log_dir.live_partitions()
    assert node.log_dir.topic_id_of(TP) == TOPIC_ID


def test_name_of_a_topic_deleted_while_it_was_damaged_is_free_again(node: Node) -> None:
    node.follow(*a_topic())
    node.hosted.get(TP).append(batch(("k", "v")), acks=1)
    (segment,) = node.hosted.get(TP).log.segments
    path = segment.path(Kind.LOG)
    node.log_dir.close()
    node.fs.unlink(path)
    node.start()
    with pytest.raises(LogStorageError):
        node.hosted.get(TP)
    node.follow(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert TP not in node.log_dir.live_partitions()
    node.follow(*a_topic(topic_id=OTHER_ID))

    assert node.hosted.get(TP).log.log_end_offset == 0
    assert node.log_dir.notes.open_notes("t-0") == []


def test_name_of_a_topic_deleted_while_its_directory_was_missing_is_free_again(node: Node) -> None:
    node.follow(*a_topic())
    node.hosted.get(TP).append(batch(("k", "v")), acks=1)
    node.log_dir.close()
    node.fs.rename("/data/t-0", "/elsewhere")
    node.start()
    with pytest.raises(LogStorageError):
        node.hosted.get(TP)
    node.follow(RemoveTopicRecord(topic_id=TOPIC_ID))
    node.follow(*a_topic(topic_id=OTHER_ID))

    assert node.hosted.get(TP).log.log_end_offset == 0
    assert node.log_dir.doomed == {}


def test_name_of_a_topic_deleted_after_it_could_not_be_made_is_free_again(node: Node) -> None:
    node.fs.fail_matching("*", "*/t-0/*.log", errno.ENOSPC)
    node.follow(*a_topic())
    with pytest.raises(LogStorageError, match="No space left"):
        node.hosted.get(TP)
    node.follow(RemoveTopicRecord(topic_id=TOPIC_ID))
    node.follow(*a_topic(topic_id=OTHER_ID))

    assert node.hosted.get(TP).log.log_end_offset == 0


def test_partition_that_is_moved_away_is_let_go_and_deleted(node: Node) -> None:
    node.follow(*a_topic(replicas=(1, 2)))
    directory = node.log_dir.logs[TP].directory

    assert node.follow(change(leader=2, isr=[2], replicas=[2])) == [(0, Leadership.LOST, 0)]
    with pytest.raises(NotLeaderOrFollower):
        node.hosted.get(TP)
    node.hosted.work_off()
    assert not node.log_dir.fs.exists(directory)
    # It may come back, empty.
    node.follow(change(leader=2, isr=[2], replicas=[2, 1]))
    assert node.hosted.get(TP).log.log_end_offset == 0


def test_directory_of_a_partition_that_moved_away_meanwhile_is_set_aside(node: Node) -> None:
    node.follow(*a_topic(replicas=(1, 2)))
    node.log_dir.close()
    node.image, _ = apply(node.image, [change(leader=2, isr=[2], replicas=[2])])
    node.start()

    assert len(node.hosted) == 0
    names = node.fs.list_dir("/data")
    assert [name for name in names if name.startswith(TP.topic) and name.endswith("-stray")]


def test_loading_takes_one_step_a_log(node: Node) -> None:
    node.follow(*a_topic(partitions=5))
    node.log_dir.close()
    log_dir = open_log_dir(node.fs, node.clock, SeededDice(1), "/data", node_id=1)
    hosted = HostedPartitions(log_dir, 1, {})
    opened = [len(log_dir.logs) for _ in hosted.loading(node.image)]

    assert opened[:5] == [1, 2, 3, 4, 5]
    assert len(hosted) == 5


def test_followings_change_with_leader_and_epoch_not_with_the_isr(node: Node) -> None:
    node.follow(*a_topic(replicas=(2, 1, 3)))
    assert node.hosted.take_followings() == [TP]
    node.follow(change(isr=[2]))
    assert node.hosted.take_followings() == [], "the fetcher goes on"
    node.follow(change(leader=3))
    assert node.hosted.take_followings() == [TP]
    assert node.hosted.get(TP).leader_id == 3
    node.follow(change(leader=3))
    assert node.hosted.take_followings() == [TP], "the same leader in a new epoch"
    node.follow(change(leader=-1))
    assert node.hosted.take_followings() == [TP]


def test_followings_end_with_leadership_and_with_the_replica(node: Node) -> None:
    node.follow(*a_topic(partitions=3, replicas=(2, 1)))
    node.hosted.take_followings()
    node.follow(change(0, leader=1), change(1, replicas=[2], isr=[2]))
    assert node.hosted.take_followings() == [TP, TopicPartition("t", 1)]
    node.follow(change(0, isr=[1]))
    assert node.hosted.take_followings() == [], "a leader follows nobody"
    node.follow(RemoveTopicRecord(topic_id=TOPIC_ID))

    assert node.hosted.take_followings() == [TopicPartition("t", 2)]


# -- replicas that were away --------------------------------------------------------------------


def adding(replicas: list[int], adding: list[int], isr: list[int]) -> MetadataRecord:
    return PartitionChangeRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=replicas,
        adding_replicas=adding,
        isr=isr,
    )


def test_a_replica_that_is_removed_goes_and_comes_back_empty(node: Node) -> None:
    node.follow(*a_topic(replicas=(2, 1)))
    node.hosted.get(TP).log.append_as_follower(batch(("k", "v"), base_offset=0))

    node.follow(change(replicas=[2, 3], isr=[2, 3]))
    assert node.hosted.find(TP) is None
    assert node.hosted.take_removed() == [TP]
    node.follow(adding([2, 3, 1], [1], [2, 3]))

    assert node.hosted.get(TP).log.log_end_offset == 0


def test_a_replica_that_was_away_and_back_while_the_broker_was_down_starts_empty(
    node: Node,
) -> None:
    node.follow(*a_topic(replicas=(2, 1)))
    node.hosted.get(TP).log.append_as_follower(batch(("k", "v"), base_offset=0))
    node.log_dir.close()
    # Not seen by this broker: it was removed, and is being added again.
    node.image, _ = apply(node.image, [change(replicas=[2], isr=[2])])
    node.image, _ = apply(node.image, [adding([2, 1], [1], [2])])

    node.start()

    assert node.hosted.get(TP).log.log_end_offset == 0
    assert any(name.endswith("-delete") for name in node.fs.list_dir("/data"))


def test_a_replica_that_was_in_sync_keeps_its_log_while_others_are_added(node: Node) -> None:
    node.follow(*a_topic(replicas=(2, 1)))
    node.hosted.get(TP).log.append_as_follower(batch(("k", "v"), base_offset=0))
    node.log_dir.close()
    node.image, _ = apply(node.image, [adding([2, 1, 3], [3], [2])])

    node.start()

    assert node.hosted.get(TP).log.log_end_offset == 1


def test_one_delta_that_removes_and_adds_again_wipes_the_log(node: Node) -> None:
    """As after a snapshot of the metadata, which shows only what came of it."""
    node.follow(*a_topic(replicas=(2, 1)))
    node.hosted.get(TP).log.append_as_follower(batch(("k", "v"), base_offset=0))

    node.follow(change(replicas=[2], isr=[2]), adding([2, 1], [1], [2]))

    assert node.hosted.get(TP).log.log_end_offset == 0
    assert node.hosted.take_removed() == [TP]


# -- directories -----------------------------------------------------------------------------------


class TwoDirectories(Node):
    """Each partition in one of them, of which the controller has not been told."""

    def start(self) -> None:
        dirs = [
            open_log_dir(self.fs, self.clock, SeededDice(seed), path, node_id=1, cluster_id="c")
            for seed, path in enumerate(("/data", "/other"), 1)
        ]
        self.log_dir, self.other = dirs
        self.log_dirs = LogDirs(metadata=self.log_dir, online=dirs, may_fail=True)
        self.hosted = HostedPartitions(self.log_dirs, 1, {})
        self.hosted.load(self.image)

    def fail_other(self) -> list[TopicPartition]:
        self.log_dirs.io_error(self.other, OSError(errno.EIO, "gone"))
        ((log_dir, reason),) = self.log_dirs.take_failures()
        return self.hosted.directory_failed(log_dir, reason)


def test_partition_of_a_failed_directory_is_not_made_again_elsewhere() -> None:
    node = TwoDirectories()
    node.follow(*a_topic(partitions=2, replicas=(1, 2)))
    node.hosted.take_assignments()
    (lost,) = (each for each in node.other.logs)
    node.hosted.get(lost).append(batch(("k", "v")), acks=1)
    topic_id, directory_id = TOPIC_ID, node.other.meta.directory_id

    assert node.fail_other() == [lost]
    # Whether or not it was told before: it counts as online until the controller knows.
    assert node.hosted.take_assignments() == {lost: (topic_id, directory_id)}
    node.follow(change(number=lost.partition, isr=[1]))
    node.follow(change(number=lost.partition, leader=2))
    node.follow(change(number=lost.partition, leader=1))
    with pytest.raises(LogStorageError, match="/other is offline"):
        node.hosted.get(lost)
    assert lost not in node.log_dir.logs
    # Assigned away and back it is another replica.
    node.follow(change(number=lost.partition, leader=2, isr=[2], replicas=[2]))
    node.follow(change(number=lost.partition, replicas=[2, 1]))

    assert node.hosted.get(lost).log.log_end_offset == 0
