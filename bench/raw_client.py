"""A client that costs next to nothing: prepared requests out, answers only counted.

What a broker can do at most is hidden by a client that makes or reads records. This one makes each
request once, with our own codec, and sends the bytes again and again; of an answer it looks at the
size. `call` decodes one answer, so that nobody measures how fast errors come.
"""

import os
import socket
import ssl
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.builder import build_batch

API_VERSIONS_VERSION = 3
CREATE_TOPICS_VERSION = 7
PRODUCE_VERSION = 10  # what librdkafka sends
FETCH_VERSION = 16
RECEIVE_BYTES = 1 << 22
TIMEOUT_S = 30.0
_SIZE = struct.Struct(">i")

A = TypeVar("A", bound=ApiMessage)


class Load(NamedTuple):
    """One batch and the request that carries it."""

    batch_bytes: int
    record_count: int
    frame: bytes


class RawClient:
    """One connection. Requests are made by the functions below it."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, message: ApiMessage, version: int, answer_class: type[A]) -> A:
        """Sends one request and decodes its answer."""
        return self.call_frame(make_frame(message, version), version, answer_class)

    def call_frame(self, frame: bytes, version: int, answer_class: type[A]) -> A:
        self._socket.sendall(frame)
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        data = self._read(size)
        key = answer_class.api_key
        answer = decode_response(key, version, data, response_body_position(key, version, data))
        assert isinstance(answer, answer_class)
        return answer

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            view = view[count:]
        return data

    def exchange(self, frames: Sequence[bytes], *, depth: int) -> int:
        """Sends every frame, at most `depth` of them unanswered; returns the bytes received."""
        sent = min(depth, len(frames))
        self._socket.sendall(b"".join(frames[:sent]))
        buffer = memoryview(bytearray(RECEIVE_BYTES))
        answered = received = 0
        left = 0  # of the answer that is being received
        head = b""
        while answered < len(frames):
            count = self._socket.recv_into(buffer)
            if count == 0:
                raise ConnectionError(f"closed after {answered} of {len(frames)} answers")
            received += count
            done, left, head = count_frames(buffer[:count], left, head)
            if done:
                answered += done
                following = min(answered + depth, len(frames))
                self._socket.sendall(b"".join(frames[sent:following]))
                sent = following
        return received


def count_frames(data: memoryview, left: int, head: bytes) -> tuple[int, int, bytes]:
    """How many frames end in `data`; the bytes left of the next, and its size if that is cut."""
    done = position = 0
    end = len(data)
    while position < end:
        if not left:
            taken = bytes(data[position : position + _SIZE.size - len(head)])
            head += taken
            position += len(taken)
            if len(head) < _SIZE.size:
                break
            (left,) = _SIZE.unpack(head)
            head = b""
        taken_bytes = min(left, end - position)
        left -= taken_bytes
        position += taken_bytes
        done += not left
    return done, left, head


def make_frame(message: ApiMessage, version: int) -> bytes:
    header = encode_request_header(RequestHeader(message.api_key, version, 1, "bench"))
    parts = [bytes(piece) for piece in encode_request(message, version)]  # type: ignore[arg-type]
    body = header + b"".join(parts)
    return _SIZE.pack(len(body)) + body


def ask_versions(client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    client.call(request, API_VERSIONS_VERSION, ApiVersionsResponse)


def create_topic(client: RawClient, name: str, partitions: int = 1) -> bytes:
    """Its topic id."""
    topic = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic])
    answer = client.call(request, CREATE_TOPICS_VERSION, CreateTopicsResponse)
    refused = answer.topics[0].error_code
    if refused:
        raise RuntimeError(f"CreateTopics {name}: error {refused}")
    return answer.topics[0].topic_id


def produce_load(topic: str, batch_bytes: int, value_bytes: int, partition: int = 0) -> Load:
    """A Produce request with one batch of about `batch_bytes`; values do not compress."""
    count = max(1, batch_bytes // (value_bytes + 8))
    values = os.urandom(value_bytes + count)
    now_ms = int(time.time() * 1000)
    batch = build_batch(
        [(now_ms, None, values[number : number + value_bytes], ()) for number in range(count)]
    )
    data = ProducePartitionData(index=partition, records=batch)
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[ProduceTopicData(name=topic, partition_data=[data])],
    )
    return Load(len(batch), count, make_frame(request, PRODUCE_VERSION))


def check_produce(client: RawClient, load: Load) -> None:
    answer = client.call_frame(load.frame, PRODUCE_VERSION, ProduceResponse)
    refused = answer.responses[0].partition_responses[0]
    if refused.error_code:
        raise RuntimeError(f"Produce: error {refused.error_code} {refused.error_message}")


def fetch_frame(topic_id: bytes, offset: int, max_bytes: int, partition: int = 0) -> bytes:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic_id=topic_id, partitions=[asked])],
    )
    return make_frame(request, FETCH_VERSION)


def check_fetch(client: RawClient, frame: bytes, records_bytes: int) -> None:
    """The one partition asked for must answer with exactly as many bytes of records."""
    answer = client.call_frame(frame, FETCH_VERSION, FetchResponse)
    found = answer.responses[0].partitions[0]
    size = len(found.records) if isinstance(found.records, memoryview) else 0
    if found.error_code or size != records_bytes:
        raise RuntimeError(f"Fetch: error {found.error_code}, {size} bytes of {records_bytes}")
