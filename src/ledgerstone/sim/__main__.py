"""`python -m ledgerstone.sim`: plays seeds or a script, and ends in one line. Shell.

    --seeds 200            seeds 0 to 199
    --seeds 40 --first 7   seeds 7 to 46
    --profile transactions clients of another kind; `mixed` without it
    --script FILE          one scenario, as a failing seed was shrunk to
    --trace                also print every step of a single run
    --jobs 2               processes; each seed runs in one

Exit code 1 where a checker failed. Each failing seed names the command that replays it; the first
one of each checker is shrunk to a script.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ledgerstone.sim.cluster import RunOutcome, run
from ledgerstone.sim.marks import EXPECTED, missing
from ledgerstone.sim.scenario import Scenario, draw, parse
from ledgerstone.sim.shrink import shrink

_PROGRESS_S = 1.0
# Below this many seeds it is no wonder that some marks are not hit.
_SEEDS_FOR_MARKS = 200


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ledgerstone.sim")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--profile", choices=sorted(EXPECTED), default="mixed")
    parser.add_argument("--script", type=Path)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    given = parser.parse_args(arguments)
    # What brokers log about faults is of no interest here.
    logging.disable(logging.CRITICAL)
    if given.script is not None:
        scenarios = [parse(given.script.read_text())]
    else:
        seeds = range(given.first, given.first + given.seeds)
        scenarios = [draw(seed, given.profile) for seed in seeds]
    started_s = time.monotonic()
    outcomes = list(_play(scenarios, given.jobs, keeps_trace=given.trace))
    took_s = time.monotonic() - started_s
    for outcome in outcomes:
        for line in outcome.trace or ():
            _say(line)
    failed = [each for each in outcomes if each.violation is not None]
    _tell_failures(failed, is_shrunk=not given.no_shrink, script=given.script)
    _tell_marks(outcomes)
    _say(_last_line(outcomes, took_s))
    if len(outcomes) == 1:
        _say(f"trace {outcomes[0].digest}")
    return 1 if failed else 0


def _play(scenarios: list[Scenario], jobs: int, *, keeps_trace: bool) -> Iterator[RunOutcome]:
    shows = sys.stderr.isatty()
    said_s = time.monotonic()
    failures = 0
    for number, outcome in enumerate(_outcomes(scenarios, jobs, keeps_trace), start=1):
        failures += outcome.violation is not None
        if shows and time.monotonic() - said_s > _PROGRESS_S:
            said_s = time.monotonic()
            sys.stderr.write(f"\r{number}/{len(scenarios)} seeds, {failures} violations ")
            sys.stderr.flush()
        yield outcome
    if shows:
        sys.stderr.write("\r\033[K")


def _outcomes(scenarios: list[Scenario], jobs: int, keeps_trace: bool) -> Iterator[RunOutcome]:
    if jobs <= 1 or len(scenarios) == 1:
        for scenario in scenarios:
            yield run(scenario, keeps_trace=keeps_trace)
        return
    with ProcessPoolExecutor(jobs, initializer=_be_quiet) as pool:
        yield from pool.map(run, scenarios, chunksize=4)


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)


def _tell_failures(failed: list[RunOutcome], *, is_shrunk: bool, script: Path | None) -> None:
    told: dict[str, None] = {}
    for outcome in failed:
        violation = outcome.violation
        assert violation is not None
        _say(f"seed {outcome.scenario.seed}: {violation}")
        if script is not None:
            continue
        which = outcome.scenario.profile
        what = "" if which == "mixed" else f" --profile {which}"
        _say(f"  replay: python -m ledgerstone.sim{what} --first {outcome.scenario.seed} --seeds 1")
        if is_shrunk and violation.checker not in told:
            told[violation.checker] = None
            short = shrink(outcome.scenario, lambda each, c=violation.checker: fails(each, c))  # type: ignore[misc]
            path = Path(f"sim-{violation.checker}-{short.seed}.script")
            path.write_text(f"# {violation.checker}\n{short.text()}")
            _say(f"  script: make sim SCRIPT={path}")
            for line in short.text().splitlines():
                _say(f"    {line}")


def fails(scenario: Scenario, checker: str) -> bool:
    violation = run(scenario).violation
    return violation is not None and violation.checker == checker


def _tell_marks(outcomes: list[RunOutcome]) -> None:
    counts: dict[str, int] = {}
    for outcome in outcomes:
        for name, count in outcome.marks.items():
            counts[name] = counts.get(name, 0) + count
    if len(outcomes) >= _SEEDS_FOR_MARKS:
        for name in missing(counts, outcomes[0].scenario.profile):
            _say(f"never happened: {name}")


def _last_line(outcomes: list[RunOutcome], took_s: float) -> str:
    hours = sum(each.virtual_ms for each in outcomes) / 3_600_000
    return (
        f"{len(outcomes)} seeds, {sum(each.violation is not None for each in outcomes)} violations,"
        f" {sum(each.requests for each in outcomes):,} requests,"
        f" {sum(each.faults for each in outcomes):,} faults,"
        f" {hours:.1f} virtual hours, {took_s:.0f} s"
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
