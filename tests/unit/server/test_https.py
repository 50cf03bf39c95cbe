"""The HTTP port with TLS: a whole broker in a thread, real sockets, the command line's client."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.client.http_api import ApiAddress, authorization, open_api, parse_api_address
from ledgerstone.client.security import client_security
from ledgerstone.config.broker import load_broker_config
from ledgerstone.errors import ConfigError
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.system import SystemClock
from ledgerstone.testing.thread import BrokerThread
from ledgerstone.web.access import Access
from tests.kit.broker import wait_until
from tests.kit.certificates import Authority
from tests.unit.server.http_door_kit import TOKEN, basic

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Path:
    directory = tmp_path_factory.mktemp("https")
    authority.issue("broker").write(directory / "broker.pem")
    authority.issue("dora").write(directory / "dora.pem")
    authority.write(directory / "ca.pem")
    return directory


class Served:
    def __init__(self, thread: BrokerThread, running: RunningBroker, directory: Path) -> None:
        self.thread, self.directory = thread, directory
        address = parse_api_address(running.http_address or "")
        assert address is not None
        self.address = address

    def ask(
        self, path: str, headers: dict[str, str], *, certificate: str | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        properties = {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
        }
        if certificate is not None:
            properties["ssl.keystore.location"] = str(self.directory / certificate)
        connection = open_api(self.address, client_security(properties), timeout_s=TIMEOUT_S)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()

    def shown_certificate(self) -> bytes:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        with (
            socket.create_connection(self.address[:2], timeout=TIMEOUT_S) as sock,
            context.wrap_socket(sock, server_hostname=self.address.host) as tls,
        ):
            found = tls.getpeercert(binary_form=True)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def served(directory: Path) -> Iterator[Served]:
    settings = {
        "log.dirs": str(directory / "data"),
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{JAAS} user_admin="a" user_bob="s";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:dora",
        "ledgerstone.http.listener": "https://127.0.0.1:0",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "listener.name.http.ssl.client.auth": "requested",
        "listener.name.http.ssl.truststore.location": str(directory / "ca.pem"),
        "listener.name.http.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
    }
    loaded = load_broker_config(overrides=[f"{key}={value}" for key, value in settings.items()])
    assert loaded.warnings == ()
    thread = BrokerThread(loaded.config, SystemClock(), Access(TOKEN))
    yield Served(thread, thread.start(), directory)
    thread.stop()


def test_who_asks_over_tls(served: Served) -> None:
    answer, body = served.ask("/api/v1/clock", basic("bob", "s"))
    assert answer.status == 200
    assert "now_ms" in json.loads(body)
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"

    statuses = [
        served.ask(path, headers, certificate=certificate)[0].status
        for path, headers, certificate in (
            ("/api/v1/clock", {}, None),
            ("/api/v1/clock", basic("bob", "wrong"), None),
            ("/api/v1/damage", basic("bob", "s"), None),
            ("/api/v1/damage", {}, "dora.pem"),
            ("/api/v1/damage", {"Authorization": f"Bearer {TOKEN}"}, None),
            ("/metrics", basic("bob", "s"), None),
            ("/metrics", basic("admin", "a"), None),
        )
    ]

    assert statuses == [401, 401, 403, 200, 200, 403, 200]


def test_login_page_is_shown_and_wrong_names_are_not(served: Served) -> None:
    answer, body = served.ask("/login", {"Host": f"localhost:{served.address.port}"})
    assert answer.status == 200
    assert b'name="password"' in body
    assert "Strict-Transport-Security" not in answer.headers
    assert served.ask("/login", {"Host": "evil.example"})[0].status == 403
    assert served.ask("/readyz", {})[1] == b"ready\n"


def test_setting_tells_clients_that_it_is_https(served: Served) -> None:
    text = served.thread.call(lambda r: r.broker.config.raw["ledgerstone.http.listener"])

    assert parse_api_address(text) == served.address


def test_who_speaks_no_tls_is_closed(served: Served) -> None:
    with socket.create_connection(served.address[:2], timeout=TIMEOUT_S) as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = sock.recv(4096)

    assert b"HTTP" not in said


def test_certificate_of_a_stranger_ends_the_handshake(served: Served) -> None:
    Authority("another").issue("dora").write(served.directory / "stranger.pem")

    with pytest.raises(OSError):  # noqa: PT011 - alert or reset, as the system has it
        served.ask("/livez", {}, certificate="stranger.pem")


def test_renewed_certificate_is_shown_to_new_connections(
    served: Served, authority: Authority
) -> None:
    before = served.shown_certificate()
    fresh = authority.issue("broker")
    fresh.write(served.directory / "broker.pem")

    served.thread.call(lambda running: running.runtime.look_at_tls())
    wait_until(lambda: served.shown_certificate() != before, "the new certificate is shown")

    assert served.ask("/livez", {})[0].status == 200


# -- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", ApiAddress("127.0.0.1", 80)),
        ("https://[::1]:443", ApiAddress("::1", 443, is_secure=True)),
        ("https://h/", ApiAddress("h", 443, is_secure=True)),
        ("http://h", ApiAddress("h", 80)),
        ("0.0.0.0:1", ApiAddress("broker", 1)),
        ("https://[::]:1", ApiAddress("broker", 1, is_secure=True)),
        ("ftp://h:1", None),
        ("h", None),
        ("", None),
    ],
)
def test_address_of_an_api(text: str, expected: ApiAddress | None) -> None:
    assert parse_api_address(text, "broker") == expected
    if expected is not None:
        assert parse_api_address(str(expected)) == parse_api_address(expected.url) == expected


def test_password_stays_on_this_machine_or_goes_over_tls() -> None:
    security = client_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "bob",
            "sasl.password": "s",
        }
    )

    assert authorization(ApiAddress("127.0.0.1", 1), security) == {
        "Authorization": basic("bob", "s")["authorization"]
    }
    assert authorization(ApiAddress("10.0.0.1", 1, is_secure=True), security)
    assert authorization(ApiAddress("10.0.0.1", 1), security) == {}
    assert authorization(ApiAddress("10.0.0.1", 1), token="t") == {"Authorization": "Bearer t"}


@pytest.mark.parametrize("text", ["ftp://127.0.0.1:1", "https://127.0.0.1", "https://::1:80"])
def test_listener_that_is_no_address_ends_the_start(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_broker_config(overrides=[f"ledgerstone.http.listener={text}"])

    assert refused.value.key == "ledgerstone.http.listener"
