"""Erasures over replicas: one receipt for all brokers, across failovers."""

import pytest

from ledgerstone.testing.cluster import LedgerstoneCluster
from tests.cluster.erasing_story import KEY, Story


@pytest.fixture
def story(ledgerstone_cluster: LedgerstoneCluster) -> Story:
    return Story(ledgerstone_cluster)


def test_one_receipt_speaks_of_every_broker(story: Story) -> None:
    story.topic()
    story.put()
    assert len(story.files_with(KEY.encode())) == 3

    erasure_id = story.erase(2)
    ended = story.run(erasure_id)

    assert ended["stage"] == "receipted", ended
    receipt = story.receipt(erasure_id, 3)
    assert [each["node_id"] for each in receipt["replicas"]] == [1, 2, 3]
    assert all(each["records"] == 0 and each["residue"] == 0 for each in receipt["replicas"])
    assert all(each["incarnation_id"] for each in receipt["replicas"])
    assert all(each["hosted"][0]["log_end_offset"] == 4 for each in receipt["replicas"])
    assert receipt["lost_brokers"] == []
    assert story.files_with(KEY.encode()) == []
    secrets = {
        (node.directory / "erasure.keys").read_bytes() for node in story.cluster.nodes.values()
    }
    assert len(secrets) == 1
