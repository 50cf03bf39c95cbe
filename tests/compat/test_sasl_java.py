"""Kafka's own tools log in to a broker of ours, and make its users; and users that kafka-storage
wrote are ours. Needs Java, and Maven for the first run: `make kafka-reads`."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.messages.metadata_records import UserScramCredentialRecord
from ledgerstone.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from ledgerstone.security.scram_keys import (
    ScramMechanism,
    client_key_of,
    salt_password,
    stored_key_of,
)
from ledgerstone.server.formatting.checking import read_bootstrap_records
from ledgerstone.system import OsFilesystem
from tests.kit.broker import FAST_GROUPS, BrokerProcess
from tests.kit.storage_tool import CLUSTER_ID, kafka_storage, ledgerstone, properties_file

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]
TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"
USER = "SCRAM-SHA-256=[name=alice,password=wonderland]"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("sasl")
    path = directory / "server.properties"
    path.write_text(
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n"
        "connections.max.reauth.ms=3000\n"
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        f'{PLAIN_MODULE} required user_admin="hush";\n',
        encoding="utf-8",
    )
    settings = {**FAST_GROUPS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    with BrokerProcess(directory, settings, arguments=("--config", str(path))) as process:
        yield process


def client_file(path: Path, mechanism: str, name: str, password: str) -> str:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    jaas = f'{module} required username="{name}" password="{password}";'
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n",
        encoding="utf-8",
    )
    return str(path)


def run(
    broker: BrokerProcess, tool: str, config: str, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    words = ("--bootstrap-server", broker.bootstrap, "--command-config", config, *arguments)
    command = fetch_jars().java(tool, *words)
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_is_made_logs_in_and_is_removed(
    broker: BrokerProcess, tmp_path: Path, mechanism: str
) -> None:
    admin = client_file(tmp_path / "admin", "PLAIN", "admin", "hush")
    carol = client_file(tmp_path / "carol", mechanism, "carol", "pencil")
    user = ("--entity-type", "users", "--entity-name", "carol")

    added = f"{mechanism}=[iterations=8192,password=pencil]"
    made = run(broker, CONFIGS, admin, "--alter", *user, "--add-config", added)
    shown = run(broker, CONFIGS, admin, "--describe", *user)
    topic = ("--topic", f"t-{mechanism}")
    created = run(broker, f"{TOOLS}.TopicCommand", carol, "--create", *topic)
    sent = run(broker, f"{TOOLS}.ConsoleProducer", carol, *topic, stdin="hello\n")
    gone = run(broker, CONFIGS, admin, "--alter", *user, "--delete-config", mechanism)
    refused = run(broker, f"{TOOLS}.TopicCommand", carol, "--list")

    for each in (made, shown, created, sent, gone):
        assert each.returncode == 0, each.stdout + each.stderr
    assert f"{mechanism}=iterations=8192" in shown.stdout
    assert refused.returncode != 0
    assert "invalid credentials" in refused.stdout + refused.stderr


def test_users_that_either_formatter_wrote_are_the_same(tmp_path: Path) -> None:
    password = b"wonderland"
    for number, formatter in enumerate((kafka_storage, ledgerstone)):
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
            "controller.quorum.voters": "1@127.0.0.1:19093",
            "log.dirs": str(tmp_path / f"data-{number}"),
        }
        path = properties_file(tmp_path / f"{number}.properties", settings)
        done = formatter("format", "-t", CLUSTER_ID, "-c", str(path), "--add-scram", USER)
        assert done.returncode == 0, done.stdout + done.stderr

        records = read_bootstrap_records(OsFilesystem(), settings["log.dirs"])

        (user,) = [each for each in records or () if isinstance(each, UserScramCredentialRecord)]
        assert (user.name, user.mechanism, user.iterations) == ("alice", 1, 4096)
        mechanism = ScramMechanism(user.mechanism)
        salted = salt_password(mechanism, password, user.salt, user.iterations)
        assert stored_key_of(mechanism, client_key_of(mechanism, salted)) == user.stored_key
