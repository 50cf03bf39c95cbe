"""What a broker says of others: their addresses, their replicas, and what they lead."""

import pytest

from ledgerstone.metadata.replay import UNFENCE
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerEndPoint,
    RegisterBrokerRecord,
)
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.roles import change_partition
from tests.unit.server.asks import TOPIC, create_topic, produced

INSIDE, OUTSIDE = "PLAINTEXT", "OUTSIDE"
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def register(machine: InProcess, broker_id: int, *listeners: str, fenced: bool = False) -> None:
    """Another broker of the cluster."""
    link = machine.broker.controller_link
    epoch = link.quorum.end_offset
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=bytes([broker_id]) * 16,
            broker_epoch=epoch,
            end_points=[
                RegisterBrokerEndPoint(name, f"{name.lower()}-{broker_id}", 9092, 0)
                for name in listeners
            ],
            fenced=True,
            rack=f"r{broker_id}",
        )
    ]
    if not fenced:
        records.append(
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=UNFENCE)
        )
    link.write(records)


@pytest.fixture
def cluster(machine: InProcess, client: Client) -> InProcess:
    """Brokers 1 to 4: 3 has another listener than the client's, 4 is fenced."""
    register(machine, 2, INSIDE, OUTSIDE)
    register(machine, 3, OUTSIDE)
    register(machine, 4, INSIDE, fenced=True)
    create_topic(client)
    return machine


def described(client: Client, version: int | None = None) -> MetadataPartition:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    answer = client.ask(request, MetadataResponse, version)
    return answer.topics[0].partitions[0]


def test_brokers_are_named_by_the_listener_of_the_client(
    cluster: InProcess, client: Client
) -> None:
    answer = client.ask(MetadataRequest(topics=None), MetadataResponse)
    assert [(each.node_id, each.host, each.rack) for each in answer.brokers] == [
        (1, "broker.example", None),
        (2, "plaintext-2", "r2"),
    ]
    assert answer.controller_id == 1


def test_a_description_of_the_cluster_can_have_fenced_brokers(
    cluster: InProcess, client: Client
) -> None:
    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer = client.ask(request, DescribeClusterResponse)
    assert [(each.broker_id, each.is_fenced) for each in answer.brokers] == [
        (1, False),
        (2, False),
        (4, True),
    ]
    assert answer.controller_id == 1


def test_replicas_that_a_client_cannot_reach_are_offline(
    cluster: InProcess, client: Client
) -> None:
    everyone = [1, 2, 3, 4]
    change_partition(cluster, TopicPartition(TOPIC, 0), replicas=everyone, isr=everyone, leader=1)
    found = described(client)
    assert found.leader_id == 1
    assert found.replica_nodes == found.isr_nodes == [1, 2, 3, 4]
    assert found.offline_replicas == [3, 4]
    # The oldest clients are only told what they can reach.
    found = described(client, 0)
    assert found.replica_nodes == found.isr_nodes == [1, 2]
    assert found.error_code == ErrorCode.REPLICA_NOT_AVAILABLE


def test_leader_without_the_listener_of_the_client(cluster: InProcess, client: Client) -> None:
    change_partition(cluster, TopicPartition(TOPIC, 0), replicas=[1, 2, 3], isr=[1, 2, 3], leader=3)
    found = described(client)
    assert (found.leader_id, found.error_code) == (-1, ErrorCode.LISTENER_NOT_FOUND)
    found = described(client, 5)
    assert (found.leader_id, found.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_partition_led_by_another_broker_is_not_served(cluster: InProcess, client: Client) -> None:
    change_partition(cluster, TopicPartition(TOPIC, 0), replicas=[1, 2], isr=[1, 2], leader=2)
    assert produced(client, batch(("k", "v"))).error_code == NOT_LEADER
    # It is still a replica here; moved away, it is not, and the answer is the same.
    assert len(cluster.broker.partitions) == 1
    change_partition(cluster, TopicPartition(TOPIC, 0), replicas=[2], isr=[2], leader=2)
    assert len(cluster.broker.partitions) == 0
    assert produced(client, batch(("k", "v"))).error_code == NOT_LEADER
