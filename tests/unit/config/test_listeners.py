"""Listeners: their security protocols, their own keys, and which of them lie open."""

import pytest

from ledgerstone.config.broker import BrokerConfig, exposed_listeners, load_broker_config
from ledgerstone.config.broker_key import text_key
from ledgerstone.config.listener_keys import find_key, listener_values, split_listener_key
from ledgerstone.config.listeners import is_loopback, parse_protocols
from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.errors import ConfigError
from ledgerstone.metadata.config_entries import broker_entries
from ledgerstone.metadata.image import MetadataImage

_MAP = "listener.security.protocol.map"


def test_each_listener_has_the_protocol_that_the_map_gives_it() -> None:
    given = {_MAP: "inside:PLAINTEXT, Outside:plaintext"}

    protocols = parse_protocols(given, ("INSIDE", "OUTSIDE"))

    assert protocols == dict.fromkeys(("INSIDE", "OUTSIDE"), SecurityProtocol.PLAINTEXT)


def test_without_a_map_any_name_means_plain_text_as_long_as_nothing_is_protected() -> None:
    plain = parse_protocols({}, ("LAN", "CTL"))

    assert plain == dict.fromkeys(("LAN", "CTL"), SecurityProtocol.PLAINTEXT)
    with pytest.raises(ConfigError):
        parse_protocols({}, ("SSL", "CTL"))


def test_the_protocol_between_brokers_names_their_listener() -> None:
    config = BrokerConfig.from_raw(
        {
            "listeners": "LAN://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9093",
            "security.inter.broker.protocol": "PLAINTEXT",
        }
    )

    assert config.cluster.inter_broker_listener_name == "PLAINTEXT"


def test_a_key_of_one_listener_is_taken_apart() -> None:
    plain = split_listener_key("listener.name.internal.ssl.keystore.location")
    of_mechanism = split_listener_key("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config")

    assert plain == ("INTERNAL", "", "ssl.keystore.location")
    assert of_mechanism == ("SASL_SSL", "SCRAM-SHA-256", "sasl.jaas.config")
    assert split_listener_key("listener.name.internal.log.dirs") is None
    assert split_listener_key("ssl.keystore.location") is None


def test_a_key_of_one_listener_is_known_as_what_it_is_without_the_listener() -> None:
    keys = {"ssl.keystore.location": text_key("ssl.keystore.location", None, "")}

    assert find_key("listener.name.a.ssl.keystore.location", keys) is not None
    assert find_key("listener.name.a.ssl.keystore.lokation", keys) is None


def test_what_a_listener_says_for_itself_goes_before_what_is_said_for_all() -> None:
    raw = {
        "ssl.client.auth": "none",
        "ssl.protocol": "TLSv1.3",
        "listener.name.a.ssl.client.auth": "required",
        "listener.name.b.ssl.client.auth": "requested",
        "listener.name.a.plain.sasl.jaas.config": "x",
    }

    values = listener_values(raw, "A")

    assert values == {
        "ssl.client.auth": "required",
        "ssl.protocol": "TLSv1.3",
        "plain.sasl.jaas.config": "x",
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_is_not_exposed(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "broker.example"])
def test_a_plaintext_listener_that_others_can_reach_is_remarked_upon(host: str) -> None:
    address = f"[{host}]" if ":" in host else host

    loaded = load_broker_config(overrides=[f"listeners=PLAINTEXT://{address}:9092"])

    (said,) = exposed_listeners(loaded.config)
    assert "has no TLS" in said
    assert said in loaded.warnings


def test_what_is_set_for_one_listener_is_shown_and_its_secrets_are_not() -> None:
    config = BrokerConfig.from_raw(
        {
            "listeners": "SSL://127.0.0.1:9092",
            "listener.name.ssl.ssl.keystore.location": "broker.p12",
            "listener.name.ssl.ssl.keystore.password": "hunter2",
        }
    )

    shown = {each.name: each for each in broker_entries(MetadataImage(cluster_id="c"), config)}

    assert shown["listener.name.ssl.ssl.keystore.location"].value == "broker.p12"
    secret = shown["listener.name.ssl.ssl.keystore.password"]
    assert secret.is_sensitive
    assert "hunter2" not in repr(secret.synonyms)
