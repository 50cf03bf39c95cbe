"""A broker and a client for each test; whatever a test did, the invariants hold after it."""

from collections.abc import Iterator

import pytest

from tests.kit.in_process import Client, InProcess


@pytest.fixture
def machine() -> Iterator[InProcess]:
    machine = InProcess()
    yield machine
    machine.check_invariants()


@pytest.fixture
def client(machine: InProcess) -> Client:
    return machine.connect()
