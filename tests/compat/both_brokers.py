"""The same bytes to Apache Kafka and to us, and both answers as trees that can be compared.

A request is written as plain values, as in `Ask("Fetch", {"topics": [...]})`. What only one broker
can know, such as the id it gave a topic, stands there as a `FromSide` and is filled in for each. An
answer becomes a flat map from path to value. Replaced is only what two brokers cannot have in
common: topic ids by the topic's name, the words of error messages, ids handed out by chance, ports
and times. Everything else has to be the same, and so do the bytes: the decoded answer, encoded
again, must be what came.
"""

import socket
import struct
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ledgerstone.protocol.api import ACCEPTED_FROM, OFFERED
from ledgerstone.protocol.codec import (
    api_class,
    decode_response,
    encode_request,
    encode_response,
)
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.pieces import Piece

CLIENT_ID = "both"
NO_ID = b"\x01" * 16  # no topic has this one
CLOSED = "closed"
# A loaded machine may keep a broker from its processor for seconds.
ANSWER_TIMEOUT_S = 30.0
_KEYS = {each.name: key for key, each in APIS.items()}

Outcome = Mapping[str, object] | str


@dataclass(slots=True)
class Side:
    """One of the two brokers, and what was learnt of it."""

    name: str
    bootstrap: str
    topic_ids: dict[bytes, str] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    _connection: socket.socket | None = None
    _correlation_id: int = 0

    def topic_id(self, topic: str) -> bytes:
        return next(key for key, name in self.topic_ids.items() if name == topic)

    def exchange(self, api_key: int, version: int, body: bytes) -> bytes | None:
        """The body of the answer; None where the connection was closed instead."""
        self._correlation_id += 1
        header = RequestHeader(api_key, version, self._correlation_id, CLIENT_ID)
        answer = self._exchange(encode_request_header(header) + body)
        if answer is None:
            return None
        return answer[response_body_position(api_key, version, answer) :]

    def send_raw(self, api_key: int, version: int, body: bytes) -> bytes | None:
        """As `exchange`, for what no codec would write; the header is the oldest one there is."""
        self._correlation_id += 1
        start = struct.pack(">hhih", api_key, version, self._correlation_id, len(CLIENT_ID))
        answer = self._exchange(start + CLIENT_ID.encode() + body)
        return None if answer is None else answer[4:]

    def _exchange(self, frame: bytes) -> bytes | None:
        if self._connection is None:
            host, _, port = self.bootstrap.rpartition(":")
            self._connection = socket.create_connection((host, int(port)), ANSWER_TIMEOUT_S)
        try:
            self._connection.sendall(struct.pack(">i", len(frame)) + frame)
            answer = self._receive(struct.unpack(">i", self._receive(4))[0])
        except ConnectionError:
            self.close()
            return None
        assert peek_correlation_id(answer) == self._correlation_id
        return answer

    def _receive(self, size: int) -> bytes:
        assert self._connection is not None
        received = b""
        while len(received) < size:
            piece = self._connection.recv(size - len(received))
            if not piece:
                raise ConnectionResetError
            received += piece
        return received

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, asked: "Case", version: int) -> ApiMessage | None:
        message = asked.message(self, version)
        pieces = encode_request(message, version)
        body = _joined(pieces)
        answer = self.exchange(message.api_key, version, body)
        if answer is None:
            return None
        decoded = decode_response(message.api_key, version, answer)
        again = encode_response(decoded, version)
        assert _joined(again) == answer
        return decoded


def _joined(pieces: Sequence[Piece]) -> bytes:
    """Only a broker sends slices of files; here all is bytes."""
    buffers = [piece for piece in pieces if isinstance(piece, bytes | bytearray | memoryview)]
    assert len(buffers) == len(pieces)
    return b"".join(buffers)


class FromSide(NamedTuple):
    """A value that each broker has its own of."""

    get: Callable[[Side, int], Any]


def topic_id(name: str) -> FromSide:
    return FromSide(lambda side, _: side.topic_id(name))


def known(name: str) -> FromSide:
    return FromSide(lambda side, version: side.known[name.replace("{v}", str(version))])


class Keep(NamedTuple):
    """A value of the answer that later requests need, by a name and its path there."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Case:
    """One request in some versions. `{v}` in a text becomes the version: each has its own names."""

    name: str
    api: str
    fields: Mapping[str, Any] | FromSide = field(default_factory=dict)
    since: int = 0
    until: int = 99
    keep: tuple[Keep, ...] = ()

    @property
    def api_key(self) -> int:
        return _KEYS[self.api]

    @property
    def versions(self) -> Sequence[int]:
        """Those of Kafka's that we take."""
        offered = OFFERED[self.api_key]
        first = max(offered.first, self.since, ACCEPTED_FROM.get(self.api_key, 0))
        return range(first, min(offered.last, self.until) + 1)

    @property
    def edges(self) -> list[int]:
        """The first and the last version, and those where the encoding changes."""
        taken, flexible_from = self.versions, APIS[self.api_key].flexible_from or 0
        wanted = {taken[0], flexible_from - 1, flexible_from, taken[-1]}
        return [version for version in taken if version in wanted]

    def message(self, side: Side, version: int) -> ApiMessage:
        made: ApiMessage = _made(api_class(self.api_key, "Request"), self.fields, side, version)
        return made


def _made(kind: Any, value: Any, side: Side, version: int) -> Any:
    if isinstance(value, FromSide):
        return _made(kind, value.get(side, version), side, version)
    if isinstance(value, str):
        return value.replace("{v}", str(version))
    if isinstance(value, Mapping):
        kind = _element(kind)
        hints = typing.get_type_hints(kind.__init__)
        parts = {name: _made(hints[name], each, side, version) for name, each in value.items()}
        return kind(**parts)
    if isinstance(value, list):
        inner = _element(kind)
        return [_made(inner, each, side, version) for each in value]
    return value


def _element(kind: Any) -> Any:
    """The class inside `list[X]`, also where the list may be null."""
    if isinstance(kind, types.UnionType):
        return next(_element(each) for each in typing.get_args(kind) if each is not type(None))
    return typing.get_args(kind)[0] if typing.get_origin(kind) is list else kind


def outcome(side: Side, asked: Case, version: int) -> Outcome:
    answer = side.ask(asked, version)
    if answer is None:
        return CLOSED
    for name, path in asked.keep:
        side.known[name.replace("{v}", str(version))] = _at(answer, path)
    return comparable(side, answer)


def comparable(side: Side, answer: ApiMessage) -> Mapping[str, object]:
    """The answer as a map from path to value, without what two brokers cannot have in common."""
    return dict(_flat("", answer, side))


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value


# Handed out by chance or by the clock: any value that is one is as good as another.
_BY_CHANCE = {
    "session_id": 0,
    "log_append_time_ms": -1,
    "producer_id": -1,
    "port": None,
    "host": None,
    "cluster_id": None,
    "finalized_features_epoch": -1,
    "last_timestamp": -1,
    "transaction_start_time_ms": -1,
    "log_dir": None,
    "total_bytes": None,
    "usable_bytes": None,
}
_MEMBER_IDS = ("member_id", "leader")
# Tagged fields of our own, with the value that leaves them out of the answer.
OUR_TAGS = {"removable_to": -1, "removed_to": -1, "clean_to": -1, "held_from_offset": -1}
_UUID_LENGTH = 36


def _flat(path: str, value: object, side: Side) -> Iterator[tuple[str, object]]:
    if isinstance(value, Struct):
        for field in value.__slots__:
            if field in OUR_TAGS and getattr(value, field) == OUR_TAGS[field]:
                continue
            yield from _flat(f"{path}.{field}".lstrip("."), getattr(value, field), side)
    elif isinstance(value, list):
        # Settings come in an order of each broker's own, and we have some that Kafka has not.
        is_named = path.endswith("configs") or path.endswith("config_resources")
        if not is_named or not value:
            yield f"{path}.size", len(value)
        for index, each in enumerate(value):
            name = getattr(each, "name", getattr(each, "resource_name", index))
            yield from _flat(f"{path}.{name if is_named else index}", each, side)
    else:
        yield path, _comparable(path.rpartition(".")[2], value, side)


def _comparable(name: str, value: object, side: Side) -> object:
    if isinstance(value, memoryview | bytearray):
        value = bytes(value)
    if name == "topic_id" and isinstance(value, bytes):
        named = {ZERO_UUID: "none", NO_ID: "nobody's"} | side.topic_ids
        return named.get(value, "by chance")
    if name.endswith("error_message"):
        return "words" if value else value
    if name in _MEMBER_IDS and isinstance(value, str) and len(value) > _UUID_LENGTH:
        return f"{value[:-_UUID_LENGTH]}uuid"
    if name in _BY_CHANCE and value != _BY_CHANCE[name]:
        return "by chance"
    return value


class Difference(NamedTuple):
    path: str
    kafka: object
    ours: object


def differences(kafka: Outcome, ours: Outcome) -> list[Difference]:
    if isinstance(kafka, str) or isinstance(ours, str):
        return [] if kafka == ours else [Difference("", _short(kafka), _short(ours))]
    paths = [*kafka, *(path for path in ours if path not in kafka)]
    absent = "absent"
    return [
        Difference(path, kafka.get(path, absent), ours.get(path, absent))
        for path in paths
        if kafka.get(path, absent) != ours.get(path, absent)
    ]


def _short(each: Outcome) -> str:
    return each if isinstance(each, str) else "answered"
