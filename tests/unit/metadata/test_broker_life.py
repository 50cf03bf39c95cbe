"""How a broker enters the cluster, and how it gets producer ids."""

import pytest

from ledgerstone.errors import StaleBrokerEpoch
from ledgerstone.metadata.image import Endpoint
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from tests.unit.metadata.cluster import Cluster, a_topic


def _allocate(cluster: Cluster, broker_id: int, epoch: int) -> AllocateProducerIdsResponse:
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
    return cluster.carry_out(cluster.controller.allocate_producer_ids(request))


def test_a_started_broker_is_registered_and_unfenced() -> None:
    cluster = Cluster()

    broker = cluster.image.brokers[1]

    assert broker.is_active
    assert broker.broker_epoch == 2
    assert broker.endpoints == (Endpoint("PLAINTEXT", "host-1", 9092, 0),)
    assert broker.default_directory == bytes([1] * 16)
    assert [feature.name for feature in broker.features] == [
        "metadata.version",
        "kraft.version",
        "transaction.version",
        "eligible.leader.replicas.version",
    ]


def test_a_new_cluster_says_its_features_first() -> None:
    features = Cluster(brokers=0).image.features

    assert features == {"metadata.version": 30, "transaction.version": 2}


def test_a_broker_that_stopped_cleanly_keeps_its_leader_epochs() -> None:
    cluster = Cluster()
    cluster.create(a_topic(partitions=2))

    cluster.start_broker(1, stopped_cleanly=True)

    partitions = cluster.image.topics["t"].partitions
    assert [partitions[number].leader_epoch for number in (0, 1)] == [0, 0]
    assert cluster.image.brokers[1].broker_epoch > 1


def test_a_leader_that_crashed_gets_new_epochs_for_what_it_leads() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(a_topic(assignments={0: [1, 2], 1: [2, 1]}))

    cluster.start_broker(1, stopped_cleanly=False)

    partitions = cluster.image.topics["t"].partitions
    assert [partitions[number].leader for number in (0, 1)] == [1, 2]
    assert [partitions[number].leader_epoch for number in (0, 1)] == [1, 0]


def test_unfencing_needs_the_epoch_of_the_registration() -> None:
    cluster = Cluster()

    with pytest.raises(StaleBrokerEpoch):
        cluster.controller.unfence_broker(1, broker_epoch=0)
    with pytest.raises(StaleBrokerEpoch):
        cluster.controller.unfence_broker(2, broker_epoch=0)


def test_unfencing_an_unfenced_broker_writes_nothing() -> None:
    assert Cluster().controller.unfence_broker(1, broker_epoch=2) == []


def test_producer_ids_come_in_blocks_of_a_thousand_and_never_twice() -> None:
    cluster = Cluster(brokers=2)
    epochs = {number: broker.broker_epoch for number, broker in cluster.image.brokers.items()}

    blocks = [_allocate(cluster, number, epochs[number]) for number in (1, 2, 1)]

    assert [block.producer_id_start for block in blocks] == [0, 1000, 2000]
    assert {block.producer_id_len for block in blocks} == {1000}
    assert cluster.image.next_producer_id == 3000


def test_producer_ids_are_for_registered_brokers_of_this_epoch() -> None:
    cluster = Cluster()

    codes = [_allocate(cluster, *broker).error_code for broker in ((2, 1), (1, 99))]

    assert codes == [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH]
    assert cluster.image.next_producer_id == 0
