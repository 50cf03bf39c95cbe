"""A follower's log: what the leader answered goes in, and nothing from another epoch."""

import pytest

from ledgerstone.errors import InvariantViolation, NotLeaderOrFollower, OffsetOutOfRange
from ledgerstone.replication.partition import Partition
from tests.kit.followers import FOLLOWER, LEADER, Disk, led
from tests.kit.logs import TP, World, batch
from tests.kit.roles import led_by


@pytest.fixture
def partition() -> Partition:
    hosted = Disk().partition(TP)
    hosted.assume(led(3))
    return hosted


def a_batch(base_offset: int, count: int = 1, leader_epoch: int = 3) -> bytes:
    pairs = [(f"k{number}", "v") for number in range(count)]
    return bytes(batch(*pairs, base_offset=base_offset, leader_epoch=leader_epoch))


def append(partition: Partition, records: bytes, **said: int) -> tuple[bool, bool, bool]:
    told = {"leader_epoch": 3, "high_watermark": 0, "log_start_offset": 0, **said}
    return partition.append_as_follower(memoryview(records), **told)


def test_says_what_changed(partition: Partition) -> None:
    assert append(partition, a_batch(0, 5)) == (True, False, False)
    assert append(partition, b"", high_watermark=3) == (False, True, False)
    assert append(partition, b"", high_watermark=3, log_start_offset=2) == (False, False, True)
    assert append(partition, a_batch(5), high_watermark=99) == (True, True, False)
    log = partition.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 6, 6)


def test_log_start_beyond_the_high_watermark_waits(partition: Partition) -> None:
    append(partition, a_batch(0, 5), high_watermark=2, log_start_offset=4)
    assert partition.log.log_start_offset == 2
    append(partition, b"", high_watermark=5, log_start_offset=4)

    assert partition.log.log_start_offset == 4


@pytest.mark.parametrize("leader_epoch", [2, 4])
def test_answer_of_another_epoch_is_refused(partition: Partition, leader_epoch: int) -> None:
    with pytest.raises(NotLeaderOrFollower):
        append(partition, a_batch(0), leader_epoch=leader_epoch)

    assert partition.log.log_end_offset == 0


def test_leader_takes_nothing_from_others(partition: Partition) -> None:
    append(partition, a_batch(0, 5))
    partition.assume(led_by(FOLLOWER, 4, (FOLLOWER, LEADER)))
    for act in (
        lambda: append(partition, a_batch(5), leader_epoch=4),
        lambda: partition.truncate_to(2),
        lambda: partition.restart_at(9),
    ):
        with pytest.raises(NotLeaderOrFollower):
            act()
    assert partition.log.log_end_offset == 5


def test_truncation_lowers_the_checkpoint_first(partition: Partition) -> None:
    append(partition, a_batch(0, 5) + a_batch(5, 5), high_watermark=10)
    partition.log.flush()
    partition.truncate_to(5)

    log = partition.log
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (5, 5, 5)


def test_restart_forgets_everything(partition: Partition) -> None:
    append(partition, a_batch(0, 5), high_watermark=5)
    partition.restart_at(40)

    log = partition.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (40, 40, 40)
    assert log.epochs.entries() == []


def test_only_an_empty_log_may_begin_inside_a_batch(partition: Partition) -> None:
    partition.restart_at(3)
    append(partition, a_batch(0, 5), high_watermark=5, log_start_offset=3)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (3, 5)

    with pytest.raises(OffsetOutOfRange):
        append(partition, a_batch(4, 3))
    assert partition.log.log_end_offset == 5


def test_batch_that_ends_before_an_empty_log_begins_is_refused(partition: Partition) -> None:
    partition.restart_at(9)
    with pytest.raises(OffsetOutOfRange):
        append(partition, a_batch(0, 5))

    assert partition.log.log_start_offset == 9


def test_log_that_nothing_can_cut_is_not_cut() -> None:
    hosted = Partition(log=World().open(), topic_id=bytes(16), node_id=FOLLOWER)
    hosted.assume(led(3))
    with pytest.raises(InvariantViolation):
        hosted.truncate_to(0)
