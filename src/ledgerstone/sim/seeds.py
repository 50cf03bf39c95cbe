"""Plays seeds or a script of a simulator, and ends in one line. Shell.

The simulators of the quorum and of the controller share it; each names itself in a `Profile`.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.sim.played import Outcome, Played
from ledgerstone.sim.shrink import Simpler, shrink

S = TypeVar("S", bound=Played)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Generic[S]):
    """`module` is what `python -m` runs, `name` the PROFILE of `make sim`."""

    module: str
    name: str
    draw: Callable[[int], S]
    parse: Callable[[str], S]
    run: Callable[[S], Outcome]
    traced: Callable[[S], Outcome]
    simpler: Simpler
    missing: Callable[[Mapping[str, int]], list[str]]


_PROGRESS_S = 1.0
# Below this many seeds it is no wonder that some marks are not hit.
_SEEDS_FOR_MARKS = 200
_CHUNK = 8


def play(profile: Profile[S], arguments: list[str] | None = None) -> int:
    # What a node logs about faults is of no interest here.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return _play(profile, arguments)
    finally:
        logging.disable(before)


def _play(profile: Profile[S], arguments: list[str] | None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {profile.module}")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--marks", action="store_true", help="how often each mark was hit")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    given = parser.parse_args(arguments)
    if given.script is not None:
        scenarios = [profile.parse(given.script.read_text())]
    else:
        scenarios = [profile.draw(seed) for seed in range(given.first, given.first + given.seeds)]
    started_s = time.monotonic()
    totals = _Totals()
    told: set[str] = set()
    for outcome in _shown(_outcomes(profile, scenarios, given.jobs, given.trace), len(scenarios)):
        totals.add(outcome)
        for line in outcome.trace or ():
            _say(line)
        _tell_failure(profile, outcome, given.script)
        if outcome.violation is not None and given.script is None and not given.no_shrink:
            _tell_script(profile, outcome, told)
        if len(scenarios) == 1:
            _say(f"trace {outcome.digest}")
    totals.tell(profile, time.monotonic() - started_s, shows_marks=given.marks)
    return 1 if totals.violations else 0


class _Totals:
    """Outcomes are many; only sums are kept."""

    def __init__(self) -> None:
        self.seeds = self.violations = self.steps = self.elections = 0
        self.committed = self.acknowledged = self.faults = self.virtual_ms = 0
        self.recoveries: list[int] = []
        self.marks: dict[str, int] = {}

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.violations += outcome.violation is not None
        self.steps += outcome.steps
        self.elections += outcome.elections
        self.committed += outcome.committed
        self.acknowledged += outcome.acknowledged
        self.faults += len(outcome.scenario.faults)
        self.virtual_ms += outcome.virtual_ms
        if outcome.recovery_ms >= 0:
            self.recoveries.append(outcome.recovery_ms)
        for name, count in outcome.marks.items():
            self.marks[name] = self.marks.get(name, 0) + count

    def tell(self, profile: Profile[S], took_s: float, *, shows_marks: bool) -> None:
        if shows_marks:
            for name, count in sorted(self.marks.items(), key=lambda each: -each[1]):
                _say(f"{count:>9,}  {name}")
        if self.seeds >= _SEEDS_FOR_MARKS:
            for name in profile.missing(self.marks):
                _say(f"never happened: {name}")
        slowest_s = max(self.recoveries, default=0) / 1_000
        _say(
            f"{self.seeds:,} seeds, {self.violations} violations, {self.elections:,} elections,"
            f" {self.acknowledged:,} acknowledged, {self.faults:,} faults,"
            f" {self.steps:,} steps, {self.virtual_ms / 3_600_000:.1f} virtual hours,"
            f" slowest recovery {slowest_s:.1f} s, {took_s:.0f} s"
        )


def _outcomes(
    profile: Profile[S], scenarios: list[S], jobs: int, keeps_trace: bool
) -> Iterator[Outcome]:
    if jobs <= 1 or len(scenarios) == 1:
        for scenario in scenarios:
            yield (profile.traced if keeps_trace else profile.run)(scenario)
        return
    with ProcessPoolExecutor(jobs, initializer=_be_quiet) as pool:
        yield from pool.map(profile.run, scenarios, chunksize=_CHUNK)


def _shown(outcomes: Iterator[Outcome], count: int) -> Iterator[Outcome]:
    shows = sys.stderr.isatty()
    said_s = time.monotonic()
    for number, outcome in enumerate(outcomes, start=1):
        if shows and time.monotonic() - said_s > _PROGRESS_S:
            said_s = time.monotonic()
            sys.stderr.write(f"\r{number}/{count} seeds ")
            sys.stderr.flush()
        yield outcome
    if shows:
        sys.stderr.write("\r\033[K")


def _tell_failure(profile: Profile[S], outcome: Outcome, script: Path | None) -> None:
    if outcome.violation is None:
        return
    seed = outcome.scenario.seed
    _say(f"seed {seed}: {outcome.violation}")
    if script is None:
        _say(f"  replay: python -m {profile.module} --first {seed} --seeds 1 --trace")


def _tell_script(profile: Profile[S], outcome: Outcome, told: set[str]) -> None:
    """The first failure of each checker, as short as it gets."""
    assert outcome.violation is not None
    checker = outcome.violation.checker
    if checker in told:
        return
    told.add(checker)
    scenario = profile.parse(outcome.scenario.text())
    short = shrink(scenario, lambda each: _fails(profile, each, checker), simpler=profile.simpler)
    path = Path(f"sim-{checker}-{short.seed}.script")
    path.write_text(f"# {checker}\n{short.text()}")
    _say(f"  script: make sim PROFILE={profile.name} SCRIPT={path}")
    for line in short.text().splitlines():
        _say(f"    {line}")


def _fails(profile: Profile[S], scenario: S, checker: str) -> bool:
    violation = profile.run(scenario).violation
    return violation is not None and violation.checker == checker


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
