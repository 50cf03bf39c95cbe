"""Roles, listeners and the quorum of a node: what they mean, and what is refused."""

from dataclasses import fields

import pytest

from ledgerstone.config.broker import BrokerConfig, Listener, load_broker_config
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.cluster import ClusterConfig, QuorumServer, QuorumVoter, Roles
from ledgerstone.errors import ConfigError
from tests.kit.cluster_settings import BROKER, COMBINED, CONTROLLER, REFUSED, SOUND, STATIC


def _cluster(settings: dict[str, str]) -> ClusterConfig:
    return BrokerConfig.from_raw(settings).cluster


def test_defaults_are_those_of_the_keys() -> None:
    cluster = _cluster({})

    for field in fields(cluster):
        key = BROKER_KEYS.get(field.name.replace("_", "."))
        if key is not None and key.default not in (None, ()):
            assert getattr(cluster, field.name) == key.default, field.name


def test_without_roles_a_node_is_a_cluster_of_its_own() -> None:
    config = BrokerConfig.from_raw({})

    assert config.cluster.is_broker
    assert config.cluster.is_controller
    assert not config.cluster.is_configured
    assert config.cluster.advertised_controller_listeners == ()
    assert config.cluster.voters == ()
    assert config.cluster.inter_broker_listener_name == "PLAINTEXT"


@pytest.mark.parametrize(
    ("settings", "roles"),
    [(COMBINED, Roles.BOTH), (BROKER, Roles.BROKER), (CONTROLLER, Roles.CONTROLLER)],
)
def test_roles(settings: dict[str, str], roles: Roles) -> None:
    cluster = _cluster(settings)

    assert cluster.roles is roles
    assert cluster.is_configured
    assert cluster.is_broker == (Roles.BROKER in roles)
    assert cluster.is_controller == (Roles.CONTROLLER in roles)


def test_clients_and_controllers_have_their_own_listeners() -> None:
    config = BrokerConfig.from_raw(COMBINED)

    assert [each.name for each in config.listeners] == ["PLAINTEXT", "CONTROLLER"]
    assert [each.name for each in config.advertised_listeners] == ["PLAINTEXT"]
    assert config.cluster.advertised_controller_listeners == (
        Listener("CONTROLLER", "127.0.0.1", 19093),
    )


def test_a_controller_advertises_nothing_to_clients() -> None:
    config = BrokerConfig.from_raw(CONTROLLER)

    assert config.advertised_listeners == ()
    assert config.cluster.inter_broker_listener_name is None


def test_a_broker_has_no_controller_listener_but_knows_its_name() -> None:
    cluster = _cluster(BROKER)

    assert cluster.advertised_controller_listeners == ()
    assert cluster.controller_listener_names == ("CONTROLLER",)
    assert cluster.bootstrap_servers == (
        QuorumServer("127.0.0.1", 19093),
        QuorumServer("127.0.0.1", 29093),
    )


def test_voters_are_ids_and_addresses() -> None:
    settings = {**STATIC, "controller.quorum.voters": "1@10.0.0.1:19093, 2@[::1]:29093"}

    assert _cluster(settings).voters == (
        QuorumVoter(1, "10.0.0.1", 19093),
        QuorumVoter(2, "::1", 29093),
    )


def test_other_nodes_reach_a_controller_where_the_voters_say() -> None:
    static = _cluster(SOUND["a static controller on every address"])
    advertised = _cluster(SOUND["a controller on every address, advertised"])

    assert static.advertised_controller_listeners == (Listener("CONTROLLER", "10.0.0.1", 19093),)
    assert advertised.advertised_controller_listeners == (Listener("CONTROLLER", "node1", 19093),)


def test_names_of_listeners_do_not_depend_on_case() -> None:
    cluster = _cluster({**COMBINED, "controller.listener.names": "controller"})

    assert cluster.controller_listener_names == ("CONTROLLER",)
    assert len(cluster.advertised_controller_listeners) == 1


def test_metadata_log_lies_in_the_first_directory_or_in_one_of_its_own() -> None:
    several = {**COMBINED, "log.dirs": "/a,/b"}

    assert _cluster(several).metadata_log_dir == "/a"
    assert _cluster({**several, "metadata.log.dir": "/b"}).metadata_log_dir == "/b"
    assert _cluster({**several, "metadata.log.dir": "/c"}).metadata_log_dir == "/c"


@pytest.mark.parametrize("name", SOUND)
def test_sound_settings_are_accepted(name: str) -> None:
    assert _cluster(SOUND[name]).is_configured


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_the_key_and_the_reason(name: str) -> None:
    refused = REFUSED[name]

    with pytest.raises(ConfigError) as raised:
        BrokerConfig.from_raw(refused.settings)

    assert raised.value.key == refused.key
    assert refused.reason in raised.value.reason


@pytest.mark.parametrize(
    "key",
    [
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
    ],
)
def test_a_quorum_without_roles_is_refused(key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.from_raw({key: COMBINED.get(key) or STATIC[key]})

    assert raised.value.key == key
    assert "needs process.roles" in raised.value.reason


def _advice(settings: dict[str, str]) -> tuple[str, ...]:
    return load_broker_config(overrides=[f"{key}={value}" for key, value in settings.items()])[1]


def test_sound_settings_need_no_advice() -> None:
    assert _advice(COMBINED) == _advice(CONTROLLER) == _advice(BROKER) == _advice(STATIC) == ()


def test_slow_heartbeats_are_remarked_upon() -> None:
    (said,) = _advice(SOUND["heartbeats too slow for the session, which is only advice"])

    assert "broker.session.timeout.ms=9000" in said


def test_settings_of_topics_belong_on_the_controllers() -> None:
    (said,) = _advice({**BROKER, "num.partitions": "3"})

    assert said.startswith("num.partitions: set it on the controllers")
