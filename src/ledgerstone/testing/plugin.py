"""Fixtures for pytest: a broker for a test, for a session, or made to order; a cluster. Shell.

Loaded in every run of pytest where the package is installed, so nothing but pytest is imported here
until a fixture is used. The fixtures are documented in docs/testing.md.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerstone.testing.broker import LedgerstoneBroker
    from ledgerstone.testing.cluster import LedgerstoneCluster
    from ledgerstone.testing.conformance.check import ScenarioCheck


class PlainImports:
    """Finds our modules before pytest does.

    pytest rewrites the asserts of every module in a distribution that has a plugin. That means
    parsing 400 files, which takes longer than starting a broker. Asserts in `testing` that a user
    may meet have a message."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith("ledgerstone."):
            return PathFinder.find_spec(name, path, target)
        return None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ledgerstone")
    group.addoption(
        "--ledgerstone-keep-data",
        action="store_true",
        help="Keep the data of brokers used by tests, and print where it is.",
    )
    parser.addini(
        "ledgerstone_config",
        "Settings of every broker that a fixture starts, one key=value per line.",
        type="linelist",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "tombstone_scenario" in metafunc.fixturenames:
        from ledgerstone.testing.conformance.scenarios import SCENARIOS

        metafunc.parametrize("tombstone_scenario", list(SCENARIOS), indirect=True)


@pytest.fixture
def ledgerstone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[LedgerstoneBroker]":
    """A broker for this test: empty, on a free port, with a clock that the test advances."""
    yield from _lend(request, tmp_path_factory, {})


@pytest.fixture(scope="session")
def ledgerstone_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[LedgerstoneBroker]":
    """A broker for all tests; `topic` returns a unique name each time. The clock is shared."""
    yield from _lend(request, tmp_path_factory, {}, unique=True)


@pytest.fixture
def ledgerstone_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Callable[..., LedgerstoneBroker]]":
    """Makes brokers: `ledgerstone_broker(num_partitions=3)`. Each stops with the test."""
    # The last one first, and each even if another one fails.
    with ExitStack() as lent:

        def make(**configs: object) -> "LedgerstoneBroker":
            loan = _lend(request, tmp_path_factory, configs)
            broker = next(loan)
            lent.callback(next, loan, None)
            return broker

        yield make


@pytest.fixture
def ledgerstone_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[LedgerstoneCluster]":
    """Three brokers for this test, which it can stop, kill and cut off from each other."""
    with _quick_imports():
        from ledgerstone.records.kernels import load
        from ledgerstone.testing.cluster import LedgerstoneCluster

    load(lambda line: _say(request.config, line))
    directory = tmp_path_factory.mktemp("ledgerstone")
    try:
        with LedgerstoneCluster(directory, _given(request)) as cluster:
            yield cluster
    finally:
        _put_away(request, directory)


@pytest.fixture
def tombstone_scenario(
    request: pytest.FixtureRequest, ledgerstone: "LedgerstoneBroker"
) -> "ScenarioCheck":
    """One scenario of the tombstone conformance kit; a test that uses it runs once for each."""
    from ledgerstone.testing.conformance.check import ScenarioCheck

    return ScenarioCheck(ledgerstone, request.param)


def _lend(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    configs: Mapping[str, Any],
    *,
    unique: bool = False,
) -> "Iterator[LedgerstoneBroker]":
    with _quick_imports():
        from ledgerstone.records.kernels import load
        from ledgerstone.testing.broker import LedgerstoneBroker
        from ledgerstone.testing.settings import as_configs

    load(lambda line: _say(request.config, line))
    directory = tmp_path_factory.mktemp("ledgerstone")
    settings = {**_given(request), **as_configs(configs)}
    broker = LedgerstoneBroker(directory, settings, unique=unique)
    try:
        with broker:
            yield broker
    finally:
        _put_away(request, directory)


def _given(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of the ini file."""
    from ledgerstone.testing.settings import parse_lines

    try:
        return parse_lines(request.config.getini("ledgerstone_config"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


@contextmanager
def _quick_imports() -> Iterator[None]:
    """Imports make no garbage, so looking for it is a waste."""
    if PlainImports not in sys.meta_path:
        sys.meta_path.insert(0, PlainImports)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _put_away(request: pytest.FixtureRequest, directory: "Path") -> None:
    import shutil

    if not request.config.getoption("--ledgerstone-keep-data"):
        shutil.rmtree(directory, ignore_errors=True)
        return
    text = f"data of {request.node.nodeid or 'the session'}: {directory}"
    if isinstance(request.node, pytest.Item):
        # Shown with a failure; an xdist worker has no other way to print it.
        request.node.add_report_section("teardown", "ledgerstone", text)
    _say(request.config, text)


def _say(config: pytest.Config, text: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(f"ledgerstone: {text}", flush=True)
