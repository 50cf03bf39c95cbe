"""EIO and ENOSPC at every disk operation: the error is reported, lost data is never acknowledged.

The process lives on. It may refuse everything from then on, or go on correctly; what it must not
do is acknowledge what it cannot keep, or show a batch that was not written whole.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import pytest

from ledgerstone.errors import LogStorageError, StorageError
from ledgerstone.sim.filesystem import SimFilesystem
from tests.kit.log_checks import batches_of
from tests.kit.machines import Machine
from tests.kit.sweeps import Work, rehearse
from tests.kit.workloads import (
    append_everything,
    append_plainly,
    delete_by_size_and_time,
    deleting,
    flush,
    flushed_by_message,
    killed,
    roll,
    stop,
    stopped,
    swap_three_and_drop_tombstones,
    truncate,
    truncate_fully,
    with_keys_to_clean,
)

TOLD = (LogStorageError, StorageError, OSError)


class Fault(NamedTuple):
    name: str
    plan: Callable[[SimFilesystem, int], None]
    only: str = ""  # the operation it can happen to; any where empty


FAULTS = [
    Fault("EIO", lambda fs, n: fs.fail_at(n, errno.EIO)),
    Fault("ENOSPC", lambda fs, n: fs.fail_at(n, errno.ENOSPC, torn=True), "pwrite"),
    Fault("lost pages", lambda fs, n: fs.fail_at(n, errno.EIO, lose_dirty=True), "fsync "),
]

SCENARIOS: dict[str, tuple[Callable[[], Machine], Work]] = {
    "append": (killed, append_everything),
    "append with flush.messages=1": (flushed_by_message, append_plainly),
    "roll": (stopped, roll),
    "flush": (killed, flush),
    "retention": (deleting, delete_by_size_and_time),
    "truncate": (stopped, truncate),
    "truncate fully": (stopped, truncate_fully),
    "swap": (with_keys_to_clean, swap_three_and_drop_tombstones),
    "stop": (killed, stop),
}


def fail_at_every_operation(
    name: str, *endings: Callable[[Machine], bool], faults: list[Fault] = FAULTS
) -> int:
    """An ending is given the machine after the error, ends it, and says if power was lost. Of
    several, operations take one each, in turn."""
    prepare, work = SCENARIOS[name]
    prepared = prepare()
    rehearsal, points = rehearse(prepared, work)
    cases = 0
    for n in points[:-1]:
        afterwards = endings[n % len(endings)]
        operation = rehearsal.fs.trace[n - 1]
        for fault in faults:
            if not operation.startswith(fault.only):
                continue
            machine = prepared.fork(f"{fault.name}/{n}")
            machine.start()
            fault.plan(machine.fs, n)
            # What can wait is only reported: the log goes on, and writes it with the next batch.
            told = list[BaseException]()
            for log in machine.log_dir.logs.values():
                log.on_disk_error = told.append
            try:
                work(machine)
            except TOLD as error:
                told.append(error)
            assert told, f"{fault.name} at operation {n}: {operation}"
            try:
                power_lost = afterwards(machine)
                machine.start()
                machine.check(power_lost=power_lost)
            except (AssertionError, *TOLD) as error:
                error.add_note(f"{fault.name} at operation {n}: {operation}")
                raise
            cases += 1
    return cases


def kill(machine: Machine) -> bool:
    machine.kill()
    return False


def stop_and_lose_power(machine: Machine) -> bool:
    """In good order as far as the error allows, and then what was not synced is gone."""
    with suppress(*TOLD):
        machine.log_dir.close()
    machine.lose_power("none")
    return True


def go_on_and_lose_power(machine: Machine) -> bool:
    """Tries what a stubborn caller tries: to append, to flush, to stop, and each of it again."""
    for _ in range(2):
        with suppress(*TOLD):
            machine.append_keys("more")
        with suppress(*TOLD):
            machine.flush()
        with suppress(*TOLD):
            machine.stop()
    machine.lose_power("none")
    return True


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_error_at_any_operation_is_told_and_loses_nothing_that_was_durable(name: str) -> None:
    endings = (kill, stop_and_lose_power, go_on_and_lose_power)

    assert fail_at_every_operation(name, *endings) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_error_at_any_operation_is_told_and_a_killed_process_lost_nothing(name: str) -> None:
    assert fail_at_every_operation(name, kill) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_error_at_any_operation_leaves_what_was_durable(name: str) -> None:
    assert fail_at_every_operation(name, stop_and_lose_power) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_called_durable_after_an_error_that_is_not(name: str) -> None:
    assert fail_at_every_operation(name, go_on_and_lose_power) > 0


@pytest.mark.parametrize("name", ["append", "append with flush.messages=1", "roll"])
def test_a_batch_that_was_not_written_whole_is_never_seen(name: str) -> None:
    def look(machine: Machine) -> bool:
        machine.ledger.verify(batches_of(machine.log), power_lost=False)
        machine.kill()
        return False

    assert fail_at_every_operation(name, look) > 0


def test_a_flush_that_failed_is_not_repeated() -> None:
    machine = Machine()
    machine.start()
    machine.append_keys("a")
    machine.fs.fail_matching("fsync", "*.log", errno.EIO, lose_dirty=True)

    with pytest.raises(LogStorageError, match="fsync failed"):
        machine.flush()

    with pytest.raises(LogStorageError, match="takes no writes"):
        machine.flush()
    assert machine.log.recovery_point == 0


def test_a_stop_that_failed_leaves_no_mark_of_a_clean_one() -> None:
    machine = Machine()
    machine.start()
    machine.append_keys("a", "b")
    machine.fs.fail_matching("fsync", "*.log", errno.EIO, lose_dirty=True)

    with pytest.raises(LogStorageError, match="close failed"):
        machine.log_dir.close()
    machine.log_dir.close()

    machine.start()
    assert not machine.log_dir.remembered.clean


def test_a_failed_log_is_still_read() -> None:
    machine = Machine()
    machine.start()
    machine.append_keys("a", "b")
    machine.fs.fail_matching("pwrite", "*.log", errno.ENOSPC, torn=True)

    with pytest.raises(LogStorageError):
        machine.append_keys("c")

    assert batches_of(machine.log) == machine.ledger.batches[:2]


def test_a_disk_that_fills_up_tears_no_batch() -> None:
    machine = Machine()
    machine.start()
    used = sum(len(content) for content in machine.fs.files().values())
    machine.fs.capacity_bytes = used + 500

    with pytest.raises(LogStorageError):
        machine.append_keys(*"abcdefghijkl")

    machine.fs.capacity_bytes = None
    machine.kill()
    machine.start()
    machine.check(power_lost=False)
