"""Clusters of whole brokers in the default suite; `make sim PROFILE=replicas` plays any number."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ledgerstone.sim.replicas.__main__ import main
from ledgerstone.sim.replicas.cluster import run
from ledgerstone.sim.replicas.scenario import draw, parse
from tests.sim.hunting import Mutant, first_seeds
from tests.sim.replicas.mutants import MUTANTS, hunt

ROOT = Path(__file__).parents[3]
# One copy of everything: what is written on a broker comes back with it.
SINGLE_COPIES = """
set replicas 1
set min_isr 1
set operations 0
set transactors 0
"""
SMALL = f"seed 2\n{SINGLE_COPIES}6000 crash node=-1 down=900\n"

# Found by their first seed, so that the default suite shows that the simulator has teeth.
QUICK = [
    each
    for each in MUTANTS
    if each.name in ("a leader commits what it has alone", "followers forget producers")
]


@cache
def digest_of_small() -> str:
    return run(parse(SMALL)).digest


@pytest.mark.parametrize("first", first_seeds(quick=3, count=9, step=3))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 3):
        outcome = run(draw(seed))
        replay = f"python -m ledgerstone.sim.replicas --first {seed} --seeds 1"
        assert outcome.violation is None, f"{outcome.violation}; {replay}"


@pytest.mark.parametrize("seed", first_seeds(quick=1, count=3, step=1))
def test_seeds_keep_every_promise_without_replication(seed: int) -> None:
    scenario = draw(20 + seed)
    config = parse(f"seed {20 + seed}\n{SINGLE_COPIES}").config

    outcome = run(replace(scenario, config=config))

    assert outcome.violation is None, f"{outcome.violation}; seed {20 + seed}"


def test_the_same_seed_gives_the_same_trace_twice() -> None:
    assert run(parse(SMALL)).digest == digest_of_small()


def test_the_same_seed_gives_the_same_trace_in_another_process(tmp_path: Path) -> None:
    """Whatever PYTHONHASHSEED is."""
    script = tmp_path / "small.script"
    script.write_text(SMALL)
    command = [sys.executable, "-m", "ledgerstone.sim.replicas", "--script", str(script)]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT}/src"}

    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=120
    )

    assert f"trace {digest_of_small()}" in done.stdout.splitlines()


def test_a_scenario_survives_its_own_text() -> None:
    for seed in range(100):
        scenario = draw(seed)
        assert parse(scenario.text()) == scenario


def test_power_loss_of_the_last_copy_excuses_a_partition_and_nothing_else() -> None:
    text = f"seed 4\n{SINGLE_COPIES}5000 power node=-1 down=400 mode=none\n"
    outcome = run(parse(text))
    assert outcome.violation is None
    assert outcome.marks["power loss took the last copy"] > 0


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_within_a_few_seeds(mutant: Mutant) -> None:
    assert hunt(mutant, max_seeds=3) is not None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_found(mutant: Mutant) -> None:
    assert hunt(mutant) is not None


@pytest.mark.slow
def test_hundreds_of_seeds_keep_every_promise_and_hit_every_mark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--seeds", "300", "--jobs", "2"]) == 0

    assert "never happened" not in capsys.readouterr().out
