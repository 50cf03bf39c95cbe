"""What Apache Kafka's brokers and controllers say to their controller: we read it and write it."""

from pathlib import Path
from typing import Any, Final

import pytest

from ledgerstone.protocol.codec import decode_request, encode_request
from ledgerstone.protocol.headers import decode_request_header, encode_request_header
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest
from ledgerstone.protocol.messages.envelope import EnvelopeRequest
from ledgerstone.security.principal import Principal
from ledgerstone.server.forwarding import encode_principal
from tests.compat import cluster_recorded

RECORDED: Final = cluster_recorded.read()


def _decoded(frame: bytes) -> ApiMessage:
    header, position = decode_request_header(frame)
    return decode_request(header.api_key, header.api_version, frame, position)


@pytest.mark.parametrize("name", RECORDED["requests"])
def test_request_of_kafka_is_read_and_written_byte_for_byte(name: str) -> None:
    frame = bytes.fromhex(RECORDED["requests"][name])
    header, _ = decode_request_header(frame)

    pieces: list[Any] = list(encode_request(_decoded(frame), header.api_version))

    assert encode_request_header(header) + b"".join(pieces) == frame


def test_envelope_of_kafka_holds_the_client_request_and_the_principal_as_we_write_it() -> None:
    envelope = _decoded(bytes.fromhex(RECORDED["requests"]["Envelope"]))
    assert isinstance(envelope, EnvelopeRequest)

    inner = _decoded(envelope.request_data)

    assert isinstance(inner, CreateTopicsRequest)
    assert [each.name for each in inner.topics] == [cluster_recorded.TOPIC]
    assert envelope.request_principal == encode_principal(Principal("User", "ANONYMOUS"))
    assert envelope.client_host_address == bytes([127, 0, 0, 1])


@pytest.mark.kafka
def test_kafka_still_says_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_recorded, "FILE", tmp_path / "now.json")
    cluster_recorded.record()
    now = cluster_recorded.read()

    assert now["listeners"] == RECORDED["listeners"]
    assert now["requests"].keys() == RECORDED["requests"].keys()
