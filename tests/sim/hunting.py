"""Plays seeds against a rule broken on purpose until a checker finds it."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from ledgerstone.sim.played import Outcome

PAGE = Path(__file__).parents[2] / "docs/simulation.md"
Patch = pytest.MonkeyPatch
S = TypeVar("S")


def first_seeds(*, quick: int, count: int, step: int) -> list[object]:
    """Where each test of `step` seeds begins: those up to `quick` belong to the default suite, the
    rest to the slow sweeps."""
    return [
        first if first < quick else pytest.param(first, marks=pytest.mark.slow)
        for first in range(0, count, step)
    ]


class Mutant(NamedTuple):
    """Some are too rare for a few hundred seeds; their script sets the scene for every seed."""

    name: str
    apply: Callable[[Patch], None]
    script: str | None = None


class Kill(NamedTuple):
    seeds: int
    checker: str


class Simulator(NamedTuple):
    """What is played, and where its table stands in the page."""

    draw: Callable[[int], object]
    parse: Callable[[str], object]
    run: Callable[..., Outcome]
    begin: str
    end: str


def hunt(simulator: Simulator, mutant: Mutant, max_seeds: int) -> Kill | None:
    """None where it survives. A seed that fails without the mutant, too, proves nothing. What the
    table of the last time names is tried first, since most seeds take seconds."""
    for seed in dict.fromkeys([*_known_seed(simulator, mutant, max_seeds), *range(max_seeds)]):
        text = f"seed {seed}\n{mutant.script}"
        scenario = simulator.draw(seed) if mutant.script is None else simulator.parse(text)
        with pytest.MonkeyPatch.context() as patch:
            mutant.apply(patch)
            violation = simulator.run(scenario).violation
        if violation is not None and simulator.run(scenario).violation is None:
            return Kill(seed + 1, violation.checker)
    return None


def _known_seed(simulator: Simulator, mutant: Mutant, max_seeds: int) -> list[int]:
    table = PAGE.read_text().partition(simulator.begin)[2].partition(simulator.end)[0]
    found = re.search(rf"^\| {re.escape(mutant.name)} \| ([0-9]+)", table, re.MULTILINE)
    return [int(found[1]) - 1] if found and 0 < int(found[1]) <= max_seeds else []


def write_table(simulator: Simulator, mutants: Sequence[Mutant], max_seeds: int, prog: str) -> int:
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--seeds", type=int, default=max_seeds)
    given = parser.parse_args()
    lines = ["| mutant | seeds to kill | found by |", "|---|---|---|"]
    survivors = 0
    for mutant in mutants:
        if given.only not in mutant.name:
            continue
        kill = hunt(simulator, mutant, given.seeds)
        survivors += kill is None
        found = ("survived", "") if kill is None else (str(kill.seeds), f"`{kill.checker}`")
        if mutant.script is not None:
            found = f"{found[0]}, of its script", found[1]
        lines.append(f"| {mutant.name} | {found[0]} | {found[1]} |")
        sys.stdout.write(lines[-1] + "\n")
        sys.stdout.flush()
    if given.write and not given.only:
        head, _, rest = PAGE.read_text().partition(simulator.begin)
        tail = rest.partition(simulator.end)[2]
        table = "\n".join(lines)
        PAGE.write_text(f"{head}{simulator.begin}\n{table}\n{simulator.end}{tail}")
    sys.stdout.write(f"{len(lines) - 2} mutants, {survivors} survived\n")
    return 1 if survivors else 0
