"""Our side of a login against a broker of ours in process: the bytes of `ClientConnection`."""

from collections.abc import Iterable

import pytest

from ledgerstone.client.security import client_security
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.errors import ConfigError
from ledgerstone.protocol.client_connection import ClientConnection, ClientState, Response
from ledgerstone.protocol.client_login import LoginFailed, renewal_ms
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.pieces import Piece
from ledgerstone.security.accounts import Account, login_maker
from ledgerstone.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from ledgerstone.security.scram_keys import ScramMechanism
from ledgerstone.server.login.own import own_login
from ledgerstone.sim.dice import SeededDice
from tests.kit.in_process import Client, InProcess
from tests.unit.server.login_kit import (
    DELAY_MS,
    LISTENER,
    SASL,
    add_user,
    sasl_broker,
    started,
)

ALICE = Account("PLAIN", "alice", "secret")
CAROL = Account("SCRAM-SHA-512", "carol", "pencil")


class Wire(Client):
    """Carries the bytes between a connection of ours and the broker."""

    def __init__(self, machine: InProcess, account: Account | None) -> None:
        super().__init__(machine, machine._take_number())
        make_login = None if account is None else login_maker(account, SeededDice("nonce"))
        self.connection = ClientConnection("test", "1", make_login=make_login)
        self.responses: list[Response] = []

    def run(self) -> None:
        """Until nobody has anything to say."""
        while pieces := self.connection.data_to_send():
            self.feed(b"".join(piece for piece in pieces if isinstance(piece, bytes)))

    def deliver(self, pieces: Iterable[Piece]) -> bytes:
        data = b"".join(piece for piece in pieces if isinstance(piece, bytes))
        self.responses += self.connection.receive_data(data)
        return data


def wire(machine: InProcess, account: Account | None, listener: str = LISTENER) -> Wire:
    made = Wire(machine, account)
    machine._connect(made, "10.0.0.1", listener)
    return made


@pytest.mark.parametrize("account", [ALICE, CAROL], ids=lambda each: each.mechanism)
def test_login_comes_before_the_first_request(account: Account) -> None:
    machine = sasl_broker()
    add_user(machine, "carol", "pencil", ScramMechanism.SCRAM_SHA_512)
    made = wire(machine, account)

    made.run()
    made.connection.send(MetadataRequest(topics=None))
    made.run()

    assert made.connection.state is ClientState.READY
    assert isinstance(made.responses[0].message, MetadataResponse)
    assert made.connection.lifetime_ms is None


def test_refusal_says_what_the_broker_said() -> None:
    machine = sasl_broker()
    made = wire(machine, Account("PLAIN", "alice", "wrong"))
    made.run()

    with pytest.raises(LoginFailed, match="Invalid username or password") as failed:
        machine.advance(DELAY_MS)

    assert failed.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert made.connection.state is ClientState.CLOSED


def test_mechanism_that_is_not_offered_is_named_with_those_that_are() -> None:
    machine = started({**SASL, "sasl.enabled.mechanisms": "PLAIN"})
    made = wire(machine, CAROL)
    made.run()

    with pytest.raises(LoginFailed, match="does not offer SCRAM-SHA-512, it offers PLAIN"):
        machine.advance(DELAY_MS)


def test_login_where_none_is_asked_for_is_an_error() -> None:
    made = wire(InProcess(), ALICE, "PLAINTEXT")

    with pytest.raises(LoginFailed, match="asks for no login"):
        made.run()


def test_login_again_in_between_requests() -> None:
    machine = sasl_broker(connections_max_reauth_ms="10000")
    made = wire(machine, ALICE)
    made.run()
    assert made.connection.lifetime_ms == 10_000

    for _ in range(3):
        machine.advance(renewal_ms(10_000))
        made.connection.log_in_again()
        made.run()
        made.connection.send(MetadataRequest(topics=None))
        made.run()

    assert len(made.responses) == 3
    assert made.closed is None


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="secret";'},
        {"sasl.username": "alice", "sasl.password": "secret"},
    ],
)
def test_client_is_told_its_account_by_names_of_kafka_or_librdkafka(
    properties: dict[str, str],
) -> None:
    given = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", **properties}

    security = client_security(given)

    assert security.protocol is SecurityProtocol.SASL_PLAINTEXT
    assert security.account == ALICE
    assert "secret" not in repr(security)


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"sasl.username": "a", "sasl.password": "hush"}, "sasl.mechanism"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "sasl.jaas.config"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "hush"}, "sasl.jaas.config"),
    ],
)
def test_half_an_account_is_refused(properties: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        client_security({"security.protocol": "SASL_SSL", **properties})

    assert refused.value.key == key
    assert "hush" not in str(refused.value)


NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "B://127.0.0.1:9092,C://127.0.0.1:9093",
    "advertised.listeners": "B://127.0.0.1:9092,C://127.0.0.1:9093",
    "listener.security.protocol.map": "B:SASL_PLAINTEXT,C:SASL_PLAINTEXT",
    "inter.broker.listener.name": "B",
    "controller.listener.names": "C",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.b.scram-sha-256.sasl.jaas.config": (
        f'{SCRAM_MODULE} required username="node" password="n";'
    ),
    "listener.name.c.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="ctl" password="c" user_ctl="c";'
    ),
}


def test_node_logs_in_to_brokers_and_controllers_as_its_settings_say() -> None:
    config = BrokerConfig.from_raw(NODE)

    logins = [own_login(config, name, SeededDice("n")) for name in ("B", "C")]

    made = [make() for make in logins if make is not None]
    assert [each.mechanism for each in made] == ["SCRAM-SHA-256", "PLAIN"]
    assert made[1].begin() == b"\0ctl\0c"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"sasl.mechanism.controller.protocol": "GSSAPI"}, "sasl.mechanism.controller.protocol"),
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"},
            "sasl.mechanism.controller.protocol",
        ),
        (
            {"listener.name.c.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_ctl="c";'},
            "listener.name.c.plain.sasl.jaas.config",
        ),
    ],
)
def test_node_without_an_account_of_its_own_is_refused(change: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        own_login(BrokerConfig.from_raw({**NODE, **change}), "C", SeededDice("n"))

    assert refused.value.key == key
