"""Simulated clusters in the default suite; `make sim PROFILE=controller` plays any number."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from ledgerstone.sim.controller.__main__ import main
from ledgerstone.sim.controller.cluster import run
from ledgerstone.sim.controller.scenario import draw, parse
from ledgerstone.sim.played import Outcome
from tests.sim.controller.mutants import MUTANTS, hunt
from tests.sim.hunting import Mutant, first_seeds

ROOT = Path(__file__).parents[3]
SMALL = """
seed 5
set voters 3
set combined 3
set brokers 0
set dynamic 1
set fault_ms 12000
5000 power node=-1 down=400 mode=2
8000 bounce node=1 down=400 mode=0
"""
# It wakes half a second after its own session expired; its heartbeat comes in the same millisecond.
STOPPED_CONTROLLER = """
seed 4031
set brokers 0
set auto_join 0
set snapshot_every 0
set skew_ppm 0
set delay_ms 1
set jitter_ms 0
set loss_percent 0
set disk_ms 0
set clients 0
set names 1
set delete_percent 0
set reassign_percent 0
set late_percent 0
23423 open
23884 pause node=0 ms=9000
"""
# Found within a few seeds, so that the default suite shows that the simulator has teeth.
QUICK = [
    each
    for each in MUTANTS
    if each.name
    in (
        "answers leave before commit",
        "fenced brokers lead on",
        "every replica is eligible",
        "broker epochs come again",
    )
]


@cache
def played(seed: int) -> Outcome:
    """Kept, so that one more play shows that a seed gives the same trace."""
    return run(draw(seed))


@pytest.mark.parametrize("first", first_seeds(quick=6, count=30, step=6))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 6):
        outcome = played(seed)
        replay = f"python -m ledgerstone.sim.controller --first {seed} --seeds 1"
        assert outcome.violation is None, f"{outcome.violation}; {replay}"


def test_a_controller_that_was_stopped_reads_heartbeats_before_it_fences() -> None:
    assert run(parse(STOPPED_CONTROLLER)).violation is None


@pytest.mark.parametrize("seed", range(2))
def test_the_same_seed_gives_the_same_trace_twice(seed: int) -> None:
    assert run(draw(seed)).digest == played(seed).digest


def test_the_same_seed_gives_the_same_trace_in_another_process(tmp_path: Path) -> None:
    """Whatever PYTHONHASHSEED is."""
    script = tmp_path / "small.script"
    script.write_text(SMALL)
    command = [sys.executable, "-m", "ledgerstone.sim.controller", "--script", str(script)]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{ROOT}/src"}

    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=120
    )

    assert f"trace {run(parse(SMALL)).digest}" in done.stdout.splitlines()


def test_a_scenario_survives_its_own_text() -> None:
    for seed in range(100):
        scenario = draw(seed)
        assert parse(scenario.text()) == scenario


def test_clusters_have_three_to_seven_nodes_and_at_least_three_brokers() -> None:
    for seed in range(300):
        config = draw(seed).config
        assert 3 <= config.nodes <= 7
        assert len(config.broker_numbers) >= 3


def test_a_failing_seed_is_shrunk_to_a_script_that_fails_in_the_same_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    QUICK[0].apply(monkeypatch)

    assert main(["--seeds", "1", "--first", "0", "--jobs", "1"]) == 1

    said = capsys.readouterr().out
    assert "python -m ledgerstone.sim.controller --first 0 --seeds 1" in said
    script = next(tmp_path.glob("sim-*-0.script"))
    assert f"make sim PROFILE=controller SCRIPT={script.name}" in said
    replayed = run(parse(script.read_text()))
    assert replayed.violation is not None
    assert replayed.violation.checker == script.name.split("-")[1]
    assert len(replayed.scenario.faults) <= len(draw(0).faults)


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_within_a_few_seeds(mutant: Mutant) -> None:
    assert hunt(mutant, max_seeds=10) is not None


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
