"""Clients from the package index log in by every mechanism that they know, or are told why not."""

import gc
import time
import warnings
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin as _admin_module

from ledgerstone.security.jaas import PLAIN_MODULE
from tests.compat.sasl_clients import CLIENTS, Account, TryLogin, kafka_python_producer
from tests.kit.broker import FAST_GROUPS, BrokerProcess, wait_until
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ALICE = "alice", "wonder land"
ISSUING = Issuer()


@pytest.fixture(scope="module")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("sasl")
    properties, keys = directory / "server.properties", directory / "keys.json"
    keys.write_bytes(ISSUING.key_set())
    properties.write_text(
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER\n"
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms=1500\n"
        f"sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}\n"
        f"sasl.oauthbearer.expected.issuer={ISSUER}\n"
        f"sasl.oauthbearer.expected.audience={AUDIENCE}\n"
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        f'{PLAIN_MODULE} required user_admin="hush-admin" user_alice="{ALICE[1]}";\n',
        encoding="utf-8",
    )
    settings = {**FAST_GROUPS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    arguments = ("--config", str(properties), "--log-level", "debug")
    with BrokerProcess(directory, settings, arguments=arguments) as process:
        _add_users(process)
        yield process
        process.stop()
        assert " ERROR " not in process.log_text, process.log_text
        # CVE-2026-33558: nothing of a login is in the log, not even at its most talkative.
        for secret in ("hush-admin", ALICE[1], "WRONG-password"):
            assert secret not in process.log_text


# The package does not say which of its names are meant for others.
confluent_admin: Any = _admin_module


def _admin(bootstrap: str) -> Any:
    return confluent_admin.AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "hush-admin",
            "log_level": 0,
        }
    )


def _add_users(process: BrokerProcess) -> None:
    admin = _admin(process.bootstrap)
    for mechanism in ("SCRAM_SHA_256", "SCRAM_SHA_512"):
        info = confluent_admin.ScramCredentialInfo(
            getattr(confluent_admin.ScramMechanism, mechanism), 4096
        )
        change = confluent_admin.UserScramCredentialUpsertion(ALICE[0], info, ALICE[1].encode())
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(20)
    described = admin.describe_user_scram_credentials([ALICE[0]])[ALICE[0]].result(20)
    assert [each.iterations for each in described.scram_credential_infos] == [4096, 4096]


@pytest.fixture(autouse=True)
def _forgotten_sockets() -> Iterator[None]:
    """kafka-python leaves sockets open whose login was refused. Collected here, they warn here, and
    not as an error in whichever test runs next."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(params=CLIENTS)
def try_login(request: pytest.FixtureRequest) -> TryLogin:
    return CLIENTS[request.param]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_right_password_lets_a_client_work(
    sasl_broker: BrokerProcess, try_login: TryLogin, mechanism: str
) -> None:
    assert try_login(sasl_broker.bootstrap, Account(mechanism, *ALICE), "words") is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("account", [("alice", "WRONG-password"), ("nobody", "WRONG-password")])
def test_wrong_password_and_unknown_user_are_told_the_same(
    sasl_broker: BrokerProcess,
    try_login: TryLogin,
    mechanism: str,
    account: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised = try_login(sasl_broker.bootstrap, Account(mechanism, *account, is_right=False), "words")

    assert raised is not None
    # Some clients raise something else and log what they were told.
    heard = f"{raised} {caplog.text}"
    # Lines with a traceback hold sockets, which would outlive this module.
    caplog.clear()
    told = (
        "Invalid username or password",
        f"invalid credentials with SASL mechanism {mechanism}",
    )
    assert any(text in heard for text in told), heard


def test_clients_log_in_again_while_they_work(sasl_broker: BrokerProcess) -> None:
    """librdkafka and kafka-python, on connections that stay. Java's is in `test_sasl_java`."""
    refused: list[str] = []
    librdkafka: Any = confluent_kafka.Producer(
        {
            "bootstrap.servers": sasl_broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ALICE[0],
            "sasl.password": ALICE[1],
            "error_cb": lambda error: refused.append(str(error)),
        }
    )
    kafka_python = kafka_python_producer(sasl_broker.bootstrap, Account("PLAIN", *ALICE))
    before = logins_again(sasl_broker)

    def has_renewed() -> bool:
        librdkafka.produce("words", b"v", on_delivery=lambda error, _: noted(error, refused))
        assert librdkafka.flush(15) == 0
        kafka_python.send("words", b"v").get(15)
        return logins_again(sasl_broker) >= before + 4

    wait_until(has_renewed, "both have logged in again", 30)
    kafka_python.close()

    assert refused == []


def noted(error: Any, refused: list[str]) -> None:
    if error is not None:
        refused.append(str(error))


def logins_again(broker: BrokerProcess) -> int:
    name = "kafka_server_socket_server_metrics_successful_reauthentication_total"
    lines = [each for each in broker.get("/metrics").splitlines() if each.startswith(name)]
    return sum(int(float(each.split()[-1])) for each in lines)


def test_token_lets_a_client_work(sasl_broker: BrokerProcess, try_login: TryLogin) -> None:
    token = ISSUING.token(time.time(), "ES256")

    assert try_login(sasl_broker.bootstrap, Account("OAUTHBEARER", "", token), "words") is None


@pytest.mark.parametrize("claims", [{"aud": "other"}, {"exp": 1, "iat": 1}], ids=str)
def test_token_for_others_or_too_old_lets_nobody_in(
    sasl_broker: BrokerProcess, try_login: TryLogin, claims: dict[str, Any]
) -> None:
    token = ISSUING.token(time.time(), "RS256", **claims)
    account = Account("OAUTHBEARER", "", token, is_right=False)

    assert try_login(sasl_broker.bootstrap, account, "words") is not None
