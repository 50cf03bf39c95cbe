"""The simulator must be able to fail: it finds every mutant. `make sim MUTANTS=1` has figures."""

import pytest

from tests.sim.mutants import MUTANTS, Mutant, hunt

# Found within a few seeds, so that the default suite shows that the simulator has teeth.
QUICK = [
    each
    for each in MUTANTS
    if each.name
    in (
        "a batch is answered and never appended",
        "the high watermark lies beyond the log's end",
    )
]


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_within_a_few_seeds(mutant: Mutant) -> None:
    assert hunt(mutant, max_seeds=5) is not None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_found(mutant: Mutant) -> None:
    assert hunt(mutant) is not None
