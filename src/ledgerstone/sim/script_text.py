"""Scenarios of every simulator as text, and back; and how faults are drawn. Part of sim.

A script says what differs from what its seed draws, and writes every fault out, so that faults can
be taken away one by one.

    seed 17
    set voters 5
    4100 crash node=0 down=1200
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ledgerstone.dataclasses import dataclass, field, fields
from ledgerstone.sim.dice import SeededDice

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True)
class Fault:
    at_ms: int
    kind: str
    args: dict[str, int | str] = field(default_factory=dict)

    def number(self, name: str, default: int = 0) -> int:
        return int(self.args.get(name, default))

    def __str__(self) -> str:
        return " ".join([f"{self.at_ms} {self.kind}", *(f"{k}={v}" for k, v in self.args.items())])


class Given(NamedTuple):
    """A script as it is written."""

    seed: int
    profile: str | None
    settings: dict[str, int]
    faults: tuple[Fault, ...]


def read_script(text: str) -> Given:
    seed, profile, faults = 0, None, []
    settings: dict[str, int] = {}
    for line in text.splitlines():
        match line.partition("#")[0].split():
            case []:
                continue
            case ["seed", number]:
                seed = int(number)
            case ["profile", name]:
                profile = name
            case ["set", name, value]:
                settings[name] = int(value)
            case [at_ms, kind, *pairs]:
                faults.append(Fault(int(at_ms), kind, _arguments(pairs)))
    return Given(seed, profile, settings, tuple(faults))


def _arguments(pairs: list[str]) -> dict[str, int | str]:
    args: dict[str, int | str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        args[name] = int(value) if value.lstrip("-").isdecimal() else value
    return args


def script_of(
    seed: int,
    config: "DataclassInstance",
    drawn: "DataclassInstance",
    faults: tuple[Fault, ...],
    profile: str | None = None,
) -> str:
    """`drawn` is the configuration that the seed draws."""
    lines = [] if profile is None else [f"profile {profile}"]
    lines.append(f"seed {seed}")
    for each in fields(config):
        value = getattr(config, each.name)
        if value != getattr(drawn, each.name):
            lines.append(f"set {each.name} {value}")
    lines += [str(fault) for fault in faults]
    return "\n".join(lines) + "\n"


class FaultRange(NamedTuple):
    """Which faults there may be, how many, and from when on."""

    kinds: tuple[str, ...]
    most: int
    earliest_ms: int


class FaultyConfig(Protocol):
    @property
    def fault_ms(self) -> int: ...


C = TypeVar("C", bound=FaultyConfig)


def draw_faults(
    seed: int,
    config: C,
    among: FaultRange,
    args_of: Callable[[str, SeededDice, C], dict[str, int | str]],
    allows: Callable[[str], bool] = lambda kind: True,
) -> Iterator[Fault]:
    """Most runs lack most kinds, so rare combinations get room."""
    dice = SeededDice(f"{seed}/faults")
    enabled = [kind for kind in among.kinds if dice.chance(40)]
    enabled = [kind for kind in enabled if allows(kind)]
    if not enabled:
        return
    count = dice.between(1, among.most)
    latest_ms = config.fault_ms - 500
    for at_ms in sorted(dice.between(among.earliest_ms, latest_ms) for _ in range(count)):
        kind = dice.pick(enabled)
        yield Fault(at_ms, kind, args_of(kind, dice, config))
