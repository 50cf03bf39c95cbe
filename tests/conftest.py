"""What every test shares: Hypothesis settings under which the same commit gives the same run, and
who runs where. Tests that share something dear, such as a JVM or a browser, go to one worker.
"""

import atexit
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Where Python is told to keep nothing of what it compiles, as in many containers, each broker and
# each program that a test starts would compile all of the package again, and so would each worker.
# This runs before there are workers, and they inherit it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Keys of brokers that live for a test are nobody's to trust later.
KEYS_OF_TESTS = Path(tempfile.gettempdir()) / f"ledgerstone-receipt-keys-{os.getpid()}"
os.environ["LEDGERSTONE_RECEIPT_KEYS"] = str(KEYS_OF_TESTS)
atexit.register(lambda: KEYS_OF_TESTS.unlink(missing_ok=True))

# No clock decides about a failure, and no directory of earlier examples changes a run.
settings.register_profile(
    "repeatable", max_examples=100, deadline=None, derandomize=True, database=None
)
# For looking further than the suite does: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("explore", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# What one worker runs, by how the path begins. The piece with most tests is dealt out first.
TOGETHER = {
    "tests/spark/": "spark",
    "tests/demo/test_run.py": "spark",
    "tests/docs/test_ops.py": "metrics",
    "tests/docs/test_reference.py": "metrics",
    "tests/web/test_browser.py": "browser",
    "tests/web/test_anatomy_browser.py": "browser",
}
# Files whose tests take seconds each and share nothing: they even out what the workers have to do.
APART = (
    "tests/compat/test_cleaner_workers.py",
    "tests/compat/test_examples.py",
    "tests/compat/test_groups.py",
    "tests/compat/test_idempotence_through_a_proxy.py",
    "tests/compat/test_restarts.py",
    "tests/crash/",
)


class SharingWorkers(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Deals out files, so that what a module shares is made once; some together, some in parts.

    xdist's own groups rename tests, and pytest 9.2 no longer lets it.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path.startswith(APART):
            return nodeid
        return next((group for start, group in TOGETHER.items() if path.startswith(start)), path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return SharingWorkers(config, log)
