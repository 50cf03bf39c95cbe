"""A leader that dies at every disk operation of the pass that removes a tombstone.

Whatever is left: a log without the tombstone comes with a mark that says so. Without it, a replica
that needs the tombstone would be let through.
"""

import pytest

from ledgerstone.replication.partition_removal import FollowerReport, PartitionRemoval
from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.storage.removal_marks import decode_marks
from tests.crash.test_cleaning_crashes import LIVING, STRIDE, die, prepared
from tests.kit.in_process import InProcess
from tests.kit.roles import change_partition
from tests.kit.sweeps import ALL_SAVED, KILLED, NOTHING_SAVED, Death, random_deaths
from tests.unit.server.test_cleaning import TP, compact_now, compact_twice, on_disk

MARKS = "/data/events-0/removal-marks"
TOMBSTONE = 6
OTHER = 2


def replicated(seed: int = 0) -> InProcess:
    """Its follower has been through everything, and so has a first pass here."""
    machine = prepared(seed)
    change_partition(machine, TP, replicas=[1, OTHER], isr=[1])
    partition = machine.broker.partitions.get(TP)
    knowledge = machine.broker.cleaning.knowledge()
    partition.removal = PartitionRemoval(log=partition.log, knowledge=knowledge)
    partition.removal.assume(partition.role)
    partition.removal.reported(OTHER, FollowerReport(clean_to=TOMBSTONE + 1, removed_to=0))
    compact_now(machine)
    assert ("a", None) in on_disk(machine)
    return machine


def check(machine: InProcess, crash_at: int) -> None:
    content = machine.fs.files().get(MARKS)
    removed_to = 0 if content is None else decode_marks(bytes(content), MARKS)
    if ("a", None) not in on_disk(machine):
        assert removed_to == TOMBSTONE + 1, crash_at
    compact_twice(machine)
    assert on_disk(machine) == LIVING, crash_at


def sweep(ways: list[Death], stride: int) -> int:
    probe = replicated()
    begun = probe.fs.operation_count
    compact_now(probe)
    assert ("a", None) not in on_disk(probe)
    operations = probe.fs.operation_count - begun
    for seed, way in enumerate(ways):
        for crash_at in range(seed % stride, operations, stride):
            machine = replicated(seed)
            machine.fs.crash_at(machine.fs.operation_count + 1 + crash_at)
            with pytest.raises(SimulatedCrash):
                compact_now(machine)
            die(machine, way)
            check(machine, crash_at)
    return operations


def test_crash_at_any_operation_leaves_a_mark_where_a_tombstone_is_gone() -> None:
    assert sweep([KILLED, NOTHING_SAVED], 2 * STRIDE) > 30


@pytest.mark.slow
def test_crash_at_every_operation_leaves_a_mark_where_a_tombstone_is_gone() -> None:
    assert sweep([KILLED, NOTHING_SAVED, ALL_SAVED, *random_deaths(4)], 1) > 30
