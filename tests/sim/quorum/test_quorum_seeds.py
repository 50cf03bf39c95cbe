"""Simulated quorums in the default suite; `make sim PROFILE=quorum` plays as many as you like."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from ledgerstone.sim.played import Outcome
from ledgerstone.sim.quorum.__main__ import main
from ledgerstone.sim.quorum.cluster import run
from ledgerstone.sim.quorum.scenario import draw, parse
from tests.sim.hunting import Mutant
from tests.sim.quorum.mutants import MUTANTS, hunt

ROOT = Path(__file__).parents[3]
SMALL = """
seed 5
set voters 3
set spares 0
set brokers 0
set dynamic 1
set fault_ms 6000
2500 power node=-1 down=400 mode=2
4000 split nodes=1 ms=1500
"""
# Found within a few seeds, so that the default suite shows that the simulator has teeth.
QUICK = [
    each
    for each in MUTANTS
    if each.name
    in (
        "a vote leaves before it is stored",
        "old epochs are committed by count",
        "one replica too few commits",
    )
]


@cache
def played(seed: int) -> Outcome:
    """Kept, so that one more play shows that a seed gives the same trace."""
    return run(draw(seed))


@pytest.mark.parametrize("first", range(0, 200, 10))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = played(seed)
        replay = f"python -m ledgerstone.sim.quorum --first {seed} --seeds 1"
        assert outcome.violation is None, f"{outcome.violation}; {replay}"


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_trace_twice(seed: int) -> None:
    assert run(draw(seed)).digest == played(seed).digest


def test_the_same_seed_gives_the_same_trace_in_another_process(tmp_path: Path) -> None:
    """Whatever PYTHONHASHSEED is."""
    script = tmp_path / "small.script"
    script.write_text(SMALL)
    command = [sys.executable, "-m", "ledgerstone.sim.quorum", "--script", str(script)]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT}/src"}

    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=120
    )

    assert f"trace {run(parse(SMALL)).digest}" in done.stdout.splitlines()


def test_another_seed_gives_another_trace() -> None:
    assert run(parse(SMALL)).digest != run(parse(SMALL.replace("seed 5", "seed 6"))).digest


def test_a_scenario_survives_its_own_text() -> None:
    for seed in range(100):
        scenario = draw(seed)
        assert parse(scenario.text()) == scenario


def test_a_failing_seed_prints_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    mutant = next(each for each in MUTANTS if each.name == "old epochs are committed by count")
    mutant.apply(monkeypatch)

    assert main(["--seeds", "1", "--first", "0", "--jobs", "1"]) == 1

    said = capsys.readouterr().out
    assert "python -m ledgerstone.sim.quorum --first 0 --seeds 1" in said
    assert "1 seeds, 1 violations" in said
    script = next(tmp_path.glob("sim-*-0.script"))
    assert f"make sim PROFILE=quorum SCRIPT={script.name}" in said
    replayed, seed = run(parse(script.read_text())), draw(0)
    assert replayed.violation is not None
    assert replayed.violation.checker == script.name.split("-")[1]
    assert len(replayed.scenario.faults) < len(seed.faults)


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_within_a_few_seeds(mutant: Mutant) -> None:
    assert hunt(mutant, max_seeds=6) is not None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_found(mutant: Mutant) -> None:
    assert hunt(mutant) is not None


@pytest.mark.slow
def test_hundreds_of_seeds_keep_every_promise_and_hit_every_mark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seeds", "400", "--jobs", "2"]) == 0

    assert "never happened" not in capsys.readouterr().out
