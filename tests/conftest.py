"""What every test shares: Hypothesis settings under which the same commit gives the same run, and
who runs where. Tests that share something dear, such as a JVM or a browser, go to one worker.
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


# What one worker runs, by how the path begins. The largest piece is dealt out first.
TOGETHER = {
    "tests/spark/": "spark",
    "tests/demo/test_run.py": "spark",
    "tests/docs/test_examples.py": "examples",
    "tests/docs/test_wheel.py": "wheel",
    "tests/web/test_browser.py": "browser",
    "tests/web/test_anatomy_browser.py": "browser",
}


class SharingWorkers(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Deals out tests one by one, except for those that stay together.

    xdist's own groups rename tests, and pytest 9.2 no longer lets it.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return next((group for start, group in TOGETHER.items() if path.startswith(start)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return SharingWorkers(config, log)
