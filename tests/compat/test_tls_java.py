"""Kafka's own command line tools, from its jars, through TLS. Needs Java, and Maven for the first
run: `make kafka-reads`."""

import shutil
import subprocess
from pathlib import Path

import pytest

from golden.kafka_tools import fetch_jars
from tests.compat.test_tls_clients import Files
from tests.kit.broker import BrokerProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]
TOOLS = "org.apache.kafka.tools"


def run(name: str, broker: BrokerProcess, *arguments: str, stdin: str = "") -> str:
    command = fetch_jars().java(name, "--bootstrap-server", broker.bootstrap, *arguments)
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def there_and_back(broker: BrokerProcess, properties: str, topic: str) -> None:
    run(
        f"{TOOLS}.TopicCommand",
        broker,
        "--create",
        "--topic",
        topic,
        "--command-config",
        properties,
    )
    run(
        f"{TOOLS}.ConsoleProducer", broker, "--topic", topic, "--command-config", properties,
        stdin="hello\n",
    )  # fmt: skip
    read = run(
        f"{TOOLS}.consumer.ConsoleConsumer", broker, "--topic", topic, "--from-beginning",
        "--max-messages", "1", "--timeout-ms", "60000", "--command-config", properties,
    )  # fmt: skip
    assert read == "hello\n"


@pytest.mark.parametrize("store", ["PEM", "PKCS12"])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_tools_show_a_certificate(tmp_path: Path, version: str, store: str) -> None:
    files = Files(tmp_path)
    path = tmp_path / "client.properties"
    lines = [
        "security.protocol=SSL",
        f"ssl.protocol={version}",
        f"ssl.enabled.protocols={version}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={files.ca}",
    ]
    if store == "PEM":
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={files.client}"]
    else:
        p12 = tmp_path / "alice.p12"
        p12.write_bytes(files.issued.p12(b"changeit"))
        lines += ["ssl.keystore.type=PKCS12", f"ssl.keystore.location={p12}"]
        lines += ["ssl.keystore.password=changeit", "ssl.key.password=changeit"]
    path.write_text("".join(f"{line}\n" for line in lines))

    with BrokerProcess(tmp_path, files.settings("required")) as broker:
        there_and_back(broker, str(path), "java")


def test_tools_take_the_file_of_a_secure_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, arguments=("--secure",)) as broker:
        there_and_back(broker, str(broker.data / "secure" / "client.properties"), "java")
