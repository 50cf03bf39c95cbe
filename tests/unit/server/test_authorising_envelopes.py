"""Requests that brokers forward: the broker needs CLUSTER_ACTION, its client the right itself."""

import pytest

from ledgerstone.metadata.topic_names import ERASURES
from ledgerstone.protocol.api import OFFERED
from ledgerstone.protocol.codec import api_class, decode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.headers import response_body_position
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.envelope import EnvelopeResponse
from ledgerstone.protocol.server_connection import ConnectionLimits
from ledgerstone.security.acl import AclOperation
from ledgerstone.security.principal import Principal
from ledgerstone.server.dispatch import CONTROLLER_HANDLED, HANDLED
from ledgerstone.server.forwarding import encode_principal
from tests.kit.in_process import Client, InProcess
from tests.unit.server.test_controller_listener import CONTROLLER, join, wrap
from tests.unit.server.test_controller_listener import SETTINGS as CONTROLLER_SETTINGS

SETTINGS = {
    **CONTROLLER_SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker",
}
TOPIC, PREFIXED, ALLOW, CREATE = 2, 4, 3, AclOperation.CREATE


@pytest.fixture
def machine() -> InProcess:
    return InProcess(settings=SETTINGS, advertised=[CONTROLLER])


def _login(machine: InProcess, name: str) -> Client:
    client = machine.connect(listener=CONTROLLER.name)
    machine.broker.peers.by_number[client.number].session.principal = Principal("User", name)
    return client


@pytest.fixture
def broker(machine: InProcess) -> Client:
    broker = _login(machine, "broker")
    join(machine, broker)
    return broker


def _allow(broker: Client, prefix: str) -> None:
    acl = CreateAclsCreation(TOPIC, prefix, PREFIXED, "User:bob", "127.0.0.1", CREATE, ALLOW)
    assert broker.ask(CreateAclsRequest([acl]), CreateAclsResponse).results[0].error_code == 0


def _create(broker: Client, *names: str, host: bytes = b"\x7f\0\0\1") -> dict[str, int]:
    """For bob, in an envelope."""
    topics = [CreateTopicsRequestTopic(name, 1, 1) for name in names]
    envelope = wrap(CreateTopicsRequest(topics=topics), 7)
    envelope.request_principal = encode_principal(Principal("User", "bob"))
    envelope.client_host_address = host
    answer = broker.ask(envelope, EnvelopeResponse)
    data = answer.response_data
    assert data is not None, answer
    inner = decode_response(19, 7, data, response_body_position(19, 7, data))
    assert isinstance(inner, CreateTopicsResponse)
    return {each.name: each.error_code for each in inner.topics}


def test_client_in_an_envelope_has_its_own_rights(machine: InProcess, broker: Client) -> None:
    denied = _create(broker, "tea")
    _allow(broker, "te")

    allowed = _create(broker, "tea", "coffee")
    elsewhere = _create(broker, "tee", host=b"\x0a\0\0\1")

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert denied == {"tea": code}
    assert allowed == {"tea": 0, "coffee": code}
    assert elsewhere == {"tee": code}
    assert list(machine.broker.image.topics) == ["tea"]


def test_largest_request_of_a_client_is_answered_in_its_envelope(
    machine: InProcess, broker: Client
) -> None:
    most = ConnectionLimits().max_plain_bytes
    names = [f"{number:03}{'x' * 32_000}" for number in range(261)]
    few = wrap(CreateTopicsRequest(topics=[_topic(each) for each in [*names, "last"]]), 7)
    names.append("last" + "x" * (most - len(few.request_data) - 2))
    whole = wrap(CreateTopicsRequest(topics=[_topic(each) for each in names]), 7)

    codes = _create(broker, *names)

    assert len(whole.request_data) == most
    assert set(codes.values()) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert broker.closed is None


def _topic(name: str) -> CreateTopicsRequestTopic:
    return CreateTopicsRequestTopic(name, 1, 1)


def test_stranger_cannot_forward_in_the_name_of_others(machine: InProcess, broker: Client) -> None:
    stranger = _login(machine, "stranger")
    envelope = wrap(CreateTopicsRequest(topics=[CreateTopicsRequestTopic("tea", 1, 1)]), 7)
    envelope.request_principal = encode_principal(Principal("User", "broker"))

    answer = stranger.ask(envelope, EnvelopeResponse)

    assert (answer.error_code, answer.response_data) == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        None,
    )
    assert not machine.broker.image.topics


def test_part_of_an_enveloped_request_is_not_taken_for_a_brokers_own(
    machine: InProcess, broker: Client
) -> None:
    """Only a broker itself may make the journal of erasures."""
    _allow(broker, ERASURES)

    codes = _create(broker, ERASURES, "tea")

    assert codes["tea"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes[ERASURES] != ErrorCode.NONE
    assert ERASURES not in machine.broker.image.topics


@pytest.mark.parametrize("key", sorted(CONTROLLER_HANDLED - HANDLED))
def test_what_nodes_ask_controllers_is_not_served_to_clients(key: int) -> None:
    """Envelopes above all: whoever could send one would be whoever they like."""
    client = InProcess().connect()

    client.send(api_class(key, "Request")(), OFFERED[key].last)

    assert client.closed is not None
    assert client.answers == []
