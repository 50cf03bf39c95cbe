"""A whole broker that dies at every disk operation of two passes over several groups.

The values of a key lie in the first group, its tombstone in the last: a swap that came too late, or
a checkpoint that came too early, would bring the key back.
"""

import pytest

from ledgerstone.sim.filesystem import SimulatedCrash
from tests.kit.in_process import InProcess
from tests.kit.sweeps import ALL_SAVED, KILLED, NOTHING_SAVED, Death, random_deaths
from tests.unit.server.test_cleaning import (
    checkpoint,
    compact_now,
    compact_twice,
    compacted,
    log_of,
    on_disk,
    put,
    roll,
)

LONG = "x" * 100
LIVING = [("b", LONG), ("c", LONG), ("d", "2")]
GROUPS = 3
# The default suite looks at every so manieth operation, the sweep at all.
STRIDE = 7


def prepared(seed: int = 0) -> InProcess:
    machine = InProcess(seed)
    client = machine.connect()
    compacted(client, segment_bytes="400", delete_retention_ms="0", min_cleanable_dirty_ratio="1.0")
    put(machine, client, ("a", LONG), ("b", LONG), ("d", LONG))
    put(machine, client, ("a", LONG), ("c", LONG), ("d", "2"))
    put(machine, client, ("a", None))
    roll(machine)
    # Time enough for a flush, so that losing power takes nothing that was acknowledged.
    machine.advance(2_000)
    return machine


def die(machine: InProcess, way: Death) -> None:
    if way.power_loss is None:
        machine.kill()
    else:
        machine.lose_power(way.power_loss)


def check(machine: InProcess, crash_at: int) -> None:
    state = dict(on_disk(machine))
    living = [(key, value) for key, value in sorted(state.items()) if value is not None]
    assert living == sorted(LIVING), crash_at
    assert log_of(machine).log_end_offset == 7, crash_at
    assert checkpoint(machine).get("events-0", 0) in (0, 7), crash_at
    compact_twice(machine)
    assert on_disk(machine) == LIVING, crash_at
    machine.advance(120_000)
    left = [path for path in machine.fs.files() if path.endswith((".cleaned", ".swap", ".deleted"))]
    assert left == [], crash_at


def sweep(ways: list[Death], stride: int) -> int:
    probe = prepared()
    begun = probe.fs.operation_count
    compact_twice(probe)
    operations = probe.fs.operation_count - begun
    for seed, way in enumerate(ways):
        for crash_at in range(seed % stride, operations, stride):
            machine = prepared(seed)
            machine.fs.crash_at(machine.fs.operation_count + 1 + crash_at)
            with pytest.raises(SimulatedCrash):
                compact_twice(machine)
            die(machine, way)
            check(machine, crash_at)
    return operations


def test_story_has_several_groups() -> None:
    machine = prepared()

    ticket = compact_now(machine)

    assert ticket.run is not None
    assert ticket.run.segments_after == GROUPS
    assert ticket.run.stats.dropped_superseded == 3


def test_crash_at_any_operation_never_brings_a_deleted_key_back() -> None:
    ways = [KILLED, NOTHING_SAVED, ALL_SAVED, *random_deaths(2)]

    operations = sweep(ways, STRIDE)

    assert operations > 100


@pytest.mark.slow
def test_crash_at_every_operation_never_brings_a_deleted_key_back() -> None:
    ways = [KILLED, NOTHING_SAVED, ALL_SAVED, *random_deaths(6)]

    operations = sweep(ways, 1)

    assert operations > 100
