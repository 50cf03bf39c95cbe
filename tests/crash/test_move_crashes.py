"""A broker that dies at any operation on its disk while a replica moves to another directory.

Whatever dies, the replica is in one directory, and it has every record that was acknowledged: the
old log and its copy never both count, and never neither. After a start the move goes on to its end.
"""

from contextlib import suppress

import pytest

from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.types import TopicPartition
from tests.kit.in_process import InProcess
from tests.unit.server.asks import TOPIC, create_topic, write
from tests.unit.server.test_log_dirs import held_by
from tests.unit.server.test_replica_moves import move, read_all_of, settle

TP = TopicPartition(TOPIC, 0)
# Every n-th operation; the slow one takes them all.
STEP = 7


class Story:
    """Two sealed segments and a last one, moved while a writer goes on; each value is synced."""

    def __init__(self) -> None:
        self.machine = InProcess(settings={"log.dirs": "/a,/b"})
        create_topic(self.machine.connect(), flush_messages="1")
        self.machine.advance(1)
        self.values: list[str] = []
        for _ in range(2):
            self.write(3)
            self.machine.broker.partitions.get(TP).log.roll()
        self.write(2)

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            value = f"value {len(self.values)}"
            write(self.machine.connect(), value)
            self.values.append(value)

    def run(self, target: str = "/b") -> None:
        assert move(self.machine.connect(), target) == 0
        moves = self.machine.broker.directories.moves
        while moves.under_way:
            self.machine.perform(self.machine.broker.tick())
            if len(self.values) < 12:
                self.write()
        self.write(2)
        # The old directory goes, too.
        self.machine.advance(61_000)


def operations_of_a_story() -> int:
    story = Story()
    before = story.machine.fs.operation_count
    story.run()
    assert held_by(story.machine) == {"/a": [], "/b": [0]}
    return story.machine.fs.operation_count - before


def check_death_at(operation: int, power_loss: PowerLoss | None) -> None:
    story = Story()
    machine = story.machine
    machine.fs.crash_at(machine.fs.operation_count + operation, torn=operation % 2 == 1)
    with suppress(SimulatedCrash):
        story.run()

    if power_loss is None:
        machine.kill()
    else:
        machine.lose_power(power_loss)
    check_one_log(story)
    settle(machine)
    check_one_log(story)
    # The wish is durable once the request was answered; before that it may be lost.
    story.write(1)
    machine.kill()
    check_one_log(story)
    machine.check_invariants()


def check_one_log(story: Story) -> None:
    held = held_by(story.machine)
    assert sorted(map(len, held.values())) == [0, 1], held
    assert story.machine.broker.partitions.offline == {}
    found = read_all_of(story.machine.connect())
    # What was being written when the crash came may be there.
    assert found[: len(story.values)] == story.values
    assert len(found) <= len(story.values) + 1
    story.values = found


WAYS: list[PowerLoss | None] = [None, "none", "all", "random"]


def test_without_a_crash_the_replica_is_in_the_new_directory() -> None:
    story = Story()

    story.run()

    assert held_by(story.machine) == {"/a": [], "/b": [0]}
    assert read_all_of(story.machine.connect()) == story.values
    story.run("/a")
    assert held_by(story.machine) == {"/a": [0], "/b": []}
    assert read_all_of(story.machine.connect()) == story.values


@pytest.mark.parametrize("way", WAYS)
def test_death_at_some_operations_of_a_move_loses_nothing(way: PowerLoss | None) -> None:
    start = WAYS.index(way)
    for operation in range(1 + start, operations_of_a_story(), STEP):
        check_death_at(operation, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_death_at_any_operation_of_a_move_loses_nothing(way: PowerLoss | None) -> None:
    for operation in range(1, operations_of_a_story()):
        check_death_at(operation, way)
