"""Makes a failing scenario short: fewer faults, shorter ones, fewer clients, same checker.

Faults are data and every concern has dice of its own, so taking one away leaves the others as they
were. A candidate is kept if the same checker still fails, whatever it says.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from ledgerstone.dataclasses import replace
from ledgerstone.sim.script_text import Fault

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Shrinkable(Protocol):
    """A scenario of any simulator: a dataclass with a configuration and faults."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def config(self) -> "DataclassInstance": ...

    @property
    def faults(self) -> tuple[Fault, ...]: ...


S = TypeVar("S", bound=Shrinkable)
Simpler = Mapping[str, tuple[int, ...]]

# What each number of the configuration is tried at, from the simplest on.
_SIMPLER: Simpler = {
    "nodes": (1,),
    "members": (0, 1),
    "erasures": (0, 1),
    "extra_topics": (0, 1),
    "producers": (0, 1, 2),
    "workers": (1, 2),
    "writers": (1,),
    "readers": (0, 1),
    "transactions": (1, 3, 6),
    "abort_percent": (0,),
    "dawdle_percent": (0,),
    "impatience_percent": (0,),
    "state_partitions": (1,),
    "batches": (2, 5, 10, 20),
    "keys": (1, 3),
    "fragments": (1,),
    "loss_percent": (0,),
    "twin_percent": (0,),
    "compresses": (0,),
    "skew_ppm": (0,),
    "delay_ms": (1,),
    "disk_max_ms": (1,),
    "in_flight": (1,),
}


def shrink(
    scenario: S,
    still_fails: Callable[[S], bool],
    *,
    budget: int = 150,
    simpler: Simpler = _SIMPLER,
) -> S:
    """`still_fails` runs a candidate; at most `budget` are tried."""
    left = [budget]

    def holds(candidate: S) -> bool:
        if left[0] <= 0 or candidate == scenario:
            return False
        left[0] -= 1
        return still_fails(candidate)

    before = None
    while before != scenario and left[0] > 0:
        before = scenario
        scenario = _fewer_faults(scenario, holds)
        scenario = _simpler_config(scenario, holds, simpler)
        scenario = _shorter_faults(scenario, holds)
    return scenario


def _fewer_faults(scenario: S, holds: Callable[[S], bool]) -> S:
    size = len(scenario.faults)
    while size >= 1:
        start = 0
        while start < len(scenario.faults):
            rest = scenario.faults[:start] + scenario.faults[start + size :]
            candidate = replace(scenario, faults=rest)
            if holds(candidate):
                scenario = candidate
            else:
                start += size
        size //= 2
    return scenario


def _simpler_config(scenario: S, holds: Callable[[S], bool], simpler: Simpler) -> S:
    for name, values in simpler.items():
        for value in values:
            if value >= getattr(scenario.config, name) and name != "skew_ppm":
                break
            config = replace(scenario.config, **{name: value})
            candidate = replace(scenario, config=config)
            if holds(candidate):
                scenario = candidate
                break
    return scenario


def _shorter_faults(scenario: S, holds: Callable[[S], bool]) -> S:
    for place, fault in enumerate(scenario.faults):
        for shorter in _shorter(fault):
            faults = (*scenario.faults[:place], shorter, *scenario.faults[place + 1 :])
            candidate = replace(scenario, faults=faults)
            if holds(candidate):
                scenario = candidate
                break
    return scenario


def _shorter(fault: Fault) -> Iterator[Fault]:
    for name in ("ms", "down"):
        value = fault.args.get(name)
        if isinstance(value, int) and value > 100:
            yield replace(fault, args={**fault.args, name: 100})
            yield replace(fault, args={**fault.args, name: value // 2})
