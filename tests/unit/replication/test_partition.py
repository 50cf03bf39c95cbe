"""One hosted partition: its role, who may ask, and how the high watermark moves."""

import errno

import pytest

from ledgerstone.errors import (
    FencedLeaderEpoch,
    LogStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from ledgerstone.replication.follower import Follower
from ledgerstone.replication.leadership import Leadership
from ledgerstone.replication.partition import Partition
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.types import NO_OFFSET
from tests.kit.logs import World, batch
from tests.kit.roles import followed, leader_of, led_by


@pytest.fixture
def partition() -> Partition:
    hosted = Partition(log=World().open(), topic_id=bytes(16), node_id=1)
    hosted.assume(led_by(1, 3, (1,)))
    return hosted


def test_leader_alone_commits_what_it_writes(partition: Partition) -> None:
    result = partition.append(batch(("key", "value")), acks=-1)

    assert partition.log.high_watermark == result.last_offset + 1


def test_leader_whose_disk_refuses_the_epoch_takes_no_writes() -> None:
    """It was taken for damage of the metadata log, which had told it to lead."""
    world = World()
    log = world.open()
    told: list[BaseException] = []
    log.on_disk_error = told.append
    hosted = Partition(log=log, topic_id=bytes(16), node_id=1)
    assert isinstance(world.fs, SimFilesystem)
    world.fs.fail_matching("fsync", "*leader-epoch-checkpoint*", errno.EIO, times=1)

    hosted.assume(led_by(1, 3, (1,)))
    with pytest.raises(LogStorageError):
        hosted.append(batch(("key", "value")), acks=-1)

    assert [type(each) for each in told] == [OSError]
    with pytest.raises(LogStorageError):
        hosted.append(batch(("key", "value")), acks=-1)


def test_leader_writes_its_epoch_down_with_the_first_batch() -> None:
    """A broker that was given 775 partitions synced a file for each of them. Meanwhile it sent no
    heartbeats, was fenced, came back, and was given them again, without an end."""
    world = World()
    log = world.open()
    hosted = Partition(log=log, topic_id=bytes(16), node_id=1)

    hosted.assume(led_by(1, 3, (1,)))
    hosted.assume(led_by(1, 4, (1,)))
    assert log.epochs.entries() == [(4, 0)]
    assert log.epoch_checkpoint.read() == []
    hosted.append(batch(("key", "value")), acks=-1)

    assert log.epoch_checkpoint.read() == [(4, 0)]


def test_high_watermark_is_the_least_that_every_in_sync_replica_has(partition: Partition) -> None:
    partition.assume(led_by(1, 4, (1, 2, 3)))
    for _ in range(3):
        partition.append(batch(("key", "value")), acks=1)
    followed(partition, 2, 3)
    assert partition.log.high_watermark == 0, "nothing is known of broker 3"
    followed(partition, 3, 1)

    assert partition.log.high_watermark == 1
    assert not leader_of(partition).advance_high_watermark()


def test_replica_that_is_not_in_sync_holds_nothing_back(partition: Partition) -> None:
    partition.assume(led_by(1, 4, (1, 2), replicas=(1, 2, 3)))
    partition.append(batch(("key", "value")), acks=1)

    followed(partition, 2, 1)

    assert partition.log.high_watermark == 1


def test_shrunk_isr_commits_what_the_lost_member_held_back(partition: Partition) -> None:
    partition.assume(led_by(1, 3, (1, 2)))
    partition.append(batch(("key", "value")), acks=1)

    kinds = [
        partition.assume(led_by(1, 3, (1,), replicas=(1, 2), partition_epoch=4)),
        partition.assume(led_by(1, 3, (1,), replicas=(1, 2), partition_epoch=5)),
    ]

    assert partition.log.high_watermark == 1
    assert kinds == [Leadership.COMMITTED, None]


def test_high_watermark_stands_still_while_too_few_are_in_sync(partition: Partition) -> None:
    partition.configure(min_insync_replicas=2)
    partition.assume(led_by(1, 3, (1,), replicas=(1, 2)))

    partition.append(batch(("key", "value")), acks=1)

    assert partition.log.high_watermark == 0
    with pytest.raises(NotEnoughReplicas, match="has 1 in-sync replicas, it needs 2"):
        partition.append(batch(("key", "value")), acks=-1)
    assert partition.log.log_end_offset == 1


def test_more_in_sync_replicas_than_there_are_replicas_cannot_be_wanted(
    partition: Partition,
) -> None:
    partition.configure(min_insync_replicas=2)

    partition.append(batch(("key", "value")), acks=-1)

    assert partition.effective_min_isr == 1
    assert partition.log.high_watermark == 1


def test_new_leader_notes_where_its_epoch_begins_and_knows_nothing_of_followers(
    partition: Partition,
) -> None:
    partition.assume(led_by(1, 3, (1, 2)))
    partition.append(batch(("key", "value")), acks=1)
    followed(partition, 2, 1)
    lost = partition.assume(led_by(2, 4, (1, 2)))

    gained = partition.assume(led_by(1, 5, (1, 2)))

    assert (lost, gained) == (Leadership.LOST, Leadership.GAINED)
    assert partition.log.epochs.end_offset_for(3, partition.log.log_end_offset) == (3, 1)
    assert partition.log.epochs.latest_epoch == 5
    assert leader_of(partition).epoch_start_offset == 1
    assert leader_of(partition).in_sync.followers[2].end_offset == NO_OFFSET


def test_same_leader_in_a_new_epoch_keeps_what_it_knows_of_followers(partition: Partition) -> None:
    partition.assume(led_by(1, 3, (1, 2)))
    partition.append(batch(("key", "value")), acks=1)
    followed(partition, 2, 1)

    kind = partition.assume(led_by(1, 5, (1, 2)))

    assert kind is Leadership.EPOCH_CHANGED
    assert leader_of(partition).in_sync.followers[2].end_offset == 1
    assert leader_of(partition).epoch_start_offset == 1
    assert partition.log.epochs.latest_epoch == 5


def test_same_epoch_again_changes_the_replicas_and_nothing_else(partition: Partition) -> None:
    partition.assume(led_by(1, 3, (1,), replicas=(1, 2)))
    followed(partition, 2, 0)

    kind = partition.assume(led_by(1, 3, (1, 2)))

    assert kind is None
    assert partition.isr == (1, 2)
    assert leader_of(partition).in_sync.followers[2].end_offset == 0


def test_news_of_an_older_partition_epoch_is_ignored(partition: Partition) -> None:
    partition.assume(led_by(1, 3, (1, 2), partition_epoch=7))

    stale = partition.assume(led_by(2, 4, (2,), partition_epoch=6))

    assert stale is None
    assert partition.is_leader
    assert (partition.isr, partition.partition_epoch) == ((1, 2), 7)


@pytest.mark.parametrize(
    ("epoch", "error"), [(2, FencedLeaderEpoch), (4, UnknownLeaderEpoch), (3, None), (-1, None)]
)
def test_request_must_know_the_current_epoch_or_none(
    partition: Partition, epoch: int, error: type[Exception] | None
) -> None:
    if error is None:
        partition.check_leader(epoch)
    else:
        with pytest.raises(error, match="epoch 3"):
            partition.check_leader(epoch)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (3, FencedLeaderEpoch),
        (5, UnknownLeaderEpoch),
        (4, NotLeaderOrFollower),
        (-1, NotLeaderOrFollower),
    ],
)
def test_follower_judges_the_epoch_before_it_sends_to_the_leader(
    partition: Partition, epoch: int, error: type[Exception]
) -> None:
    partition.assume(led_by(2, 4, (1, 2)))

    with pytest.raises(error):
        partition.check_leader(epoch)


@pytest.mark.parametrize("leader", [2, -1])
def test_follower_serves_nobody(partition: Partition, leader: int) -> None:
    kind = partition.assume(led_by(leader, 4, (1, 2)))

    assert kind is Leadership.LOST
    assert isinstance(partition.role, Follower)
    with pytest.raises(NotLeaderOrFollower, match=f"led by {leader}"):
        partition.append(batch(("key", "value")), acks=1)
    assert partition.log.log_end_offset == 0


def test_follower_of_another_follower_loses_nothing(partition: Partition) -> None:
    partition.assume(led_by(2, 4, (1, 2)))

    assert partition.assume(led_by(3, 5, (1, 3))) is None
    assert partition.leader_id == 3
