"""A shard for each test; whatever a test did, the invariants hold after it."""

from collections.abc import Iterator

import pytest

from tests.unit.coordinator.transactions.desk import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.shard.check_invariants()
    held = sum(each.counted_bytes for each in desk.shard.table)
    assert desk.shard.table.memory.held_bytes == held
