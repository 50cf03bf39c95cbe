"""Logins, right and wrong, said byte for byte to Apache Kafka and to us: the same answers. Needs
Java, and Maven for the first run: `make kafka-reads`."""

import shutil
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsDeletion,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsUpsertion,
)
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsUser,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ledgerstone.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ledgerstone.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ledgerstone.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from tests.kit.broker import FAST_GROUPS, BrokerProcess
from tests.kit.in_process import frame_of

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

PLAIN_JAAS = (
    f'{PLAIN_MODULE} required username="alice" password="secret" user_alice="secret" user_bob="b";'
)
COMMON = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "connections.max.reauth.ms": "3600000",
}


class Step(NamedTuple):
    message: ApiMessage | bytes
    version: int = 0


def shake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    return Step(SaslHandshakeRequest(mechanism), version)


def say(data: bytes, version: int = 2) -> Step:
    return Step(SaslAuthenticateRequest(data), version)


HELLO = Step(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 0)
GOOD = (shake(), say(b"\0alice\0secret"))
HIDDEN = MetadataRequest(topics=[MetadataRequestTopic(name="hidden")])


def deletion(name: str, mechanism: int = 1) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest([AlterUserScramCredentialsDeletion(name, mechanism)])


def upsertion(
    name: str, mechanism: int = 1, iterations: int = 4096, times: int = 1
) -> AlterUserScramCredentialsRequest:
    one = AlterUserScramCredentialsUpsertion(name, mechanism, iterations, b"s" * 16, b"p" * 32)
    return AlterUserScramCredentialsRequest(upsertions=[one] * times)


def described(*names: str) -> Step:
    users = [DescribeUserScramCredentialsUser(name) for name in names]
    return Step(DescribeUserScramCredentialsRequest(users))


TALKS: dict[str, Sequence[Step]] = {
    "unknown mechanism": [shake("GSSAPI")],
    "unknown mechanism, version 0": [shake("SCRAM-SHA-512", 0)],
    **{
        f"refused token {token!r} v{version}": [shake(), say(token, version)]
        for token in (
            b"\0alice\0wrong",
            b"\0nobody\0wrong",
            b"\0\0wrong",
            b"\0alice\0",
            b"\0alice\0secret\0",
            b"alice",
            b"",
            b"bob\0alice\0secret",
        )
        for version in (0, 1, 2)
    },
    "refused bare token": [shake(version=0), Step(b"\0alice\0wrong")],
    "bare token": [shake(version=0), Step(b"\0alice\0secret")],
    "scram without sense": [shake("SCRAM-SHA-256"), say(b"hello")],
    "scram with channel binding": [shake("SCRAM-SHA-256"), say(b"p=x,,n=alice,r=abc")],
    "metadata first": [Step(HIDDEN, 9)],
    "token first": [say(b"\0alice\0secret")],
    "metadata after versions": [HELLO, Step(HIDDEN, 9)],
    "metadata in between": [shake(), Step(HIDDEN, 9)],
    "handshake in between": [shake(), shake()],
    "token after": [*GOOD, say(b"\0alice\0secret")],
    "again": [*GOOD, shake(), say(b"\0alice\0secret")],
    "again too soon": [*GOOD, shake(), say(b"\0alice\0secret"), shake()],
    "again as another": [*GOOD, shake(), say(b"\0bob\0b")],
    "again with a wrong password": [*GOOD, shake(), say(b"\0alice\0wrong")],
    "again otherwise": [*GOOD, shake("SCRAM-SHA-256"), say(b"n,,n=alice,r=abc")],
    "describe nobody": [*GOOD, described("nobody")],
    "describe twice": [*GOOD, described("nobody", "nobody")],
    "describe all": [*GOOD, described()],
    "delete nobody": [*GOOD, Step(deletion("nobody"))],
    "delete without a name": [*GOOD, Step(deletion(""))],
    "delete an unknown mechanism": [*GOOD, Step(deletion("nobody", 7))],
    "too few iterations": [*GOOD, Step(upsertion("a", iterations=4095))],
    "too many iterations": [*GOOD, Step(upsertion("a", iterations=16385))],
    "unknown mechanism of a user": [*GOOD, Step(upsertion("a", 0))],
    "user without a name": [*GOOD, Step(upsertion(""))],
    "user twice": [*GOOD, Step(upsertion("a", times=2))],
}


class Both(NamedTuple):
    kafka: str
    ours: str


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("sasl")
    kafka = KafkaBroker(
        jars=fetch_jars(),
        work=directory / "kafka",
        settings={
            **COMMON,
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
            "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        },
    )
    kafka.format()
    kafka.start()
    try:
        with BrokerProcess(directory, _our_settings(directory), arguments=_config(directory)) as us:
            yield Both(kafka.bootstrap, us.bootstrap)
    finally:
        kafka.kill()


def _our_settings(directory: Path) -> dict[str, str]:
    directory.mkdir(exist_ok=True)
    return {**FAST_GROUPS, **COMMON, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}


def _config(directory: Path) -> tuple[str, ...]:
    path = directory / "server.properties"
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    path.write_text(f"{key}={PLAIN_JAAS}\n", encoding="utf-8")
    return ("--config", str(path))


def talk(bootstrap: str, steps: Sequence[Step]) -> list[str]:
    """What each step is answered; how the connection ends."""
    host, port = bootstrap.rsplit(":", 1)
    heard: list[str] = []
    connection = socket.create_connection((host, int(port)), timeout=20)
    with connection, connection.makefile("rb") as stream:
        for number, step in enumerate(steps):
            connection.sendall(_frame(step, number))
            size = stream.read(4)
            if len(size) < 4:
                return [*heard, "closed"]
            heard.append(stream.read(struct.unpack(">i", size)[0]).hex())
        connection.settimeout(0.5)
        try:
            end = stream.read(1)
        except TimeoutError:
            return [*heard, "open"]
        return [*heard, "closed" if end == b"" else "more"]


def _frame(step: Step, number: int) -> bytes:
    if isinstance(step.message, bytes):
        return struct.pack(">i", len(step.message)) + step.message
    return frame_of(step.message, step.version, number)


@pytest.mark.parametrize("name", TALKS)
def test_answers_are_those_of_kafka(both: Both, name: str) -> None:
    steps = TALKS[name]
    expected, heard = talk(both.kafka, steps), talk(both.ours, steps)
    if steps[0] is HELLO:
        expected[0] = heard[0] = "versions"

    assert [_text(each) for each in heard] == [_text(each) for each in expected]
    assert heard == expected


def _text(answer: str) -> str:
    """So that a difference can be read."""
    return str(bytes.fromhex(answer)) if answer.strip("0123456789abcdef") == "" else answer
