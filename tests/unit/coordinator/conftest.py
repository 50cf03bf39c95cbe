"""The desk every test of the group machine works at; its invariants hold when the test is over."""

from collections.abc import Iterator

import pytest

from tests.unit.coordinator.desk import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.shard.check_invariants()
