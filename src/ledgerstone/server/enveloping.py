"""A client's request inside an Envelope, and its answer put back into one. Pure.

A broker forwards what clients ask of the controller: the whole request with its header, the
client's principal and its address. The answer is wrapped the same way. NOT_CONTROLLER stands on
the envelope itself, so the broker looks for the active controller without opening the answer.
"""

import ipaddress
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import (
    InvalidRequest,
    KafkaError,
    PrincipalDeserializationFailure,
    UnsupportedVersion,
)
from ledgerstone.metadata.not_controller import says_not_controller
from ledgerstone.protocol.api import ApiKey, accepts
from ledgerstone.protocol.codec import decode_request, encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.headers import decode_request_header, encode_response_header
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ledgerstone.protocol.messages.principal import DefaultPrincipalData
from ledgerstone.protocol.record_codec import UnknownRecord, decode_record_value
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.security.principal import Principal
from ledgerstone.server.request import InnerRequest, Request
from ledgerstone.server.session import Session

# APIs that Kafka's brokers forward.
FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
_ADDRESS_BYTES: Final = (4, 16)


@dataclass(slots=True, eq=False)
class EnvelopedRequest(InnerRequest):
    """A request in an envelope."""

    def wrapped(self, response: ApiMessage) -> EnvelopeResponse:
        if says_not_controller(response):
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        header = encode_response_header(self.api_key, self.api_version, self.correlation_id)
        # No answer of the controller has records, so it is one piece of bytes.
        (body,) = encode_response(response, self.api_version)
        assert isinstance(body, bytes)
        return EnvelopeResponse(response_data=header + body)


def opened(
    outer: Request, envelope: EnvelopeRequest, handled: frozenset[int]
) -> tuple[EnvelopedRequest, ApiMessage]:
    """The request inside, in the name of the client that sent it. KafkaError: not a request that
    may come in an envelope."""
    principal = _principal_of(envelope)
    host = _address_of(envelope)
    data = envelope.request_data
    try:
        header, position = decode_request_header(data)
    except ProtocolViolation as error:
        raise InvalidRequest(f"the request in the envelope has no header: {error}") from error
    if header.api_key not in FORWARDABLE or header.api_key not in handled:
        raise InvalidRequest(f"API {header.api_key} may not come in an envelope")
    if not accepts(header.api_key, header.api_version):
        raise UnsupportedVersion(f"API {header.api_key} has no version {header.api_version}")
    try:
        message = decode_request(header.api_key, header.api_version, data, position)
    except ProtocolViolation as error:
        raise InvalidRequest(f"the request in the envelope cannot be read: {error}") from error
    session = Session(host, outer.session.listener, principal, is_controller_listener=True)
    inner = EnvelopedRequest(outer.connection, *header, session, outer.received_ms, outer=outer)
    return inner, message


def is_enveloped(request: Request) -> bool:
    """Whether a broker has forwarded it for a client."""
    while isinstance(request, InnerRequest):
        if isinstance(request, EnvelopedRequest):
            return True
        request = request.outer
    return False


def refused(error: KafkaError) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=error.code)


def _principal_of(envelope: EnvelopeRequest) -> Principal:
    try:
        found = decode_record_value(DefaultPrincipalData, envelope.request_principal or b"")
    except (ProtocolViolation, UnknownRecord, ValueError) as error:
        raise PrincipalDeserializationFailure(str(error)) from error
    return Principal(found.type, found.name)


def _address_of(envelope: EnvelopeRequest) -> str:
    address = envelope.client_host_address
    if len(address) not in _ADDRESS_BYTES:
        raise InvalidRequest(f"a client address of {len(address)} bytes")
    return str(ipaddress.ip_address(bytes(address)))
