"""`cluster up --secure`: SASL_SSL everywhere and ACLs, while a node is killed and a key erased."""

import json
import os
import signal
import stat
import threading
from pathlib import Path
from typing import Any

import confluent_kafka

from ledgerstone.client.properties import read_client_properties
from tests.kit.broker import wait_until
from tests.kit.cluster_up import ClusterUp
from tests.kit.command_line import Done, ledgerstone

TOPIC = "customers"
KEY = b"alice@example.org"
SETTINGS = (
    "--secure",
    "-c", "log.cleaner.delete.retention.ms=500",
    "-c", "log.segment.delete.delay.ms=0",
    "-c", "log.cleaner.backoff.ms=200",
)  # fmt: skip


class Secure:
    def __init__(self, cluster: ClusterUp) -> None:
        self.cluster = cluster
        self.files = cluster.data / "secure"

    def run(self, *arguments: str, **environment: str) -> Done:
        """As admin."""
        config = ("--command-config", str(self.files / "client.properties"))
        done = ledgerstone(*arguments, *config, environment=environment)
        assert done.code == 0, f"{done}\n{self.cluster.text[-3000:]}"
        return done

    def settings_of(self, name: str, password: str) -> dict[str, Any]:
        """Of a client of librdkafka."""
        given = read_client_properties(str(self.files / "librdkafka.conf"))
        user = {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": name, "log_level": 0}
        return {**given, **user, "sasl.password": password}

    def make_etl(self) -> dict[str, Any]:
        """A user that may write and read one topic, and nothing else."""
        environment = {"LEDGERSTONE_COMMAND_CONFIG": str(self.files / "client.properties")}
        added = ledgerstone_with_input("pencil\n", ("users", "add", "etl"), environment)
        assert added.code == 0, added
        topic = ("--topic", TOPIC)
        self.run("topics", "create", TOPIC, "--config", "cleanup.policy=compact")
        allow = ("acls", "add", "--allow-principal", "User:etl", *topic)
        self.run(*allow, "--producer")
        self.run(*allow, "--consumer", "--group", "readers")
        return self.settings_of("etl", "pencil")


def ledgerstone_with_input(text: str, arguments: Any, environment: dict[str, str]) -> Done:
    import io
    from unittest import mock

    with mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()))):
        return ledgerstone(*arguments, environment=environment)


class Traffic(threading.Thread):
    """Writes one record after the other until it is told to stop; all must be acknowledged."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        idempotent = {"enable.idempotence": True, "linger.ms": 0}
        self._producer: Any = confluent_kafka.Producer({**settings, **idempotent})
        self.is_over = threading.Event()
        self.acknowledged: list[str] = []
        self.failed: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.is_over.is_set() and number < 100_000:
            value = str(number)
            key = KEY if number == 0 else f"k{number % 7}".encode()
            self._producer.produce(TOPIC, value, key, on_delivery=self._delivered)
            self._producer.flush(30)
            number += 1

    def _delivered(self, error: Any, record: Any) -> None:
        if error is None:
            self.acknowledged.append(record.value().decode())
        else:
            self.failed.append(str(error))


def read(settings: dict[str, Any], until: str) -> list[str]:
    consumer: Any = confluent_kafka.Consumer(
        {**settings, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    values: list[str] = []
    heard: list[str] = []

    def has_all() -> bool:
        record = consumer.poll(1.0)
        if record is None:
            return False
        if record.error() is not None:
            heard.append(str(record.error()))
        elif record.value() is not None:
            values.append(record.value().decode())
        return until in values

    try:
        wait_until(has_all, f"{until} is read", 40)
    except AssertionError as error:
        raise AssertionError(f"{values[-3:]} {heard[-3:]}") from error
    consumer.close()
    return values


def test_secure_cluster_serves_survives_a_node_and_erases(tmp_path: Path) -> None:
    with ClusterUp(tmp_path, arguments=SETTINGS) as cluster:
        secure = Secure(cluster)
        etl = secure.make_etl()
        traffic = Traffic(etl)
        traffic.start()
        wait_until(lambda: len(traffic.acknowledged) > 10, "records are written", 30)
        before = cluster.pid(2)
        os.kill(before, signal.SIGKILL)
        count = len(traffic.acknowledged)
        wait_until(lambda: len(traffic.acknowledged) > count + 20, "they still are", 60)
        cluster.wait_until_up(2, not_pid=before)
        traffic.is_over.set()
        traffic.join(60)

        assert traffic.failed == []
        assert read(etl, traffic.acknowledged[-1])[-1] == traffic.acknowledged[-1]
        assert_refused(secure, etl)
        assert_erased(secure, tmp_path)
        assert_private(secure)


def assert_refused(secure: Secure, etl: dict[str, Any]) -> None:
    """What no ACL allows, and who is not known."""
    heard: list[str] = []
    producer: Any = confluent_kafka.Producer({**etl, "message.timeout.ms": 10_000})
    producer.produce("other", b"x", on_delivery=lambda error, _: heard.append(error.str()))
    producer.flush(20)
    assert heard
    assert "authorization failed" in heard[0].lower(), heard
    plain = ledgerstone("topics", "list", "--bootstrap", secure.cluster.bootstrap)
    assert plain.code != 0


def assert_erased(secure: Secure, work: Path) -> None:
    paper, keys = work / "receipt.json", str(work / "keys")
    secure.run(
        "erase", TOPIC, KEY.decode(), "--reason", "ticket 4711", "--wait", "--timeout", "60",
        "--receipt", str(paper), "--bootstrap", secure.cluster.bootstrap,
        LEDGERSTONE_RECEIPT_KEYS=keys,
    )  # fmt: skip
    receipt = json.loads(paper.read_bytes())
    assert [each["node_id"] for each in receipt["replicas"]] == [1, 2, 3]
    assert [each["records"] + each["residue"] for each in receipt["replicas"]] == [0, 0, 0]
    for path in secure.cluster.data.glob("node-*/data/*/*.log"):
        assert KEY not in path.read_bytes(), path


def assert_private(secure: Secure) -> None:
    readable = {
        path.name
        for path in (*secure.files.iterdir(), *secure.cluster.data.glob("node-*/*.properties"))
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    }
    assert readable == {"ca.pem"}
    password = (secure.files / "admin.password").read_text()
    assert secure.cluster.text.count(password) == 1
    # It finds the file of its clients by itself.
    assert "offline 0" in secure.cluster.command("status")
