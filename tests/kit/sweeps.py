"""Letting a machine die at every operation of its work, in every way, and checking what is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ledgerstone.errors import LedgerstoneError
from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.sim.platter import PowerLoss
from tests.kit.machines import Machine

Work = Callable[[Machine], None]
Check = Callable[[Machine], None]


class Death(NamedTuple):
    """How a machine ends: a process killed, or power lost with this much of the cache saved."""

    name: str
    power_loss: PowerLoss | None = None
    torn: bool = False


KILLED = Death("kill")
TORN = Death("kill in a write", torn=True)
NOTHING_SAVED = Death("power loss, nothing saved", "none")
ALL_SAVED = Death("power loss, all saved", "all")


def random_deaths(seeds: int) -> list[Death]:
    return [Death(f"power loss {seed}", "random", torn=seed % 2 == 1) for seed in range(seeds)]


def deaths(seeds: int) -> list[Death]:
    """The disk after ALL_SAVED equals that after KILLED, which has stricter checks."""
    return [KILLED, TORN, NOTHING_SAVED, *random_deaths(seeds)]


def sweep(
    prepared: Machine,
    work: Work,
    ways: list[Death],
    *,
    from_boot: bool = False,
    per_operation: int | None = None,
    check: Check | None = None,
) -> int:
    """Lets the work die at each of its operations in each of the ways; counts the cases.

    With `per_operation`, each operation gets that many of the ways, in turn. `from_boot` includes
    the operations of the start before it. `check` looks at the machine that has started again,
    before the usual checks do."""
    cases = 0
    rehearsal, points = rehearse(prepared, work, from_boot=from_boot)
    for n in points:
        for way in ways if per_operation is None else in_turn(ways, n, per_operation):
            if way is TORN and not rehearsal.is_write(n):
                continue
            machine = prepared.fork(f"{way.name}/{n}")
            with _telling(machine, n, way):
                die(machine, work, n, way)
                machine.start()
                if check is not None:
                    check(machine)
                machine.check(power_lost=way.power_loss is not None)
            cases += 1
    return cases


def in_turn(ways: list[Death], n: int, count: int) -> list[Death]:
    return [ways[(n * count + i) % len(ways)] for i in range(count)]


def sweep_twice(prepared: Machine, work: Work, ways: list[Death], *, step: int = 1) -> int:
    """Dies in the work, at each or every `step`th operation, and again at each of the start that
    follows."""
    cases = 0
    for n in rehearse(prepared, work)[1][::step]:
        for way in ways:
            dead = prepared.fork(f"{way.name}/{n}")
            die(dead, work, n, way)
            for again in rehearse(dead, _nothing, from_boot=True)[1]:
                machine = dead.fork(f"{way.name}/{n}/{again}")
                with _telling(dead, n, way), _telling(machine, again, way):
                    die(machine, _nothing, again, way)
                    machine.start()
                    machine.check(power_lost=way.power_loss is not None)
                cases += 1
    return cases


def die(machine: Machine, work: Work, n: int, way: Death) -> None:
    """Starts, works, and ends at operation n of all that."""
    machine.fs.crash_at(n, torn=way.torn)
    with suppress(SimulatedCrash):
        machine.start()
        work(machine)
    if way.power_loss is None:
        machine.kill()
    else:
        machine.lose_power(way.power_loss)


def rehearse(prepared: Machine, work: Work, *, from_boot: bool = False) -> tuple[Machine, range]:
    """Does the work once without a fault; the range is of the operations it took."""
    rehearsal = prepared.fork("rehearsal")
    rehearsal.start()
    first = 1 if from_boot else rehearsal.fs.operation_count + 1
    work(rehearsal)
    # One past the last: nothing is interrupted and the machine dies idle.
    return rehearsal, range(first, rehearsal.fs.operation_count + 2)


def _nothing(machine: Machine) -> None:
    """The start is all there is."""


@contextmanager
def _telling(machine: Machine, n: int, way: Death) -> Iterator[None]:
    """Names the case in a failure: it is replayed with the same seed, so this is all it takes."""
    try:
        yield
    except (AssertionError, LedgerstoneError, OSError) as error:
        operation = machine.fs.trace[n - 1] if n <= len(machine.fs.trace) else "none, idle"
        error.add_note(f"died by {way.name} at operation {n}: {operation}")
        raise
