"""What each listener's own keys make of its TLS, and who is let through the door for brokers."""

from pathlib import Path

import pytest

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.server.tls_contexts import TlsContexts
from ledgerstone.system import SystemClock
from ledgerstone.tls.settings import ClientAuth
from tests.kit.certificates import Authority


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        ({}, {"SSL": ClientAuth.REQUIRED, "SASL_SSL": ClientAuth.NONE}),
        (
            {"listener.name.sasl_ssl.ssl.client.auth": "requested"},
            {"SSL": ClientAuth.REQUIRED, "SASL_SSL": ClientAuth.REQUESTED},
        ),
    ],
    ids=["of all", "of its own"],
)
def test_certificates_are_asked_for_where_the_listener_says_so(
    tmp_path: Path, own: dict[str, str], asked: dict[str, ClientAuth]
) -> None:
    """As in Kafka: where a login says who it is, the key of all listeners does not count."""
    authority = Authority()
    config = BrokerConfig.from_raw(
        {
            "log.dirs": str(tmp_path),
            "listeners": "SSL://127.0.0.1:9092,SASL_SSL://127.0.0.1:9093",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.client.auth": "required",
            "ssl.keystore.location": authority.issue("broker").write(tmp_path / "broker.pem"),
            "ssl.truststore.location": authority.write(tmp_path / "ca.pem"),
            **own,
        }
    )

    contexts = TlsContexts(config, SystemClock())

    assert {each.name: each.settings.client_auth for each in contexts.all} == asked
