"""BrokerRegistration, UnregisterBroker, ControllerRegistration: who is let in, and what changes."""

from collections.abc import Callable

import pytest

from ledgerstone.metadata.features import SUPPORTED_FEATURES
from ledgerstone.metadata.image import NO_LEADER, Endpoint, SupportedFeature
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from ledgerstone.protocol.messages.controller_registration import (
    ControllerRegistrationFeature,
    ControllerRegistrationListener,
    ControllerRegistrationRequest,
)
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ledgerstone.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.metadata.cluster import Cluster, a_topic

DIRECTORY = bytes([7] * 16)
Change = Callable[[BrokerRegistrationRequest], None]


def _request(broker_id: int = 7) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id="cluster",
        incarnation_id=bytes([broker_id] * 16),
        listeners=[BrokerRegistrationListener("PLAINTEXT", "host", 9092, 0)],
        features=[
            BrokerRegistrationFeature(name, first, last)
            for name, (first, last) in SUPPORTED_FEATURES.items()
        ],
        rack="r",
        log_dirs=[DIRECTORY],
    )


def _with(**values: object) -> Change:
    def change(request: BrokerRegistrationRequest) -> None:
        for name, value in values.items():
            setattr(request, name, value)

    return change


def _feature(name: str, first: int, last: int) -> Change:
    def change(request: BrokerRegistrationRequest) -> None:
        kept = [each for each in request.features if each.name != name]
        request.features = [*kept, BrokerRegistrationFeature(name, first, last)]

    return change


def _without(name: str) -> Change:
    def change(request: BrokerRegistrationRequest) -> None:
        request.features = [each for each in request.features if each.name != name]

    return change


def test_a_registered_broker_is_fenced_and_says_what_it_is() -> None:
    cluster = Cluster(brokers=0)
    epoch = len(cluster.log)

    response = cluster.ask(_request())

    broker = cluster.image.brokers[7]
    assert (response.error_code, response.broker_epoch) == (0, epoch)
    assert (broker.broker_epoch, broker.fenced, broker.rack) == (epoch, True, "r")
    assert broker.endpoints == (Endpoint("PLAINTEXT", "host", 9092, 0),)
    assert broker.log_dirs == (DIRECTORY,)
    assert SupportedFeature("metadata.version", 7, 30) in broker.features


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_with(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (_with(is_migrating_zk_broker=True), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (_with(log_dirs=[]), ErrorCode.INVALID_REGISTRATION),
        (_with(log_dirs=[DIRECTORY, DIRECTORY]), ErrorCode.INVALID_REGISTRATION),
        (_with(log_dirs=[(99).to_bytes(16)]), ErrorCode.INVALID_REGISTRATION),
        (_with(log_dirs=[DIRECTORY, bytes([1] * 16)]), ErrorCode.INVALID_REGISTRATION),
        (_without("metadata.version"), ErrorCode.INVALID_REGISTRATION),
        (_feature("metadata.version", 7, 29), ErrorCode.UNSUPPORTED_VERSION),
        (_feature("metadata.version", 31, 32), ErrorCode.UNSUPPORTED_VERSION),
        (_feature("new.feature", 1, 2), ErrorCode.UNSUPPORTED_VERSION),
        (_without("transaction.version"), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_who_is_not_let_in(change: Change, code: ErrorCode) -> None:
    cluster = Cluster(brokers=1)
    before, request = cluster.image, _request()
    change(request)

    response = cluster.ask(request)

    assert (response.error_code, response.broker_epoch) == (code, -1)
    assert cluster.image == before


def test_before_directories_had_ids_none_are_asked_for() -> None:
    cluster = Cluster(brokers=0)
    cluster.commit([FeatureLevelRecord("metadata.version", 16)])
    request = _request()
    request.log_dirs = []

    assert cluster.ask(request).error_code == 0


def test_a_new_incarnation_cleans_up_first_and_registers_last() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(a_topic(assignments={0: [1, 2], 1: [2, 1]}))
    epoch = len(cluster.log)
    request = _request(1)
    request.log_dirs = [bytes([1] * 16)]

    decision = cluster.controller.decide(request, now_ms=0, next_offset=epoch)

    assert not decision.is_atomic
    assert [type(each) for each in decision.records] == [
        PartitionChangeRecord,
        PartitionChangeRecord,
        RegisterBrokerRecord,
    ]
    last = decision.records[-1]
    assert isinstance(last, RegisterBrokerRecord)
    assert last.broker_epoch == decision.response.broker_epoch == epoch


def test_an_unregistered_broker_stays_in_the_lists_of_replicas_only() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(a_topic(assignments={0: [1, 2]}), a_topic("alone", assignments={0: [1]}))
    start = len(cluster.log)

    response = cluster.ask(UnregisterBrokerRequest(broker_id=1))

    assert response.error_code == 0
    assert isinstance(cluster.log[-1], UnregisterBrokerRecord)
    assert all(isinstance(each, PartitionChangeRecord) for each in cluster.log[start:-1])
    assert list(cluster.image.brokers) == [2]
    shared, alone = (cluster.image.topics[name].partitions[0] for name in ("t", "alone"))
    assert (shared.replicas, shared.isr, shared.leader) == ((1, 2), (2,), 2)
    assert (alone.replicas, alone.leader) == ((1,), NO_LEADER)


def test_a_broker_that_is_not_there_cannot_be_unregistered() -> None:
    response = Cluster().ask(UnregisterBrokerRequest(broker_id=9))

    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert response.error_message == "broker 9 is not registered"


def test_controllers_are_registered_from_the_level_that_knows_them() -> None:
    cluster = Cluster(brokers=0)
    request = ControllerRegistrationRequest(
        controller_id=3,
        incarnation_id=DIRECTORY,
        listeners=[ControllerRegistrationListener("CONTROLLER", "host", 9093, 0)],
        features=[ControllerRegistrationFeature("metadata.version", 7, 30)],
    )

    assert cluster.ask(request).error_code == 0
    controller = cluster.image.controllers[3]
    assert controller.endpoints == (Endpoint("CONTROLLER", "host", 9093, 0),)
    assert controller.features == (SupportedFeature("metadata.version", 7, 30),)

    cluster.commit([FeatureLevelRecord("metadata.version", 14)])
    assert cluster.ask(request).error_code == ErrorCode.UNSUPPORTED_VERSION


# -- directories ---------------------------------------------------------------------------------


def _beat(cluster: Cluster, broker_id: int, **values: object) -> None:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=cluster.image.brokers[broker_id].broker_epoch,
        current_metadata_offset=len(cluster.log),
    )
    for name, value in values.items():
        setattr(request, name, value)
    assert cluster.ask(request).error_code == 0


def test_a_failed_directory_takes_only_its_own_partitions_along() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(a_topic(assignments={0: [1, 2]}))
    good, bad = bytes([1] * 16), bytes([99] * 16)
    epoch = cluster.image.brokers[1].broker_epoch
    cluster.commit([BrokerRegistrationChangeRecord(1, epoch, log_dirs=[good, bad])])
    before = cluster.image.topics["t"]

    _beat(cluster, 1, offline_log_dirs=[bad])
    assert cluster.image.brokers[1].log_dirs == (good,)
    assert cluster.image.topics["t"] == before
    end = len(cluster.log)
    _beat(cluster, 1, offline_log_dirs=[bad])
    assert len(cluster.log) == end

    cluster.commit([BrokerRegistrationChangeRecord(1, epoch, log_dirs=[good, bad])])
    _beat(cluster, 1, offline_log_dirs=[good])
    assert cluster.image.topics["t"].partitions[0].leader == 2
    assert cluster.image.brokers[1].is_active


def test_cordoned_directories_are_written_when_they_change_and_the_level_knows_them() -> None:
    cluster = Cluster(brokers=1)
    directory = bytes([1] * 16)

    lengths = []
    for cordoned in ([directory], [directory], [], None):
        _beat(cluster, 1, cordoned_log_dirs=cordoned)
        lengths.append(len(cluster.log))
    assert [after - lengths[0] for after in lengths] == [0, 0, 1, 1]
    assert cluster.image.brokers[1].cordoned_log_dirs == ()

    cluster.commit([FeatureLevelRecord("metadata.version", 29)])
    end = len(cluster.log)
    _beat(cluster, 1, cordoned_log_dirs=[directory])
    assert len(cluster.log) == end
