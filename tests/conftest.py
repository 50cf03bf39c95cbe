"""What every test shares: Hypothesis settings under which the same commit gives the same run, and
who runs where. All tests of a file whose path says `spark` go to one worker, which begins with
them: a second session would need a second JVM.
"""

import os

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# No clock decides about a failure, and no directory of earlier examples changes a run.
settings.register_profile(
    "repeatable", max_examples=100, deadline=None, derandomize=True, database=None
)
# For looking further than the suite does: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("explore", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


class OneWorkerForSpark(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Deals out tests one by one, those of Spark as one piece.

    xdist's own groups rename tests, and pytest 9.2 no longer lets it.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "spark" if "spark" in path else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return OneWorkerForSpark(config, log)
