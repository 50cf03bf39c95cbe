"""Five simulated clusters by default, twenty in the slow sweeps; `make sim` plays two hundred."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from ledgerstone.sim.cluster import run
from ledgerstone.sim.scenario import draw, parse
from tests.sim.hunting import first_seeds

ROOT = Path(__file__).parents[2]
# A second's worth of everything: compaction, a group, an erasure, two crashes.
SMALL = """
seed 5
set nodes 1
set producers 2
set members 1
set batches 8
set erasures 1
set fault_ms 9000
2000 crash node=0 down=100 ops=20
5000 power node=0 mode=random down=100
"""
SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.script"))


@cache
def digest_of_small() -> str:
    return run(parse(SMALL)).digest


@pytest.mark.parametrize("first", first_seeds(quick=5, count=20, step=5))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 5):
        outcome = run(draw(seed))
        assert outcome.violation is None, f"python -m ledgerstone.sim --first {seed} --seeds 1"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.stem))
def test_scripts_of_faults_that_were_mended(path: Path) -> None:
    assert run(parse(path.read_text())).violation is None


def test_the_same_seed_gives_the_same_trace_in_another_process(tmp_path: Path) -> None:
    """Whatever PYTHONHASHSEED is."""
    script = tmp_path / "small.script"
    script.write_text(SMALL)
    command = [sys.executable, "-m", "ledgerstone.sim", "--script", str(script)]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT}/src"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == f"trace {digest_of_small()}"


def test_another_seed_gives_another_trace() -> None:
    assert digest_of_small() != run(parse(SMALL.replace("seed 5", "seed 6"))).digest


def test_a_scenario_survives_its_own_text() -> None:
    for seed in range(50):
        scenario = draw(seed)
        assert parse(scenario.text()) == scenario


def test_taking_a_fault_away_leaves_what_came_before_it_as_it_was() -> None:
    """Every concern has dice of its own, so the runs are the same up to the missing fault."""
    with_fault = run(parse(SMALL), keeps_trace=True).trace
    without = run(parse(SMALL.replace("5000 power", "# 5000")), keeps_trace=True).trace
    assert with_fault is not None
    assert without is not None

    def before(lines: list[str]) -> str:
        early = [line for line in lines if int(line.split()[0]) < 5000]
        return hashlib.sha256("\n".join(early).encode()).hexdigest()

    assert before(with_fault) == before(without)
