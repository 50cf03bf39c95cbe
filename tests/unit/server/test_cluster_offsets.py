"""Probes: group ids by which a broker is asked whether it coordinates a partition."""

import pytest

from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.server.tombstones.cluster_offsets import probe_of


@pytest.mark.parametrize("count", [1, 6, 50])
def test_every_offsets_partition_has_a_probe_of_its_own(count: int) -> None:
    probes = [probe_of(number, count) for number in range(count)]

    assert [partition_for(each, count) for each in probes] == list(range(count))
