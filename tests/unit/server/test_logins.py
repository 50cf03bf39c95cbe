"""Logins on a listener that asks for one: Kafka's states, codes and texts, and the delays."""

import hashlib
import logging
import sys
from collections.abc import Callable
from typing import ClassVar

import pytest

from ledgerstone.errors import ConfigError, InvariantViolation, UnsupportedVersion
from ledgerstone.protocol.api import OFFERED, ApiKey
from ledgerstone.protocol.codec import api_class
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.framing import frame_prefix
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ledgerstone.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ledgerstone.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ledgerstone.security.exchange import LoginRefused
from ledgerstone.security.plain import PlainClient
from ledgerstone.security.principal import Principal
from ledgerstone.security.scram_keys import ScramMechanism
from ledgerstone.server.dispatch import HANDLED
from ledgerstone.server.request import Answer, Request
from tests.kit.in_process import Client, InProcess, frame_of
from tests.unit.server.login_kit import (
    DELAY_MS,
    LINGER_MS,
    LISTENER,
    SASL,
    add_user,
    alice,
    connect,
    log_in,
    sasl_broker,
    say,
    scram,
    shake_hands,
    started,
)

_LOGIN_APIS = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
ALL_TOPICS = MetadataRequest(topics=None)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
GENERIC = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
)


class TokenClient(Client):
    """Keeps frames as they come: some of them are no answers of Kafka."""

    frames: ClassVar[list[bytes]] = []

    def _decoded(self, frame: memoryview) -> tuple[int, ApiMessage]:
        self.frames.append(bytes(frame))
        return 0, ApiMessage()


@pytest.fixture
def machine() -> InProcess:
    return sasl_broker()


@pytest.fixture
def client(machine: InProcess) -> Client:
    return connect(machine)


def principal_of(client: Client) -> Principal:
    return client.machine.broker.peers.by_number[client.number].session.principal


def counts(machine: InProcess) -> dict[str, int]:
    return {what: count for (what, _), count in machine.broker.counters.logins.items()}


# -- good logins --------------------------------------------------------------------------------


def test_plain_login_makes_the_principal(client: Client) -> None:
    assert client.ask(HELLO, ApiVersionsResponse, 0).error_code == 0

    assert shake_hands(client, "PLAIN").mechanisms == MECHANISMS
    answer = say(client, b"\0alice\0secret")

    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert answer.session_lifetime_ms == 0
    assert principal_of(client) == Principal("User", "alice")
    assert client.ask(HELLO, ApiVersionsResponse).error_code == 0
    assert client.ask(ALL_TOPICS, MetadataResponse).brokers
    assert counts(client.machine) == {"successful_authentication": 1}
    client.machine.check_invariants()


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_scram_login_proves_both_sides(client: Client, mechanism: ScramMechanism) -> None:
    add_user(client.machine, "carol", "pencil", mechanism)

    log_in(client, scram("carol", "pencil", mechanism.text))

    assert principal_of(client) == Principal("User", "carol")


def test_user_of_a_client_that_salts_with_few_bytes_can_log_in(client: Client) -> None:
    add_user(client.machine, "carol", "pencil", ScramMechanism.SCRAM_SHA_256, salt=b"salt")

    log_in(client, scram("carol", "pencil"))

    assert principal_of(client) == Principal("User", "carol")


def test_frames_may_be_large_after_the_login_and_not_before(client: Client) -> None:
    reader = client.machine.broker.peers.by_number[client.number].wire.reader
    before = reader.max_bytes
    log_in(client, alice())

    assert (before, reader.max_bytes) == (65_536, 104_857_600)


def test_handshake_of_version_0_is_followed_by_bare_tokens(machine: InProcess) -> None:
    client = TokenClient(machine, machine._take_number())
    machine._connect(client, "10.0.0.1", LISTENER)
    frames = client.frames
    add_user(machine, "carol", "pencil", ScramMechanism.SCRAM_SHA_256)
    login = scram("carol", "pencil")

    client.send(SaslHandshakeRequest("SCRAM-SHA-256"), 0)
    for said in (login.begin(), None):
        data = login.respond(frames[-1]) or b"" if said is None else said
        client.feed(frame_prefix(len(data)) + data)

    assert login.respond(frames[-1]) is None
    assert principal_of(client) == Principal("User", "carol")
    assert counts(machine)["successful_authentication_no_reauth"] == 1


# -- refusals -----------------------------------------------------------------------------------


def test_failure_is_answered_and_the_connection_closed_after_the_delay(client: Client) -> None:
    shake_hands(client, "PLAIN")

    client.send(SaslAuthenticateRequest(b"\0alice\0wrong"))
    client.machine.advance(DELAY_MS - 1)
    assert client.is_waiting
    assert not client.machine.broker.wants_read(client.number)
    client.machine.advance(1)
    states = [client.closed]
    client.machine.advance(LINGER_MS)

    (_, answer), *others = client.answers
    assert not others
    assert isinstance(answer, SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert answer.auth_bytes == b""
    assert states == [None]
    assert client.closed is not None
    assert counts(client.machine) == {"failed_authentication": 1}
    client.machine.check_invariants()


def test_wrong_password_and_unknown_user_get_the_same_answers(machine: InProcess) -> None:
    add_user(machine, "carol", "pencil", ScramMechanism.SCRAM_SHA_256)
    answers = [
        (answer.error_code, answer.error_message)
        for login in (
            scram("carol", "wrong"),
            scram("nobody", "pencil"),
            scram("carol", "pencil", "SCRAM-SHA-512"),
        )
        for answer in [log_in(connect(machine), login)]
    ]

    assert answers[:2] == [(58, f"{GENERIC} SCRAM-SHA-256")] * 2
    assert answers[2] == (58, f"{GENERIC} SCRAM-SHA-512")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_and_unknown_user_cost_the_same(machine: InProcess, mechanism: str) -> None:
    """Calls are counted, which no load of the machine changes; `bench.logins` takes the time."""
    for each in ScramMechanism:
        add_user(machine, "alice", "secret", each)
    # The first login of all counts the users.
    calls_of_refused_login(machine, mechanism, "other")

    alice, nobody = (
        calls_of_refused_login(machine, mechanism, name) for name in ("alice", "wendy")
    )

    assert nobody == pytest.approx(alice, rel=0.05)
    assert alice > (10 if mechanism == "PLAIN" else 50)


def calls_of_refused_login(machine: InProcess, mechanism: str, name: str) -> int:
    client = connect(machine)
    login = PlainClient(name, "no") if mechanism == "PLAIN" else scram(name, "no", mechanism)
    shake_hands(client, mechanism)
    sasl = machine.broker.peers.by_number[client.number].session.sasl
    assert sasl is not None
    assert sasl.exchange is not None
    said: bytes | None = login.begin()
    counted: list[str] = []
    while said is not None:
        sys.setprofile(lambda _, event, __: counted.append(event))
        try:
            step = sasl.exchange.respond(said)
        except LoginRefused:
            break
        finally:
            sys.setprofile(None)
        said = login.respond(step.data)
    return sum(event in ("call", "c_call") for event in counted)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "SCRAM-SHA-1", "OAUTHBEARER"])
def test_mechanism_that_is_not_offered_is_refused_with_those_that_are(
    client: Client, mechanism: str
) -> None:
    client.send(SaslHandshakeRequest(mechanism))
    client.machine.advance(DELAY_MS + LINGER_MS)

    ((_, answer),) = client.answers
    assert isinstance(answer, SaslHandshakeResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == MECHANISMS
    assert client.closed is not None


@pytest.mark.parametrize("message", [ALL_TOPICS, SaslAuthenticateRequest(b"\0alice\0secret")])
def test_request_before_the_login_gets_no_answer(client: Client, message: ApiMessage) -> None:
    client.send(message)
    client.machine.advance(DELAY_MS - 1)
    assert client.closed is None
    client.machine.advance(1)

    assert not client.answers
    assert client.closed is not None


def test_versions_are_told_once_before_the_login(client: Client) -> None:
    client.ask(HELLO, ApiVersionsResponse)

    client.send(HELLO)

    assert not client.answers
    assert client.closed is not None


def test_client_that_is_newer_may_ask_for_versions_again(client: Client) -> None:
    _, frame = client.frame(HELLO, 4)
    newer = bytearray(frame)
    newer[6:8] = (99).to_bytes(2)
    client._asked[-1] = (client._asked[-1][0], 18, 0)

    client.feed(bytes(newer))
    refused = client.take(ApiVersionsResponse)

    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.ask(HELLO, ApiVersionsResponse).error_code == 0


@pytest.mark.parametrize("message", [HELLO, CreateTopicsRequest(), SaslHandshakeRequest("PLAIN")])
def test_other_request_in_the_middle_of_a_login_costs_the_connection(
    client: Client, message: ApiMessage
) -> None:
    shake_hands(client, "PLAIN")

    client.send(message)
    client.machine.advance(DELAY_MS + LINGER_MS)

    codes = [getattr(answer, "error_code", None) for _, answer in client.answers]
    assert codes in ([ErrorCode.ILLEGAL_SASL_STATE], [])
    assert bool(codes) == (message.api_key != CreateTopicsRequest.api_key)
    assert client.closed is not None


def test_any_request_out_of_place_ends_its_own_connection_only(machine: InProcess) -> None:
    """An answer that cannot be written would have cost the others theirs, in the same turn."""
    faults = []
    for key, taken in OFFERED.items():
        for version in range(taken.first, taken.last + 1) if key in HANDLED else ():
            message = api_class(key, "Request")()
            for begins in (False, True) if _has_form(message, version) else ():
                client = connect(machine)
                if begins:
                    shake_hands(client, "PLAIN")
                client.send(message, version)
                machine.advance(DELAY_MS)
                machine.advance(LINGER_MS)
                if client.closed is None and key not in _LOGIN_APIS:
                    faults.append((message.name, version, begins))

    assert faults == []


def _has_form(message: ApiMessage, version: int) -> bool:
    """Some have no empty form in some versions."""
    try:
        frame_of(message, version)
    except (InvariantViolation, UnsupportedVersion):
        return False
    return True


def test_metadata_in_the_middle_of_a_login_has_the_code_for_its_topics(client: Client) -> None:
    shake_hands(client, "PLAIN")

    client.send(MetadataRequest(topics=[MetadataRequestTopic(name="hidden")]), 9)
    client.machine.advance(DELAY_MS + LINGER_MS)

    ((_, answer),) = client.answers
    assert isinstance(answer, MetadataResponse)
    assert [(each.error_code, each.name) for each in answer.topics] == [(34, "hidden")]
    assert not answer.brokers


def test_login_that_never_ends_is_cut(client: Client) -> None:
    class Endless:
        def respond(self, data: bytes) -> object:
            from ledgerstone.security.exchange import Challenge

            return Challenge(b"more")

    shake_hands(client, "PLAIN")
    sasl = client.machine.broker.peers.by_number[client.number].session.sasl
    assert sasl is not None
    sasl.exchange = Endless()  # type: ignore[assignment]
    for _ in range(4):
        assert say(client, b"x").auth_bytes == b"more"

    client.send(SaslAuthenticateRequest(b"x"))
    client.machine.advance(DELAY_MS + LINGER_MS)

    assert client.closed is not None


def test_large_frame_before_the_login_costs_the_connection_at_once(client: Client) -> None:
    client.feed(frame_prefix(65_537) + b"\0" * 100)

    assert client.closed is not None
    assert not client.answers


def test_login_must_end_in_time(client: Client) -> None:
    shake_hands(client, "SCRAM-SHA-256")
    for _ in range(31):
        client.machine.advance(1000)

    assert client.closed == "the login took too long"


def test_connection_that_logged_in_may_be_idle(client: Client) -> None:
    log_in(client, alice())
    for _ in range(60):
        client.machine.advance(1000)

    assert client.closed is None


def test_no_secret_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    add_user(client.machine, "carol", "pencil", ScramMechanism.SCRAM_SHA_256)

    log_in(client, PlainClient("alice", "hush-hush"))
    log_in(connect(client.machine), scram("carol", "hush-hush"))
    log_in(connect(client.machine), scram("carol", "pencil"))

    assert "Failed authentication" in caplog.text
    assert not any(secret in caplog.text for secret in ("hush", "pencil", "secret"))


# -- after the login ----------------------------------------------------------------------------


def test_second_login_without_a_lifetime_is_out_of_place(client: Client) -> None:
    log_in(client, alice())

    shaken = shake_hands(client, "PLAIN")
    said = say(client, b"\0alice\0secret")

    assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert said.error_code == ErrorCode.ILLEGAL_SASL_STATE
    late = "SaslAuthenticate request received after successful authentication"
    assert said.error_message == late
    assert client.closed is None


def test_listener_without_logins_knows_no_sasl() -> None:
    client = InProcess().connect()

    assert shake_hands(client, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert say(client, b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.ask(ALL_TOPICS, MetadataResponse).brokers


def test_password_changed_later_leaves_the_connection_alone(client: Client) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    add_user(client.machine, "carol", "old", mechanism)
    log_in(client, scram("carol", "old"))

    add_user(client.machine, "carol", "new", mechanism)

    assert client.ask(ALL_TOPICS, MetadataResponse).brokers
    assert log_in(connect(client.machine), scram("carol", "old")).error_code == 58
    assert log_in(connect(client.machine), scram("carol", "new")).error_code == 0


# -- logins that expire -------------------------------------------------------------------------


@pytest.fixture
def expiring() -> Client:
    return connect(sasl_broker(connections_max_reauth_ms="5000"))


def test_lifetime_is_told_and_the_next_request_after_it_costs_the_connection(
    expiring: Client,
) -> None:
    answer = log_in(expiring, alice())
    expiring.machine.advance(4999)
    assert expiring.ask(ALL_TOPICS, MetadataResponse).brokers
    expiring.machine.advance(1)

    expiring.send(ALL_TOPICS)

    assert answer.session_lifetime_ms == 5000
    assert not expiring.answers
    assert expiring.closed is not None
    assert counts(expiring.machine)["expired_connections_killed"] == 1


def test_login_again_renews_it_also_after_it_has_expired(expiring: Client) -> None:
    log_in(expiring, alice())
    for _ in range(3):
        expiring.machine.advance(6000)
        assert log_in(expiring, alice()).session_lifetime_ms == 5000
        assert expiring.ask(ALL_TOPICS, MetadataResponse).brokers

    assert counts(expiring.machine)["successful_reauthentication"] == 3


def test_login_again_is_taken_once_a_second(expiring: Client) -> None:
    log_in(expiring, alice())
    log_in(expiring, alice())
    expiring.machine.advance(999)

    assert shake_hands(expiring, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    expiring.machine.advance(1)
    assert shake_hands(expiring, "PLAIN").error_code == 0


def test_login_again_as_somebody_else_is_refused(expiring: Client) -> None:
    log_in(expiring, alice())

    answer = log_in(expiring, PlainClient("bob", "s"))

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in (answer.error_message or "")
    assert expiring.closed is not None
    assert counts(expiring.machine)["failed_reauthentication"] == 1


def test_login_again_by_another_mechanism_ends_without_an_answer(expiring: Client) -> None:
    log_in(expiring, alice())
    assert shake_hands(expiring, "SCRAM-SHA-256").error_code == 0

    expiring.send(SaslAuthenticateRequest(scram("alice", "secret").begin()))
    expiring.machine.advance(DELAY_MS + LINGER_MS)

    assert not expiring.answers
    assert expiring.closed is not None


def test_failed_login_again_is_called_so(expiring: Client) -> None:
    add_user(expiring.machine, "carol", "pencil", ScramMechanism.SCRAM_SHA_256)
    log_in(expiring, scram("carol", "pencil"))

    answer = log_in(expiring, scram("carol", "wrong"))

    assert answer.error_message == (
        "Authentication failed during re-authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )


def test_nothing_but_the_login_is_served_while_it_is_under_way_again(expiring: Client) -> None:
    log_in(expiring, alice())
    shake_hands(expiring, "PLAIN")

    expiring.send(CreateTopicsRequest())
    expiring.machine.advance(DELAY_MS + LINGER_MS)

    assert expiring.closed is not None


def test_mechanism_may_have_a_lifetime_of_its_own() -> None:
    machine = started(
        {
            **SASL,
            "connections.max.reauth.ms": "5000",
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "7000",
        }
    )

    assert log_in(connect(machine), alice()).session_lifetime_ms == 7000


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": " "}, "sasl.enabled.mechanisms"),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "x"},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
        (
            {
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required;"
                )
            },
            "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
    ],
)
def test_settings_that_let_nobody_in_are_refused_at_the_start(
    settings: dict[str, str], key: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        started({**SASL, **settings})

    assert refused.value.key == key


def test_thousand_half_logins_hold_little(machine: InProcess) -> None:
    served: list[int] = []
    honest: Callable[..., Answer] = machine.broker.dispatch

    def dispatch(broker: object, request: Request, message: ApiMessage) -> Answer:
        served.append(request.api_key)
        return honest(broker, request, message)

    machine.broker.dispatch = dispatch
    for _ in range(1000):
        shake_hands(connect(machine), "SCRAM-SHA-256")
    machine.advance(1000)

    assert len(served) == 1000
    assert machine.broker.peers.memory.reserved_bytes == 0


def test_salts_of_unknown_users_are_no_cheap_test_of_the_brokers_passwords(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever sees one could try passwords on it at home."""
    asked: list[dict[str, object]] = []
    honest = hashlib.scrypt

    def scrypt(password: bytes, **options: object) -> bytes:
        asked.append(options)
        return honest(password, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "scrypt", scrypt)
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    seen = []
    for password in ("one", "two", "one"):
        jaas = SASL[key].replace('password="b"', f'password="{password}"')
        client = connect(started({**SASL, key: jaas}))
        shake_hands(client, "SCRAM-SHA-256")
        said = say(client, b"n,,n=nobody,r=abc").auth_bytes.decode()
        seen.append(said.split(",")[1:])

    assert seen[0] == seen[2] != seen[1]
    assert all(each["n"] == 1 << 14 for each in asked)
    assert len(asked) == 3
