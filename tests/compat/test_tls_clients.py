"""Clients that are not ours, through TLS: with and without certificates of their own, in both
versions. Java's are in `test_tls_java`."""

import asyncio
import pickle
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest

from ledgerstone.pipeline.connecting import connect_to, security_options
from ledgerstone.spark.worker import connect
from ledgerstone.spark.write_options import write_options
from tests.kit import kafka_python
from tests.kit.broker import FAST_GROUPS, BrokerProcess, free_address, wait_until
from tests.kit.certificates import Authority
from tests.kit.command_line import ledgerstone

TIMEOUT_S = 30.0
VERSIONS = ["TLSv1.2", "TLSv1.3"]


class Files:
    """What the two sides have on disk."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        self.ca = authority.write(directory / "ca.pem")
        self.broker = authority.issue("broker").write(directory / "broker.pem")
        self.issued = authority.issue("alice")
        self.client = self.issued.write(directory / "alice.pem")

    def settings(self, auth: str) -> dict[str, str]:
        return {
            **FAST_GROUPS,
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": self.broker,
            "ssl.truststore.location": self.ca,
            "ssl.client.auth": auth,
        }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["none", "required"])
def served(
    request: pytest.FixtureRequest, files: Files, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, bool]]:
    """A broker, and whether it wants a certificate."""
    directory = tmp_path_factory.mktemp(f"broker-{request.param}")
    settings = {**files.settings(request.param), **one_version_each()}
    with BrokerProcess(directory, settings) as broker:
        yield broker, request.param == "required"


def one_version_each() -> dict[str, str]:
    """Listeners that speak one version: some clients cannot be told to."""
    names = {version: version.upper().replace(".", "") for version in VERSIONS}
    listeners = [f"{name}://{free_address()}" for name in names.values()]
    limits = {
        f"listener.name.{name.lower()}.ssl.enabled.protocols": version
        for version, name in names.items()
    }
    return {
        "listeners": ",".join(["SSL://127.0.0.1:0", *listeners]),
        "listener.security.protocol.map": ",".join(
            f"{each}:SSL" for each in ("SSL", *names.values())
        ),
        **limits,
    }


def address_of(broker: BrokerProcess, version: str) -> str:
    found = re.search(version.upper().replace(".", "") + "://([^,]+)", broker.settings["listeners"])
    assert found is not None
    return found[1]


def test_listener_of_one_version_takes_no_other(
    served: tuple[BrokerProcess, bool], files: Files
) -> None:
    broker, shows = served
    spoken = []
    for version in VERSIONS:
        host, port = address_of(broker, version).split(":")
        with (
            socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as sock,
            context_of(files, "TLSv1.3", shows=shows).wrap_socket(
                sock, server_hostname="localhost"
            ) as secured,
        ):
            spoken.append(secured.version())

    assert spoken == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_confluent_kafka(served: tuple[BrokerProcess, bool], files: Files, version: str) -> None:
    broker, wants_certificate = served
    config: dict[str, str | int | bool] = {
        "bootstrap.servers": address_of(broker, version),
        "security.protocol": "SSL",
        "ssl.ca.location": files.ca,
    }
    if wants_certificate:
        config |= {"ssl.certificate.location": files.client, "ssl.key.location": files.client}
    topic = f"confluent-{version}"
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"v" * 500_000)
    assert producer.flush(TIMEOUT_S) == 0

    consumer = confluent_kafka.Consumer(
        config | {"group.id": f"g-{version}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = wait_until(lambda: consumer.poll(1.0), "the record comes", TIMEOUT_S)
    consumer.close()

    assert message is not None
    assert message.error() is None
    assert message.value() == b"v" * 500_000


def context_of(files: Files, version: str, *, shows: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    context.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
    if shows:
        context.load_cert_chain(files.client)
    return context


@pytest.mark.parametrize("version", VERSIONS)
def test_kafka_python(served: tuple[BrokerProcess, bool], files: Files, version: str) -> None:
    broker, wants_certificate = served
    config = {
        "security_protocol": "SSL",
        "ssl_context": context_of(files, version, shows=wants_certificate),
    }
    topic = f"kafka-python-{version}"
    producer = kafka_python.producer(broker.bootstrap, **config)
    producer.send(topic, b"v" * 500_000).get(TIMEOUT_S)
    producer.close()

    consumer = kafka_python.consumer(
        broker.bootstrap, topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **config
    )
    message = next(consumer)
    consumer.close()

    assert message.value == b"v" * 500_000


@pytest.mark.parametrize("version", VERSIONS)
def test_aiokafka(served: tuple[BrokerProcess, bool], files: Files, version: str) -> None:
    broker, wants_certificate = served
    config = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": context_of(files, version, shows=wants_certificate),
    }
    topic = f"aiokafka-{version}"

    async def story() -> bytes:
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(topic, b"v" * 500_000)
        async with aiokafka.AIOKafkaConsumer(
            topic, auto_offset_reset="earliest", **config
        ) as consumer:
            async with asyncio.timeout(TIMEOUT_S):
                return bytes((await consumer.getone()).value)

    assert asyncio.run(story()) == b"v" * 500_000


def test_a_client_that_does_not_trust_the_broker_is_told_and_so_is_its_operator(
    tmp_path: Path, files: Files
) -> None:
    stranger = Authority("another CA").write(tmp_path / "other.pem")
    with BrokerProcess(tmp_path, files.settings("none")) as broker:
        errors: list[str] = []
        client = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "security.protocol": "SSL",
                "ssl.ca.location": stranger,
                "error_cb": lambda error: errors.append(error.str()),
            }
        )

        def told() -> bool:
            client.poll(0.1)
            return bool(errors)

        wait_until(told, "the client is told", TIMEOUT_S)
        wait_until(lambda: "tls handshake failed" in broker.log_text, "the broker says so")

    assert re.search("listener=SSL reason=it does not trust", broker.log_text)


def test_a_plain_client_is_closed_and_the_operator_told(tmp_path: Path, files: Files) -> None:
    with BrokerProcess(tmp_path, files.settings("none")) as broker:
        client = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        wait_until(
            lambda: client.poll(0.1) or "reason=it speaks no TLS" in broker.log_text,
            "the broker says so",
        )

    assert broker.log_text.count("reason=it speaks no TLS") == 1


def test_a_start_with_a_wrong_key_says_what_is_wrong(tmp_path: Path, files: Files) -> None:
    other = Authority().issue("x")
    mixed = tmp_path / "mixed.pem"
    mixed.write_bytes(other.key_pem + Authority().issue("y").chain_pem)
    settings = files.settings("none") | {"ssl.keystore.location": str(mixed)}
    with pytest.raises(AssertionError, match="not the one of its first certificate"):
        BrokerProcess(tmp_path, settings).start()


def test_openssls_own_client_sees_the_chain(
    served: tuple[BrokerProcess, bool], files: Files
) -> None:
    broker, _ = served
    done = subprocess.run(
        ["openssl", "s_client", "-connect", broker.bootstrap, "-CAfile", files.ca, "-brief"],
        input=b"", capture_output=True, timeout=30, check=False,
    )  # fmt: skip

    assert b"Verification: OK" in done.stderr


# -- ours ----------------------------------------------------------------------------------------


def properties(path: Path, **given: str) -> str:
    lines = [f"{key.replace('_', '.')}={value}\n" for key, value in given.items()]
    path.write_text("".join(lines))
    return str(path)


def test_our_commands_take_a_clients_properties(
    served: tuple[BrokerProcess, bool], files: Files, tmp_path: Path
) -> None:
    broker, wants_certificate = served
    given = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_truststore_location": files.ca,
    }
    without = properties(tmp_path / "without", **given)
    path = properties(tmp_path / "with", ssl_keystore_location=files.client, **given)

    made = ledgerstone("topics", "create", "ours", "--command-config", path)
    listed = ledgerstone("topics", "list", environment={"LEDGERSTONE_COMMAND_CONFIG": path})
    plain = ledgerstone("topics", "list", "--bootstrap", broker.bootstrap)
    bare = ledgerstone("topics", "list", "--command-config", without)
    ledgerstone("topics", "delete", "ours", "--yes", "--command-config", path)

    assert made.code == 0, made.stderr
    assert "ours" in listed.stdout
    assert plain.code == 1
    assert bare.code == int(wants_certificate)
    if wants_certificate:
        assert "it wants a certificate, and this side shows none" in bare.stderr


def test_our_client_says_why_it_trusts_nobody_and_does_not_try_again(
    served: tuple[BrokerProcess, bool], files: Files, tmp_path: Path
) -> None:
    broker, _ = served
    stranger = Authority("another CA").write(tmp_path / "other.pem")
    given = {"bootstrap_servers": broker.bootstrap, "security_protocol": "SSL"}
    path = properties(tmp_path / "p", ssl_truststore_location=stranger, **given)
    missing = properties(tmp_path / "q", ssl_truststore_location=str(tmp_path / "none"), **given)

    distrust = ledgerstone("topics", "list", "--command-config", path)
    lost = ledgerstone("topics", "list", "--command-config", missing)

    assert distrust.code == lost.code == 1
    assert "its certificate is refused" in distrust.stderr
    assert "cannot be read: No such file" in lost.stderr


def test_the_connector_of_spark_takes_kafkas_options(
    served: tuple[BrokerProcess, bool], files: Files
) -> None:
    broker, wants_certificate = served
    raw = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": files.ca,
        "topic": "t",
    }
    if wants_certificate:
        raw["kafka.ssl.keystore.location"] = files.client
    connection = write_options(raw, overwrite=False).connection

    # As it reaches an executor.
    with connect(pickle.loads(pickle.dumps(connection))) as client:
        assert client.all_topics() is not None


def test_pipelines_take_the_file_that_the_environment_names(
    served: tuple[BrokerProcess, bool],
    files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, _ = served
    path = properties(
        tmp_path / "p",
        security_protocol="SSL",
        ssl_truststore_location=files.ca,
        ssl_keystore_location=files.client,
        client_id="not about security",
    )
    monkeypatch.setenv("LEDGERSTONE_COMMAND_CONFIG", path)

    with connect_to(broker.bootstrap) as client:
        assert client.all_topics() is not None
    assert security_options() == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": files.ca,
        "kafka.ssl.keystore.location": files.client,
    }
