"""What every test shares: Hypothesis settings under which the same commit gives the same run, and
which worker runs which test. Tests that share something expensive, such as a JVM or a browser, go
to one worker.
"""

import atexit
import gc
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Many containers tell Python not to write bytecode. Then every worker, every broker and every
# program that a test starts would compile the whole package again. This runs before the workers
# start, and they inherit it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Keys of the tests' brokers must not end up among the keys that the user trusts.
KEYS_OF_TESTS = Path(tempfile.gettempdir()) / f"ledgerstone-receipt-keys-{os.getpid()}"
os.environ["LEDGERSTONE_RECEIPT_KEYS"] = str(KEYS_OF_TESTS)
atexit.register(lambda: KEYS_OF_TESTS.unlink(missing_ok=True))

# No deadline can fail a test on a slow machine, and no database of earlier examples changes a run.
# A third of the examples by default, all of them in `make crash`: tests/kit/sized.py.
settings.register_profile(
    "thorough", max_examples=60, deadline=None, derandomize=True, database=None
)
settings.register_profile("repeatable", settings.get_profile("thorough"), max_examples=20)
# To search further than both: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("explore", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# Collecting the tests makes half a million objects and no garbage. They live as long as the worker,
# so nobody looks at them again: a full collection takes 0.3 s with them and nothing without, and
# tests that make much garbage or ask for a collection would pay that each time.
@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        found = yield
        gc.collect()
        gc.freeze()
    finally:
        gc.enable()
    return found


# What the default suite leaves out, as the Makefile says it.
DEFAULT_MARKS = "not slow and not kafka"
LEFT_OUT = ("slow", "kafka")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """A sixth of all tests are marked as a whole to be left out: no worker makes them, to throw
    them away. Cases that are marked one by one are made, and deselected as ever."""
    if not name.startswith("test") or collector.config.option.markexpr != DEFAULT_MARKS:
        return None
    own = {mark.name for mark in getattr(obj, "pytestmark", ())}
    is_left_out = any(each in own or collector.get_closest_marker(each) for each in LEFT_OUT)
    return [] if is_left_out else None


# What one worker runs together, by the start of the path; the first that fits. Databases as
# sources need no Spark, so another worker has time for them.
TOGETHER = {
    "tests/spark/test_flows_sources.py": "sources",
    "tests/spark/": "spark",
    "tests/demo/test_run.py": "spark",
    "tests/docs/test_ops.py": "metrics",
    "tests/docs/test_reference.py": "metrics",
    "tests/web/test_browser.py": "browser",
    "tests/web/test_anatomy_browser.py": "browser",
    "tests/web/test_cluster_browser.py": "browser",
}
# Files whose tests take seconds each and share nothing: dealt out one by one, to even out the load.
APART = (
    "tests/cluster/test_erasing_cluster.py",
    "tests/cluster/test_erasing_processes.py",
    "tests/cluster/test_secure_cluster.py",
    "tests/compat/test_cleaner_workers.py",
    "tests/compat/test_examples.py",
    "tests/compat/test_groups.py",
    "tests/compat/test_idempotence_through_a_proxy.py",
    "tests/compat/test_restarts.py",
    "tests/compat/test_transactions_restart.py",
    "tests/crash/",
)
# The pieces that take longest start first, so that no worker waits for one of them at the end.
# Found with `pytest --durations=0`; after these, the pieces with most tests.
LONGEST = (
    "tests/spark/",
    "tests/demo/test_run.py",
    "tests/docs/test_start_spark.py",
    "tests/compat/",
    "tests/cluster/",
    "tests/crash/",
    "tests/sim/",
    "tests/web/",
    "tests/docs/",
    "tests/testing/",
    "tests/property/",
)


def piece_of(nodeid: str) -> str:
    """What a test is dealt out with: its file, unless it is listed above."""
    path = nodeid.partition("::")[0]
    if path.startswith(APART):
        return nodeid
    return next((group for start, group in TOGETHER.items() if path.startswith(start)), path)


def longest_first(nodeids: Sequence[str]) -> list[str]:
    """The order in which pieces start; tests of one piece stay in the order they were found."""
    sizes = Counter(map(piece_of, nodeids))

    def rank(nodeid: str) -> tuple[int, int]:
        places = (at for at, start in enumerate(LONGEST) if nodeid.startswith(start))
        return next(places, len(LONGEST)), -sizes[piece_of(nodeid)]

    return sorted(nodeids, key=rank)


class SharingWorkers(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Deals out files, so that a module's shared fixtures are made once; some together, some apart.

    xdist's own groups rename tests, which pytest 9.2 no longer allows.
    """

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # xdist would start the pieces with most tests first, whatever they cost.
    config.option.loadscopereorder = False
    return SharingWorkers(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        order = {nodeid: at for at, nodeid in enumerate(longest_first([i.nodeid for i in items]))}
        items.sort(key=lambda item: order[item.nodeid])
