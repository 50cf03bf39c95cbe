"""A broker in process with a listener that asks for a login, and clients that log in."""

from collections.abc import Mapping

from ledgerstone.protocol.client_login import ClientLogin
from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsUpsertion,
)
from ledgerstone.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ledgerstone.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ledgerstone.security.plain import PlainClient
from ledgerstone.security.scram_client import ScramClient
from ledgerstone.security.scram_keys import SCRAM_BY_TEXT, ScramMechanism, salt_password
from tests.kit.in_process import ADDRESS, Client, InProcess

LISTENER = "SASL_PLAINTEXT"
DELAY_MS = 100
LINGER_MS = 50
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL = {
    "listeners": f"{LISTENER}://127.0.0.1:9092",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{JAAS} username="broker" password="b" user_alice="secret" user_bob="s";'
    ),
}


def sasl_broker(**settings: str) -> InProcess:
    """Keys are written with underscores for dots."""
    more = {key.replace("_", "."): value for key, value in settings.items()}
    return started({**SASL, **more})


def started(settings: Mapping[str, str]) -> InProcess:
    machine = InProcess(settings=dict(settings), advertised=(ADDRESS._replace(name=LISTENER),))
    machine.advance(1)
    return machine


def connect(machine: InProcess) -> Client:
    return machine.connect(listener=LISTENER)


def shake_hands(client: Client, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    return client.ask(SaslHandshakeRequest(mechanism), SaslHandshakeResponse, version)


def say(client: Client, data: bytes, version: int = 2) -> SaslAuthenticateResponse:
    """A step that must be answered at once."""
    return client.ask(SaslAuthenticateRequest(data), SaslAuthenticateResponse, version)


def scram(name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> ScramClient:
    return ScramClient(SCRAM_BY_TEXT[mechanism], name, password, "clients+nonce")


def alice() -> PlainClient:
    return PlainClient("alice", "secret")


def log_in(client: Client, login: ClientLogin, version: int = 2) -> SaslAuthenticateResponse:
    """The last answer. A login that is refused has it after the delay."""
    assert shake_hands(client, login.mechanism).error_code == 0
    said: bytes | None = login.begin()
    last = SaslAuthenticateResponse()
    while said is not None:
        client.send(SaslAuthenticateRequest(said), version)
        if client.is_waiting:
            client.machine.advance(DELAY_MS)
            client.machine.advance(LINGER_MS)
        # Taken by hand: after a refusal the connection is closed.
        _, answer = client.answers.pop(0)
        assert isinstance(answer, SaslAuthenticateResponse)
        last = answer
        if last.error_code:
            break
        said = login.respond(bytes(last.auth_bytes))
    return last


def add_user(
    machine: InProcess,
    name: str,
    password: str,
    mechanism: ScramMechanism,
    salt: bytes = b"salt" * 4,
) -> None:
    """As an admin who is logged in does it."""
    salted = salt_password(mechanism, password.encode(), salt, 4096)
    upsertion = AlterUserScramCredentialsUpsertion(name, mechanism, 4096, salt, salted)
    admin = connect(machine)
    log_in(admin, alice())
    answer = admin.ask(
        AlterUserScramCredentialsRequest(upsertions=[upsertion]), AlterUserScramCredentialsResponse
    )
    assert [each.error_code for each in answer.results] == [0]
    machine.broker.counters.logins.clear()
