"""`ledgerstone cluster replicate`: topics that it is asked for by name."""

import pytest

from ledgerstone.cli import cluster_place
from ledgerstone.cli.cluster_brokers import replicate
from ledgerstone.errors import UnknownTopicOrPartition
from ledgerstone.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tests.unit.client.fake_cluster import FakeCluster


def test_topic_that_does_not_exist_has_not_been_replicated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = FakeCluster()
    cluster.topic("orders", [1])
    cluster.once(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse())
    broker = DescribeClusterBroker(broker_id=1, host="node1", port=9092)
    cluster.once(DescribeClusterRequest, DescribeClusterResponse(brokers=[broker]))
    monkeypatch.setattr(cluster_place, "Client", lambda servers, config: cluster.client())

    with pytest.raises(UnknownTopicOrPartition, match="no topic ordres"):
        replicate(factor=1, topic=["orders", "ordres"], bootstrap="node1:9092", at_once=1)

    assert capsys.readouterr().out == ""
