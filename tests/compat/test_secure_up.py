"""`ledgerstone up --secure`: one command, and clients take the files it leaves as they are."""

import io
import json
import re
import ssl
import stat
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from unittest import mock
from urllib.error import HTTPError
from urllib.request import Request, urlopen

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
    # The line comes right behind the ready file that the kit waits for.
    (password,) = wait_until(
        lambda: re.findall(r"secure user=admin password=(\S+) ", broker.log_text), "it is printed"
    )
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


def test_the_page_and_the_api_know_the_same_users_and_rights(broker: BrokerProcess) -> None:
    """As somebody does it who has just started it: the command line, curl, a stream."""
    config = ("--command-config", str(broker.data / "secure" / "client.properties"))
    page = Page(broker)
    for topic in ("customers", "hidden"):
        made = ledgerstone("topics", "create", topic, "--config", "cleanup.policy=compact", *config)
        assert made.code == 0, made.stderr
    assert ledgerstone("produce", "customers", "-k", "alice", "-v", "1", *config).code == 0
    for name, operation in (("reader", "Read"), ("eraser", "Delete")):
        with mock.patch("sys.stdin", io.StringIO(f"{name}-secret\n")):
            assert ledgerstone("users", "add", name, *config).code == 0
        principal = ("--allow-principal", f"User:{name}", "--operation", operation)
        given = ledgerstone("acls", "add", *principal, "--topic", "customers", *config)
        assert given.code == 0, given.stderr

    assert page.get("/api/v1/clock")[0] == 401
    assert page.get("/api/v1/clock", "reader", "wrong")[0] == 401
    assert page.get("/api/v1/topics/customers/cleaning", "reader")[0] == 200
    hidden = page.get("/api/v1/topics/hidden/cleaning", "reader")
    missing = page.get("/api/v1/topics/nosuch/cleaning", "reader")
    assert (hidden[0], hidden[1].replace("hidden", "nosuch")) == missing
    assert "/topics/customers" in page.get("/topics", "reader")[1]
    assert "/topics/hidden" not in page.get("/topics", "reader")[1]
    assert "/topics/customers" in page.events("topics", "reader")
    assert "/topics/hidden" not in page.events("topics", "reader")

    erase = "/api/v1/topics/customers/erasures"
    assert page.post(erase, "reader", key="YWxpY2U=")[0] == 403
    status, said = page.post(erase, "eraser", key="YWxpY2U=", requested_by="User:admin")
    assert (status, json.loads(said)["erasures"][0]["requested_by"]) == (
        200,
        "User:eraser for User:admin",
    )
    for command in (("why", "customers"), ("tombstones", "show", "customers"),
                    ("clock", "show"), ("where", "customers", "alice"), ("erasures", "public-key"),
                    ("compact", "customers")):  # fmt: skip
        done = ledgerstone(*command, *config)
        assert done.code == 0, (command, done.stderr)


class Page:
    """Asks over https, trusting the development authority and nobody else."""

    def __init__(self, broker: BrokerProcess) -> None:
        assert broker.http.startswith("https://127.0.0.1:")
        self.url = broker.http
        self._context = ssl.create_default_context(cafile=str(broker.data / "secure" / "ca.pem"))
        self._context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13

    def get(self, path: str, name: str = "", password: str = "") -> tuple[int, str]:
        return self._asked(self._request(path, name, password))

    def post(self, path: str, name: str, **body: str) -> tuple[int, str]:
        request = self._request(path, name, "", json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        return self._asked(request)

    def events(self, show: str, name: str) -> str:
        """The first fragment of a stream."""
        request = self._request(f"/events?show={show}", name, "")
        with urlopen(request, context=self._context, timeout=TIMEOUT_S) as stream:
            lines = iter(stream.readline, b"")
            text = ""
            for line in lines:
                text += line.decode()
                if "event: " in text and line == b"\n":
                    break
        return text

    def _request(self, path: str, name: str, password: str, body: bytes | None = None) -> Request:
        request = Request(self.url + path, data=body)
        if name:
            text = b64encode(f"{name}:{password or f'{name}-secret'}".encode()).decode()
            request.add_header("Authorization", f"Basic {text}")
        return request

    def _asked(self, request: Request) -> tuple[int, str]:
        try:
            with urlopen(request, context=self._context, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()


def test_a_secret_that_others_can_read_ends_the_start(broker: BrokerProcess) -> None:
    broker.stop()
    (broker.data / "secure" / "ca.key").chmod(0o644)

    with pytest.raises(AssertionError, match="has mode 0644: others than its owner"):
        broker.start()
