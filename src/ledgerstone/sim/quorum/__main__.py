"""`python -m ledgerstone.sim.quorum`: plays seeds or a script, and ends in one line. Shell.

    --seeds 200            seeds 0 to 199
    --seeds 40 --first 7   seeds 7 to 46
    --script FILE          one scenario
    --trace                also print every step of a single run
    --jobs 2               processes; each seed runs in one

Exit code 1 where a checker failed. Each failing seed names the command that replays it; the first
one of each checker is shrunk to a script.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ledgerstone.sim.quorum.cluster import Outcome, run
from ledgerstone.sim.quorum.marks import missing
from ledgerstone.sim.quorum.scenario import SIMPLER, Scenario, draw, parse
from ledgerstone.sim.shrink import shrink

_PROGRESS_S = 1.0
# Below this many seeds it is no wonder that some marks are not hit.
_SEEDS_FOR_MARKS = 200
_CHUNK = 8


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ledgerstone.sim.quorum")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--marks", action="store_true", help="how often each mark was hit")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    given = parser.parse_args(arguments)
    if given.script is not None:
        scenarios = [parse(given.script.read_text())]
    else:
        scenarios = [draw(seed) for seed in range(given.first, given.first + given.seeds)]
    started_s = time.monotonic()
    totals = _Totals()
    told: set[str] = set()
    for outcome in _shown(_outcomes(scenarios, given.jobs, given.trace), len(scenarios)):
        totals.add(outcome)
        for line in outcome.trace or ():
            _say(line)
        _tell_failure(outcome, given.script)
        if outcome.violation is not None and given.script is None and not given.no_shrink:
            _tell_script(outcome, told)
        if len(scenarios) == 1:
            _say(f"trace {outcome.digest}")
    totals.tell(time.monotonic() - started_s, shows_marks=given.marks)
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

    def tell(self, took_s: float, *, shows_marks: bool) -> None:
        if shows_marks:
            for name, count in sorted(self.marks.items(), key=lambda each: -each[1]):
                _say(f"{count:>9,}  {name}")
        if self.seeds >= _SEEDS_FOR_MARKS:
            for name in missing(self.marks):
                _say(f"never happened: {name}")
        slowest_s = max(self.recoveries, default=0) / 1_000
        _say(
            f"{self.seeds:,} seeds, {self.violations} violations, {self.elections:,} elections,"
            f" {self.acknowledged:,} records acknowledged, {self.faults:,} faults,"
            f" {self.steps:,} steps, {self.virtual_ms / 3_600_000:.1f} virtual hours,"
            f" slowest recovery {slowest_s:.1f} s, {took_s:.0f} s"
        )


def _outcomes(scenarios: list[Scenario], jobs: int, keeps_trace: bool) -> Iterator[Outcome]:
    if jobs <= 1 or len(scenarios) == 1:
        for scenario in scenarios:
            yield run(scenario, keeps_trace=keeps_trace)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, scenarios, chunksize=_CHUNK)


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


def _tell_failure(outcome: Outcome, script: Path | None) -> None:
    if outcome.violation is None:
        return
    seed = outcome.scenario.seed
    _say(f"seed {seed}: {outcome.violation}")
    if script is None:
        _say(f"  replay: python -m ledgerstone.sim.quorum --first {seed} --seeds 1 --trace")


def _tell_script(outcome: Outcome, told: set[str]) -> None:
    """The first failure of each checker, as short as it gets."""
    assert outcome.violation is not None
    checker = outcome.violation.checker
    if checker in told:
        return
    told.add(checker)
    short = shrink(outcome.scenario, lambda each: fails(each, checker), simpler=SIMPLER)
    path = Path(f"sim-{checker}-{short.seed}.script")
    path.write_text(f"# {checker}\n{short.text()}")
    _say(f"  script: make sim PROFILE=quorum SCRIPT={path}")
    for line in short.text().splitlines():
        _say(f"    {line}")


def fails(scenario: Scenario, checker: str) -> bool:
    violation = run(scenario).violation
    return violation is not None and violation.checker == checker


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
