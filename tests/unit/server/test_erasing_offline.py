"""Erasures on a single broker while a partition of their topic is offline."""

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.types import TopicPartition
from tests.unit.server.erasing_kit import KEY, TOPIC, ErasingMachine, machine_with


def held_at(stage: Stage) -> tuple[ErasingMachine, str]:
    """The erasure of a key in two partitions."""
    machine = machine_with(partitions=2)
    machine.put(0, (KEY, b"Ulm"))
    machine.put(1, (KEY, b"Bonn"))
    if stage is Stage.TOMBSTONED:
        machine.held_passes = []
    erasure_id = machine.erase()
    machine.run(erasure_id, until=stage)
    assert machine.erasure(erasure_id).stage is stage
    return machine, erasure_id


def take_offline(machine: ErasingMachine) -> None:
    """As damage that is found in it does; the next start opens it again."""
    tp = TopicPartition(TOPIC, 1)
    machine.broker.partitions._let_go(tp)
    machine.broker.partitions.offline[tp] = "its log is damaged"


@pytest.mark.parametrize("stage", [Stage.TOMBSTONED, Stage.STAMPED, Stage.REMOVED])
def test_no_stage_is_reached_where_a_partition_is_offline(stage: Stage) -> None:
    """It counted as gone: the receipt told times at which its tombstone was still there."""
    machine, erasure_id = held_at(stage)
    take_offline(machine)
    machine.release()

    machine.run(erasure_id)
    waits_for = machine.broker.erasing.outlooks[erasure_id].waits_for

    assert machine.erasure(erasure_id).stage is stage
    assert waits_for == f"{TOPIC}-1: it is not here: its log is damaged"
    machine.kill()
    assert machine.run(erasure_id).stage is Stage.RECEIPTED
