"""Five simulated nodes under transactions; `make sim PROFILE=transactions` plays more."""

from functools import cache

import pytest

from ledgerstone.sim.cluster import RunOutcome, run
from ledgerstone.sim.scenario import draw, parse
from tests.sim.hunting import first_seeds
from tests.sim.mutants import MUTANTS, Mutant, hunt

# Found by the first seed, so that the default suite shows that the judges have teeth.
QUICK = [
    each
    for each in MUTANTS
    if each.name
    in (
        "one marker says the opposite",
        "the stable offset ignores open transactions",
        "pending offsets count at once",
    )
]


@cache
def played(seed: int) -> RunOutcome:
    """Kept, so that one more play shows that a seed gives the same trace."""
    return run(draw(seed, "transactions"))


@pytest.mark.parametrize("first", first_seeds(quick=5, count=20, step=5))
def test_seeds_of_transactions_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 5):
        outcome = played(seed)
        replay = f"python -m ledgerstone.sim --profile transactions --first {seed} --seeds 1"
        assert outcome.violation is None, replay


def test_the_same_seed_gives_the_same_trace() -> None:
    assert run(draw(1, "transactions")).digest == played(1).digest


def test_a_scenario_of_transactions_survives_its_own_text() -> None:
    for seed in range(50):
        scenario = draw(seed, "transactions")
        assert parse(scenario.text()) == scenario


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_mutant_of_transactions_is_found_at_once(mutant: Mutant) -> None:
    assert hunt(mutant, max_seeds=3) is not None
