"""Clusters of whole brokers in the default suite; `make sim PROFILE=replicas` plays any number."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerstone.sim.replicas.cluster import run
from ledgerstone.sim.replicas.scenario import draw, parse

ROOT = Path(__file__).parents[3]
# One copy of everything: what is written on a broker comes back with it.
SINGLE_COPIES = """
set replicas 1
set min_isr 1
set operations 0
set transactors 0
"""


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_seeds_keep_every_promise_without_replication(first: int) -> None:
    for seed in range(first, first + 4):
        scenario = draw(seed)
        config = parse(f"seed {seed}\n{SINGLE_COPIES}").config
        outcome = run(replace(scenario, config=config))
        assert outcome.violation is None, f"{outcome.violation}; seed {seed}"


def test_the_same_seed_gives_the_same_trace_twice() -> None:
    scenario = parse(f"seed 2\n{SINGLE_COPIES}6000 crash node=-1 down=900")
    assert run(scenario).digest == run(scenario).digest


def test_the_same_seed_gives_the_same_trace_in_another_process(tmp_path: Path) -> None:
    """Whatever PYTHONHASHSEED is."""
    text = f"seed 2\n{SINGLE_COPIES}6000 crash node=-1 down=900\n"
    script = tmp_path / "small.script"
    script.write_text(text)
    command = [sys.executable, "-m", "ledgerstone.sim.replicas", "--script", str(script)]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT}/src"}

    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=120
    )

    assert f"trace {run(parse(text)).digest}" in done.stdout.splitlines()


def test_a_scenario_survives_its_own_text() -> None:
    for seed in range(100):
        scenario = draw(seed)
        assert parse(scenario.text()) == scenario
