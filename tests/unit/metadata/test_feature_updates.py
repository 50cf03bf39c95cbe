"""UpdateFeatures: levels for the whole cluster, all of them or none."""

import pytest

from ledgerstone.metadata.feature_updates import QuorumFacts, UpgradeType
from ledgerstone.metadata.image import EVERY_BROKER, ConfigResource, ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterBrokerFeature,
    RegisterBrokerRecord,
    RegisterControllerFeature,
    RegisterControllerRecord,
)
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesFeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.unit.metadata.cluster import Cluster

ELR = "eligible.leader.replicas.version"
TRANSACTIONS = "transaction.version"
UPGRADE, SAFE, UNSAFE = (int(each) for each in UpgradeType)


def _update(
    cluster: Cluster, *updates: tuple[str, int, int], validate_only: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesFeatureUpdate(name, level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        validate_only=validate_only,
    )
    response: UpdateFeaturesResponse = cluster.ask(request)
    return response


def _at(level: int) -> Cluster:
    cluster = Cluster(brokers=0)
    cluster.commit([FeatureLevelRecord("metadata.version", level)])
    return cluster


def test_an_upgrade_is_finalized_and_each_feature_answered() -> None:
    cluster = _at(25)

    response = _update(cluster, ("metadata.version", 30, UPGRADE), ("group.version", 1, UPGRADE))

    assert response.error_code == 0
    assert [(each.feature, each.error_code) for each in response.results] == [
        ("metadata.version", 0),
        ("group.version", 0),
    ]
    assert cluster.image.features == {
        "metadata.version": 30,
        "group.version": 1,
        TRANSACTIONS: 2,
    }


def test_one_refusal_refuses_all() -> None:
    cluster = _at(25)

    response = _update(cluster, ("metadata.version", 30, UPGRADE), ("no.such", 1, UPGRADE))

    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.results == []
    assert str(response.error_message).endswith(
        "Invalid update version 1 for feature no.such. Local controller 1 does not support this "
        "feature."
    )
    assert cluster.image.metadata_version == 25


def test_validate_only_changes_nothing() -> None:
    cluster = _at(25)
    end = len(cluster.log)

    assert _update(cluster, ("metadata.version", 30, UPGRADE), validate_only=True).error_code == 0
    refused = _update(cluster, ("metadata.version", 31, UPGRADE), validate_only=True)

    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert len(cluster.log) == end


@pytest.mark.parametrize(
    ("level", "update", "reason"),
    [
        (25, ("metadata.version", 31, UPGRADE), "Local controller 1 only supports versions 7-30"),
        (25, ("metadata.version", 6, SAFE), "Local controller 1 only supports versions 7-30"),
        (25, ("metadata.version", 24, UPGRADE), "without setting the upgrade type"),
        (25, ("metadata.version", 26, SAFE), "Can't downgrade to a newer version."),
        (25, ("metadata.version", 22, SAFE), "it might delete metadata information"),
        (25, ("metadata.version", 22, UNSAFE), "Unsafe metadata downgrade is not supported"),
        (30, ("metadata.version", 29, SAFE), "from 30 to 29"),
        (25, ("metadata.version", 25, 4), "does not support the given upgrade type"),
        (25, (TRANSACTIONS, -1, SAFE), "cannot be less than 0"),
        (22, (ELR, 1, UPGRADE), "depends on metadata.version level 23"),
        (25, ("kraft.version", 2, UPGRADE), "only supports versions 0-1"),
    ],
)
def test_what_is_refused(level: int, update: tuple[str, int, int], reason: str) -> None:
    cluster = _at(level)
    before = cluster.image

    response = _update(cluster, update)

    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert reason in str(response.error_message)
    assert cluster.image == before


def test_a_downgrade_between_levels_with_the_same_records_loses_nothing() -> None:
    cluster = _at(29)

    assert _update(cluster, ("metadata.version", 23, SAFE)).error_code == 0
    assert cluster.image.metadata_version == 23
    assert _update(cluster, (TRANSACTIONS, 0, UNSAFE)).error_code == 0
    assert TRANSACTIONS not in cluster.image.features


def test_version_0_of_the_request_allows_a_downgrade_by_a_flag() -> None:
    cluster = _at(25)
    update = UpdateFeaturesFeatureUpdate(TRANSACTIONS, 1, allow_downgrade=True)

    assert cluster.ask(UpdateFeaturesRequest(feature_updates=[update])).error_code == 0
    assert cluster.image.features[TRANSACTIONS] == 1


def test_every_registered_broker_must_support_it_the_fenced_ones_too() -> None:
    cluster = _at(25)
    features = [RegisterBrokerFeature("metadata.version", 7, 27)]
    cluster.commit([RegisterBrokerRecord(broker_id=4, features=features)])

    too_new = _update(cluster, ("metadata.version", 28, UPGRADE))
    unknown = _update(cluster, ("share.version", 1, UPGRADE))

    assert "Broker 4 only supports versions 7-27" in str(too_new.error_message)
    assert "Broker 4 does not support this feature." in str(unknown.error_message)
    assert _update(cluster, ("metadata.version", 27, UPGRADE)).error_code == 0


def test_every_voter_must_have_registered_and_support_it() -> None:
    cluster = _at(25)
    cluster.controller.quorum = lambda: QuorumFacts(kraft_version=1, voter_ids=[1, 2])

    missing = _update(cluster, ("metadata.version", 30, UPGRADE))
    features = [RegisterControllerFeature("metadata.version", 7, 29)]
    cluster.commit([RegisterControllerRecord(controller_id=2, features=features)])
    older = _update(cluster, ("metadata.version", 30, UPGRADE))

    assert "controller 2 has not registered" in str(missing.error_message)
    assert "Controller 2 only supports versions 7-29" in str(older.error_message)
    assert _update(cluster, ("metadata.version", 29, UPGRADE)).error_code == 0


def test_the_quorum_upgrades_itself_and_a_record_is_there_to_wait_for() -> None:
    cluster = _at(25)
    update = UpdateFeaturesFeatureUpdate("kraft.version", 1)
    request = UpdateFeaturesRequest(feature_updates=[update])

    decision = cluster.controller.update_features(request)
    cluster.controller.quorum = lambda: QuorumFacts(kraft_version=1)
    again = cluster.controller.update_features(request)
    back = _update(cluster, ("kraft.version", 0, SAFE))

    assert (decision.kraft_version, decision.records) == (1, [NoOpRecord()])
    assert (again.kraft_version, again.records, again.response.error_code) == (None, [], 0)
    assert "Can't downgrade the version of this feature." in str(back.error_message)


def test_with_eligible_replicas_the_minimum_is_set_for_all_and_for_none_alone() -> None:
    cluster = Cluster("min.insync.replicas=2", brokers=0)
    own = ConfigResource(ResourceType.BROKER, "3")
    settings: list[MetadataRecord] = [
        ConfigRecord(*own, "min.insync.replicas", "3"),
        ConfigRecord(*own, "log.retention.ms", "3"),
    ]
    cluster.commit(settings)

    assert _update(cluster, (ELR, 1, UPGRADE)).error_code == 0

    assert cluster.image.config_of(EVERY_BROKER) == {"min.insync.replicas": "2"}
    assert cluster.image.config_of(own) == {"log.retention.ms": "3"}
