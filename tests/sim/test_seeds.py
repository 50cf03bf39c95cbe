"""Twenty simulated clusters in the default suite; `make sim` plays two hundred."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerstone.sim.cluster import run
from ledgerstone.sim.scenario import draw, parse

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.script"))


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 5):
        outcome = run(draw(seed))
        assert outcome.violation is None, f"python -m ledgerstone.sim --first {seed} --seeds 1"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.stem))
def test_scripts_of_faults_that_were_mended(path: Path) -> None:
    assert run(parse(path.read_text())).violation is None


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    """Whatever PYTHONHASHSEED is."""
    ours = run(draw(3)).digest
    command = [sys.executable, "-m", "ledgerstone.sim", "--first", "3", "--seeds", "1"]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/src"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        assert done.stdout.splitlines()[-1] == f"trace {ours}"


def test_another_seed_gives_another_trace() -> None:
    assert run(draw(1)).digest != run(draw(2)).digest


def test_a_scenario_survives_its_own_text() -> None:
    for seed in range(50):
        scenario = draw(seed)
        assert parse(scenario.text()) == scenario


def test_taking_a_fault_away_leaves_what_came_before_it_as_it_was() -> None:
    """Every concern has dice of its own, so the runs are the same up to the missing fault."""
    text = "seed 5\nset nodes 1\n6000 pause node=0 ms=500\n"
    with_fault = run(parse(text), keeps_trace=True).trace
    without = run(parse(text.replace("6000", "# 6000")), keeps_trace=True).trace
    assert with_fault is not None
    assert without is not None

    def before(lines: list[str]) -> str:
        early = [line for line in lines if int(line.split()[0]) < 6000]
        return hashlib.sha256("\n".join(early).encode()).hexdigest()

    assert before(with_fault) == before(without)
