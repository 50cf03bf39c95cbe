"""A failing scenario becomes a short script that still fails in the same way."""

import pytest

from ledgerstone.sim.cluster import run
from ledgerstone.sim.scenario import Scenario, draw, parse
from ledgerstone.sim.script_text import Fault
from ledgerstone.sim.shrink import shrink
from tests.sim.mutants import answered_before_the_append


def test_faults_that_do_not_matter_go_away() -> None:
    faults = tuple(Fault(1000 * n, "pause", {"node": 0, "ms": 900}) for n in range(1, 9))
    scenario = Scenario(seed=1, config=draw(1).config, faults=faults)

    def fails(each: Scenario) -> bool:
        return any(fault.at_ms == 5000 for fault in each.faults)

    short = shrink(scenario, fails)

    assert [str(fault) for fault in short.faults] == ["5000 pause node=0 ms=100"]
    assert short.config.batches == 2


def test_a_shrunk_script_fails_as_the_seed_did() -> None:
    with pytest.MonkeyPatch.context() as patch:
        answered_before_the_append(patch)
        failing = next(each for each in map(draw, range(10)) if run(each).violation is not None)
        found = run(failing).violation
        assert found is not None

        def fails(each: Scenario) -> bool:
            violation = run(each).violation
            return violation is not None and violation.checker == found.checker

        short = shrink(failing, fails, budget=8)

        assert len(short.faults) <= len(failing.faults)
        replayed = run(parse(short.text())).violation
        assert replayed is not None
        assert replayed.checker == found.checker
