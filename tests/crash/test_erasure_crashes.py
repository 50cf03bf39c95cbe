"""A broker that dies at any operation on its disk while an erasure is under way."""

import json
from contextlib import suppress

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.receipt import verify
from ledgerstone.sim.filesystem import SimulatedCrash
from tests.unit.server.asks import commit_offset
from tests.unit.server.erasing_kit import KEY, TOPIC, ErasingMachine, machine_with

# Every n-th operation; the slow ones take them all.
STEP = 36


def prepared() -> ErasingMachine:
    machine = machine_with(partitions=2, delete_retention_ms="60000")
    machine.put(0, (KEY, b"lives in Ulm"), (b"bob", b"1"))
    machine.put(1, (b"carol", b"1"), (KEY, b"stray"))
    for partition in machine.broker.partitions:
        partition.log.flush()
    return machine


def operations_of_an_erasure() -> int:
    machine = prepared()
    before = machine.fs.operation_count
    machine.run(machine.erase())
    return machine.fs.operation_count - before


def check_death_at(operation: int, *, is_power_lost: bool) -> None:
    machine = prepared()
    machine.fs.crash_at(machine.fs.operation_count + operation, torn=operation % 2 == 1)
    erasure_id: str | None = None
    with suppress(SimulatedCrash):
        erasure_id = machine.erase()
        machine.run(erasure_id)

    if is_power_lost:
        machine.lose_power("random")
    else:
        machine.kill()

    # No crash may look like tampering with the journal, neither this one nor the next.
    assert machine.broker.erasing.journal.breaks == [], operation
    known = list(machine.broker.erasing.journal.book)
    if erasure_id is None and not known:
        # No response was sent, so there was no request.
        erasure_id = machine.erase()
    else:
        (erasure,) = known
        erasure_id = erasure.id
    done = machine.run(erasure_id)
    assert done.stage is Stage.RECEIPTED, (operation, machine.broker.erasing.outlooks)
    assert [each.partition for each in done.tombstones] == [0, 1]
    assert done.receipt is not None
    assert verify(done.receipt.encode()).ok
    assert not machine.files_with(KEY)
    machine.check_invariants()
    machine.lose_power("random")
    assert machine.broker.erasing.journal.breaks == [], operation
    assert machine.erasure(erasure_id).receipt == done.receipt


@pytest.mark.parametrize("is_power_lost", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("start", range(3))
def test_death_at_some_operations_changes_nothing_but_time(start: int, is_power_lost: bool) -> None:
    for operation in range(1 + start * STEP // 3, operations_of_an_erasure(), STEP):
        check_death_at(operation, is_power_lost=is_power_lost)


@pytest.mark.slow
@pytest.mark.parametrize("is_power_lost", [False, True], ids=["killed", "power lost"])
def test_death_at_any_operation_changes_nothing_but_time(is_power_lost: bool) -> None:
    for operation in range(1, operations_of_an_erasure()):
        check_death_at(operation, is_power_lost=is_power_lost)


# -- what groups had read -------------------------------------------------------------------------


def with_groups() -> ErasingMachine:
    """A group that has read far, and one that stays behind."""
    machine = machine_with(partitions=1, delete_retention_ms="60000")
    machine.put(0, (KEY, b"lives in Ulm"), (b"bob", b"1"), (b"carol", b"1"))
    assert commit_offset(machine.connect(), "fast", 9, TOPIC) == 0
    assert commit_offset(machine.connect(), "slow", 1, TOPIC) == 0
    for partition in machine.broker.partitions:
        partition.log.flush()
    return machine


def check_outputs_after_death_at(operation: int) -> None:
    machine = with_groups()
    machine.fs.crash_at(machine.fs.operation_count + operation, torn=operation % 2 == 1)
    with suppress(SimulatedCrash):
        machine.run(machine.erase())

    machine.kill()
    known = [each.id for each in machine.broker.erasing.journal.book]
    done = machine.run(known[0] if known else machine.erase())

    assert done.receipt is not None, operation
    found = {each["name"]: each["reason"] for each in json.loads(done.receipt)["outputs"]}
    assert found == {"fast": "", "slow": "missed_tombstone"}, operation


def operations_with_groups() -> int:
    machine = with_groups()
    before = machine.fs.operation_count
    machine.run(machine.erase())
    return machine.fs.operation_count - before


def test_death_at_a_few_operations_forgets_no_group() -> None:
    for operation in range(5, operations_with_groups(), 2 * STEP):
        check_outputs_after_death_at(operation)


@pytest.mark.slow
def test_death_at_any_operation_forgets_no_group() -> None:
    for operation in range(1, operations_with_groups()):
        check_outputs_after_death_at(operation)
