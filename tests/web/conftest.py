"""Brokers with pages, and the one browser for real ones."""

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from chromium import open_chromium
from tests.kit.in_process import InProcess
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import Visitor, full_machine


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """It takes seconds to start; one worker runs all tests that use it (tests/conftest.py)."""
    browser = open_chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


@pytest.fixture
def machine() -> Iterator[ErasingMachine]:
    """With topics, records, a group and an erasure."""
    machine = full_machine()
    yield machine
    machine.check_invariants()


@pytest.fixture
def empty() -> Iterator[InProcess]:
    machine = InProcess()
    yield machine
    machine.check_invariants()


@pytest.fixture
def visitor(machine: ErasingMachine) -> Visitor:
    """Has the token."""
    return Visitor(machine).let_in()


@pytest.fixture
def stranger(machine: ErasingMachine) -> Visitor:
    return Visitor(machine)
