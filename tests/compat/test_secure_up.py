"""`ledgerstone up --secure`: one command, and clients take the files it leaves as they are."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.command_line import ledgerstone

TIMEOUT_S = 30.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, arguments=("--secure",)) as broker:
        yield broker


def lines_of(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def delivered(config: dict[str, str]) -> list[str]:
    """Errors of one record sent."""
    errors: list[str] = []
    producer = confluent_kafka.Producer({**config, "message.timeout.ms": 20_000})
    producer.produce("t", b"v", on_delivery=lambda error, _: errors.append(str(error or "")))
    assert producer.flush(TIMEOUT_S) == 0
    return errors


def test_clients_take_the_files_as_they_are(broker: BrokerProcess) -> None:
    secure = broker.data / "secure"
    properties = str(secure / "client.properties")

    made = ledgerstone("topics", "create", "t", "--command-config", properties)
    errors = delivered(lines_of(secure / "librdkafka.conf"))
    read = ledgerstone("consume", "t", "-b", "--command-config", properties)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in secure.iterdir()}

    assert made.code == 0, made.stderr
    assert errors == [""]
    assert "v" in read.stdout
    assert modes.pop("ca.pem") == 0o644
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(secure.stat().st_mode) == 0o700
    assert "kafka.sasl.jaas.config" in lines_of(secure / "spark.conf")


def test_the_password_is_printed_once_and_kept(broker: BrokerProcess) -> None:
    (password,) = re.findall(r"secure user=admin password=(\S+) ", broker.log_text)
    broker.stop()
    broker.start()

    conf = lines_of(broker.data / "secure" / "librdkafka.conf")
    assert conf["sasl.password"] == password
    assert broker.log_text.count(password) == 1
    assert (
        ledgerstone(
            "topics", "list", "--command-config", str(broker.data / "secure" / "client.properties")
        ).code
        == 0
    )


def test_nobody_else_gets_in(broker: BrokerProcess) -> None:
    secure = broker.data / "secure"
    conf = lines_of(secure / "librdkafka.conf")
    said: list[str] = []
    client = confluent_kafka.Producer(
        {**conf, "sasl.password": "wrong", "error_cb": lambda error: said.append(error.str())}
    )

    wait_until(lambda: client.poll(0.1) or said, "the client is told", TIMEOUT_S)
    plain = ledgerstone("topics", "list", "--bootstrap", broker.bootstrap)

    assert any("uthentication" in each for each in said)
    assert plain.code == 1


def test_a_secret_that_others_can_read_ends_the_start(broker: BrokerProcess) -> None:
    broker.stop()
    (broker.data / "secure" / "ca.key").chmod(0o644)

    with pytest.raises(AssertionError, match="has mode 0644: others than its owner"):
        broker.start()
