"""A crash at every disk operation of everything a log does, then a start, then nothing is wrong.

What "nothing is wrong" means is `Machine.check` in the kit: what was promised is there, nothing is
there twice or out of order, indexes agree with the log, no temporary file is left, a second start
gives the same, and the log goes on where it stopped.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from ledgerstone.types import TopicPartition
from tests.kit.log_checks import check_log
from tests.kit.logs import all_records, batch, unlink_due
from tests.kit.machines import DATA, SMALL, TOPIC_ID, Machine
from tests.kit.sweeps import (
    ALL_SAVED,
    KILLED,
    NOTHING_SAVED,
    TORN,
    Work,
    deaths,
    random_deaths,
    sweep,
    sweep_twice,
)
from tests.kit.workloads import (
    append_everything,
    append_plainly,
    change_leader_epochs,
    delete_by_size_and_time,
    delete_records_then_segments,
    deleting,
    flush,
    flush_beside_a_roll,
    flushed_by_message,
    killed,
    nothing,
    overflowed,
    preallocated,
    roll,
    stop,
    stopped,
    swap_away_the_tail,
    swap_three_and_drop_tombstones,
    swap_to_nothing,
    swap_two,
    truncate,
    truncate_fully,
    with_keys_to_clean,
    with_superseded_tails,
    write_checkpoints,
)


class Scenario(NamedTuple):
    """A disk with a past, and work during which it all ends."""

    prepare: Callable[[], Machine]
    work: Work
    from_boot: bool = False


SCENARIOS = {
    "append": Scenario(killed, append_everything),
    "append with flush.messages=1": Scenario(flushed_by_message, append_plainly),
    "append to preallocated segments": Scenario(preallocated, append_plainly),
    "roll": Scenario(stopped, roll),
    "roll preallocated": Scenario(preallocated, roll),
    "flush": Scenario(killed, flush),
    "flush beside a roll": Scenario(stopped, flush_beside_a_roll),
    "checkpoints": Scenario(killed, write_checkpoints),
    "leader epochs": Scenario(stopped, change_leader_epochs),
    "retention": Scenario(deleting, delete_by_size_and_time),
    "delete records": Scenario(deleting, delete_records_then_segments),
    "truncate": Scenario(stopped, truncate),
    "truncate what was not flushed": Scenario(killed, truncate),
    "truncate fully": Scenario(stopped, truncate_fully),
    "swap two": Scenario(with_keys_to_clean, swap_two),
    "swap three": Scenario(with_keys_to_clean, swap_three_and_drop_tombstones),
    "swap away the tail": Scenario(with_superseded_tails, swap_away_the_tail),
    "swap to nothing": Scenario(with_superseded_tails, swap_to_nothing),
    "stop": Scenario(killed, stop),
    "start after a clean stop": Scenario(stopped, nothing, from_boot=True),
    "start after a kill": Scenario(killed, nothing, from_boot=True),
    "start of preallocated segments": Scenario(preallocated, nothing, from_boot=True),
    "split": Scenario(overflowed, nothing, from_boot=True),
    "first start": Scenario(Machine, nothing, from_boot=True),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_operation_keeps_every_promise(name: str) -> None:
    scenario = SCENARIOS[name]

    # A kill and a power loss at each: alternately the bare ones, and torn with some of it saved.
    ways = [KILLED, NOTHING_SAVED, TORN, *random_deaths(1)]
    cases = sweep(
        scenario.prepare(), scenario.work, ways, from_boot=scenario.from_boot, per_operation=2
    )

    assert cases > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_of_any_kind_at_any_operation_keeps_every_promise(name: str) -> None:
    scenario = SCENARIOS[name]

    cases = sweep(scenario.prepare(), scenario.work, deaths(1), from_boot=scenario.from_boot)

    assert cases > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_power_loss_at_any_operation_keeps_every_promise_whatever_was_saved(name: str) -> None:
    scenario = SCENARIOS[name]

    ways = [ALL_SAVED, *random_deaths(60)]
    cases = sweep(scenario.prepare(), scenario.work, ways, from_boot=scenario.from_boot)

    assert cases > len(ways)


def test_a_swap_is_settled_even_if_settling_it_is_interrupted() -> None:
    """At some operations; the slow sweep below dies at each of them."""
    cases = sweep_twice(with_keys_to_clean(), swap_two, [KILLED], step=5)

    assert cases > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCENARIOS if not SCENARIOS[name].from_boot])
def test_a_crash_in_the_recovery_from_any_crash_keeps_every_promise(name: str) -> None:
    scenario = SCENARIOS[name]

    cases = sweep_twice(
        scenario.prepare(), scenario.work, [KILLED, NOTHING_SAVED, *random_deaths(1)]
    )

    assert cases > 100


def test_keys_keep_their_values_when_a_swap_that_dropped_its_tail_is_interrupted() -> None:
    prepared = with_superseded_tails()
    prepared.start()
    values = latest_values(prepared)
    prepared.kill()

    def values_are_the_same(machine: Machine) -> None:
        assert latest_values(machine) == values

    def swap(machine: Machine) -> None:
        machine.swap(1, 3, drop_tombstones=False, keep_tail=False)

    assert sweep(prepared, swap, deaths(1), check=values_are_the_same) > 0


def latest_values(machine: Machine) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in all_records(machine.log)}


# -- other partitions ---------------------------------------------------------------------------

OTHER = TopicPartition("other", 3)
OTHER_ID = bytes(range(2, 18))


def with_another_partition() -> Machine:
    """The other log has an offset in every checkpoint."""
    machine = Machine()
    machine.start()
    other = machine.log_dir.create(OTHER, SMALL, topic_id=OTHER_ID)
    for _ in range(6):
        other.append_as_leader(batch(("k", "v")), leader_epoch=0)
    other.flush()
    other.advance_high_watermark(6)
    other.raise_log_start_offset(5)
    machine.append_keys("a", "b")
    machine.stop()
    return machine


def test_a_partition_is_created_whole_or_can_be_created_again() -> None:
    def create(machine: Machine) -> None:
        log = machine.log_dir.create(OTHER, SMALL, topic_id=OTHER_ID)
        log.append_as_leader(batch(("k", "v")), leader_epoch=0)
        log.flush()

    def opens_or_can_be_created(machine: Machine) -> None:
        log = machine.log_dir.logs.get(OTHER)
        if log is None:
            log = machine.log_dir.create(OTHER, SMALL, topic_id=OTHER_ID)
        check_log(log)
        assert log.log_end_offset in (0, 1)

    assert sweep(killed(), create, deaths(1), check=opens_or_can_be_created) > 0


def test_a_deleted_partition_is_whole_or_gone_and_leaves_nothing_to_its_successor() -> None:
    def delete(machine: Machine) -> None:
        machine.log_dir.delete(OTHER)
        machine.clock.advance(minutes=2)
        unlink_due(machine.log_dir)

    def is_whole_or_gone(machine: Machine) -> None:
        log = machine.log_dir.logs.get(OTHER)
        if log is not None:
            assert (log.log_start_offset, log.log_end_offset) == (5, 6)
            check_log(log)
            return
        successor = machine.log_dir.create(OTHER, SMALL, topic_id=TOPIC_ID)
        assert (successor.log_start_offset, successor.log_end_offset) == (0, 0)
        assert successor.recovery_point == 0
        unlink_due(machine.log_dir)
        assert not [name for name in machine.fs.list_dir(DATA) if name.endswith("-delete")]

    assert sweep(with_another_partition(), delete, deaths(1), check=is_whole_or_gone) > 0


def test_a_partition_made_anew_is_recovered_from_its_own_beginning() -> None:
    """Its predecessor's recovery point would hide what power loss did to it."""

    def delete_and_make_anew(machine: Machine) -> None:
        machine.log_dir.delete(OTHER)
        log = machine.log_dir.create(OTHER, SMALL, topic_id=TOPIC_ID)
        for _ in range(9):
            log.append_as_leader(batch(("n", "w")), leader_epoch=0)

    def is_sound(machine: Machine) -> None:
        if OTHER in machine.log_dir.logs:
            check_log(machine.log_dir.logs[OTHER])

    assert sweep(with_another_partition(), delete_and_make_anew, deaths(1), check=is_sound) > 0
