"""Brokers of ours where kafka-python's own suite starts Java's. A plugin of its pytest.

Settings of logins, TLS and ACLs are those that the suite writes for Apache Kafka; keystores are
those that it makes with keytool. What it asks of Kafka's scripts is asked of our commands.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from test.integration.fixtures import KafkaFixture, get_open_port  # type: ignore[import-not-found]

from tests.kit.broker import BrokerProcess, broker_environment


class _Child:
    """What the suite does with the process of its broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker

    def dump_logs(self) -> None:
        sys.stdout.write(self._broker.log_text)

    def stop(self) -> None:
        self._broker.stop()


def _settings(fixture: Any, plain: str) -> dict[str, str]:
    listener = f"{fixture.transport}://localhost:{fixture.port}"
    text = "\n".join((fixture._sasl_config(), fixture._ssl_config(), fixture._acl_config()))
    settings = dict(line.split("=", 1) for line in text.splitlines() if line)
    # Ours is no node of a cluster.
    settings.pop("sasl.mechanism.inter.broker.protocol", None)
    settings |= {
        "node.id": str(fixture.broker_id),
        "num.partitions": str(fixture.partitions),
        "listeners": f"{listener},PLAINTEXT://{plain}",
        "advertised.listeners": f"{listener},PLAINTEXT://{plain}",
    }
    if fixture.sasl_enabled:
        name, mechanism = fixture.transport.lower(), fixture.sasl_mechanism.lower()
        key = f"listener.name.{name}.{mechanism}.sasl.jaas.config"
        settings[key] = fixture._jaas_config().strip()
    return settings


def _open(fixture: Any) -> None:
    import py  # type: ignore[import-untyped]

    if fixture.tmp_dir is None:
        fixture.tmp_dir = py.path.local.mkdtemp()
    plain = f"127.0.0.1:{get_open_port()}"
    broker = BrokerProcess(Path(fixture.tmp_dir.strpath), _settings(fixture, plain))
    broker.start()
    fixture.child, fixture.running = _Child(broker), True
    if (fixture.sasl_mechanism or "").startswith("SCRAM"):
        _add_user(fixture, plain)


def _add_user(fixture: Any, bootstrap: str) -> None:
    command = [sys.executable, "-m", "ledgerstone", "users", "add", fixture.broker_user]
    command += ["--mechanism", fixture.sasl_mechanism, "--bootstrap", bootstrap]
    password = f"{fixture.broker_password}\n".encode()
    subprocess.run(command, input=password, env=broker_environment(), check=True)


def _topic_names(fixture: Any) -> list[str]:
    with KafkaAdminClient(**fixture._enrich_client_params({})) as admin:
        names: list[str] = list(admin.list_topics())
    return names


def pytest_configure() -> None:
    KafkaFixture.open = _open
    # It is open, and so it is started.
    KafkaFixture.start = lambda _: None
    KafkaFixture.get_topic_names = _topic_names
