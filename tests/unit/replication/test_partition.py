"""One hosted partition: who may ask, and how the high watermark moves."""

import pytest

from ledgerstone.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from ledgerstone.replication.partition import Partition
from tests.kit.logs import World, batch


@pytest.fixture
def partition() -> Partition:
    hosted = Partition(log=World().open(), topic_id=bytes(16), node_id=1)
    hosted.assume(leader_id=1, leader_epoch=3, isr=(1,))
    return hosted


def test_leader_alone_commits_what_it_writes(partition: Partition) -> None:
    result = partition.append(batch(("key", "value")), acks=-1)

    assert partition.log.high_watermark == result.last_offset + 1


def test_high_watermark_is_the_least_that_every_in_sync_replica_has(partition: Partition) -> None:
    partition.assume(leader_id=1, leader_epoch=4, isr=(1, 2, 3))
    for _ in range(3):
        partition.append(batch(("key", "value")), acks=1)
    partition.follower_end_offsets.update({2: 3, 3: 1})

    moved = partition.advance_high_watermark(), partition.advance_high_watermark()

    assert moved == (True, False)
    assert partition.log.high_watermark == 1


def test_high_watermark_stands_still_while_too_few_are_in_sync(partition: Partition) -> None:
    partition.min_insync_replicas = 2

    partition.append(batch(("key", "value")), acks=1)

    assert partition.log.high_watermark == 0
    with pytest.raises(NotEnoughReplicas):
        partition.append(batch(("key", "value")), acks=-1)
    assert partition.log.log_end_offset == 1


def test_new_leader_notes_where_its_epoch_begins_and_forgets_old_followers(
    partition: Partition,
) -> None:
    partition.append(batch(("key", "value")), acks=1)
    partition.follower_end_offsets[2] = 9

    partition.assume(leader_id=1, leader_epoch=5, isr=(1, 2))

    assert partition.log.epochs.end_offset_for(3, partition.log.log_end_offset) == (3, 1)
    assert partition.log.epochs.latest_epoch == 5
    assert partition.follower_end_offsets == {}


def test_same_epoch_again_changes_the_replicas_and_nothing_else(partition: Partition) -> None:
    partition.follower_end_offsets[2] = 9

    partition.assume(leader_id=1, leader_epoch=3, isr=(1, 2))

    assert partition.isr == (1, 2)
    assert partition.follower_end_offsets == {2: 9}


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


def test_follower_serves_nobody(partition: Partition) -> None:
    partition.assume(leader_id=2, leader_epoch=4, isr=(1, 2))

    with pytest.raises(NotLeaderOrFollower, match="led by 2"):
        partition.append(batch(("key", "value")), acks=1)
    assert partition.log.log_end_offset == 0
