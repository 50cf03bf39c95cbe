"""Replays that leave room for others: slices, several machines, damage, and machines that leave."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ledgerstone.errors import CorruptRecord, OffsetOutOfRange
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.sliced_replay import SLICE_RECORDS, SlicedReplays
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.types import TopicPartition
from tests.kit.logs import T0


@dataclass
class Machine:
    partition: Partition
    records: int
    clock: VirtualClock
    costs_ms: int = 0
    damaged_at: int | None = None
    error: Exception = field(default_factory=lambda: CorruptRecord("no record"))
    replayed: list[int] = field(default_factory=list)

    def load(self) -> Iterator[int]:
        for offset in range(self.records):
            yield offset
            if offset == self.damaged_at:
                raise self.error
            self.clock.advance(ms=self.costs_ms)
            self.replayed.append(offset)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start_ms=T0)


@pytest.fixture
def partition(clock: VirtualClock) -> Partition:
    dice = SeededDice(0)
    log_dir = open_log_dir(SimFilesystem(dice=dice, clock=clock), clock, dice, "/data")
    log = log_dir.create(TopicPartition("t", 0), LogConfig())
    return Partition(log=log, topic_id=bytes(16), node_id=1)


def test_short_logs_are_replayed_together(clock: VirtualClock, partition: Partition) -> None:
    replays = SlicedReplays[Machine](clock)
    for number in (7, 3):
        replays.add(number, Machine(partition, 10, clock))

    ended = replays.work_off()

    assert [(each.number, each.is_damaged) for each in ended] == [(7, False), (3, False)]
    assert [len(each.hosted.replayed) for each in ended] == [10, 10]
    assert not len(replays)


def test_a_long_log_is_replayed_in_slices_that_others_wait_for(
    clock: VirtualClock, partition: Partition
) -> None:
    replays = SlicedReplays[Machine](clock)
    long = Machine(partition, SLICE_RECORDS + 10, clock)
    short = Machine(partition, 10, clock)
    replays.add(0, long)
    replays.add(1, short)

    assert replays.work_off() == []
    assert SLICE_RECORDS - 1 <= len(long.replayed) <= SLICE_RECORDS
    assert short.replayed == []
    assert [each.number for each in replays.work_off()] == [0, 1]
    assert long.replayed == list(range(SLICE_RECORDS + 10))


def test_a_slice_ends_when_its_time_is_up(clock: VirtualClock, partition: Partition) -> None:
    replays = SlicedReplays[Machine](clock)
    slow = Machine(partition, 1000, clock, costs_ms=1)
    replays.add(0, slow)
    began_ms = clock.monotonic_ms()

    assert replays.work_off() == []

    assert clock.monotonic_ms() - began_ms < 100
    assert len(replays) == 1


@pytest.mark.parametrize(
    "error",
    [
        CorruptRecord("no record"),
        OffsetOutOfRange("the log begins later by now"),
        OSError(errno.EIO, "cannot be read"),
    ],
)
def test_what_cannot_be_replayed_is_marked_where_it_stopped(
    clock: VirtualClock, partition: Partition, error: Exception
) -> None:
    replays = SlicedReplays[Machine](clock)
    stops_at = SLICE_RECORDS + 3
    long = Machine(partition, SLICE_RECORDS + 10, clock, damaged_at=stops_at, error=error)
    replays.add(0, long)
    replays.add(1, Machine(partition, 1, clock))
    replays.work_off()

    ended = replays.work_off()

    assert [(each.number, each.is_damaged) for each in ended] == [(0, True), (1, False)]
    damage = partition.log.damage
    assert damage is not None
    assert f"after offset {stops_at}" in str(damage)


def test_a_machine_that_leaves_is_not_replayed_any_further(
    clock: VirtualClock, partition: Partition
) -> None:
    replays = SlicedReplays[Machine](clock)
    long = Machine(partition, SLICE_RECORDS + 10, clock)
    replays.add(0, long)
    replays.work_off()

    replays.forget(0)
    replays.forget(0)

    assert replays.work_off() == []
    assert len(long.replayed) <= SLICE_RECORDS
