"""The peers that a broker is measured against, each in its own process.

`mock_cluster`: the broker that librdkafka has inside for its tests, in C, in memory.
`bare_sink`: takes requests, writes them to a file with their CRC-32C computed, answers a constant.
`bare_source`: answers each request with the next piece of a file, sent with sendfile.
"""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from crc32c import crc32c

from bench.broker_process import cpu_seconds
from bench.raw_client import count_frames
from ledgerstone.server.sending import prepare

RECEIVE_BYTES = 1 << 20
START_TIMEOUT_S = 30.0
_SIZE = struct.Struct(">i")


class Peer(NamedTuple):
    pid: int
    host: str
    port: int

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def cpu_s(self) -> float:
        return cpu_seconds(self.pid)


@contextmanager
def _process(target: Callable[..., None], *arguments: object) -> Iterator[Peer]:
    """Runs `target(pipe, *arguments)`, which sends its port, and ends when the block does."""
    # Not forked: the parent may have librdkafka's threads.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(START_TIMEOUT_S):
            raise RuntimeError(f"{target.__name__} did not start in {START_TIMEOUT_S} s")
        assert process.pid is not None
        yield Peer(process.pid, "127.0.0.1", ours.recv())
    finally:
        process.kill()
        process.join()


def mock_cluster() -> AbstractContextManager[Peer]:
    return _process(_run_mock)


def bare_sink(path: Path, answer_bytes: int) -> AbstractContextManager[Peer]:
    return _process(_run_sink, path, answer_bytes)


def bare_source(path: Path, answer_bytes: int) -> AbstractContextManager[Peer]:
    return _process(_run_source, path, answer_bytes)


def _run_mock(pipe: Connection) -> None:
    settings = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 3}
    producer = Producer(settings)
    (broker,) = producer.list_topics(timeout=START_TIMEOUT_S).brokers.values()
    pipe.send(broker.port)
    pipe.poll(None)


def _run_sink(pipe: Connection, path: Path, answer_bytes: int) -> None:
    answer = _SIZE.pack(answer_bytes - _SIZE.size) + bytes(answer_bytes - _SIZE.size)
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for client in _clients(pipe):
        position = left = 0
        head = b""
        while count := client.recv_into(buffer):
            data = buffer[:count]
            crc32c(data)
            position += os.pwrite(file, data, position)
            done, left, head = count_frames(data, left, head)
            client.sendall(answer * done)


def _run_source(pipe: Connection, path: Path, answer_bytes: int) -> None:
    prefix = _SIZE.pack(answer_bytes)
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    for client in _clients(pipe):
        position = left = 0
        head = b""
        while count := client.recv_into(buffer):
            done, left, head = count_frames(buffer[:count], left, head)
            for _ in range(done):
                if position + answer_bytes > size:
                    position = 0
                client.sendall(prefix, socket.MSG_MORE)
                _send_file(client, file, position, answer_bytes)
                position += answer_bytes


def _send_file(client: socket.socket, file: int, position: int, size: int) -> None:
    while size:
        sent = os.sendfile(client.fileno(), file, position, size)
        position += sent
        size -= sent


def _clients(pipe: Connection) -> Iterator[socket.socket]:
    """One after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        while True:
            client, address = listener.accept()
            # As the broker sets it: what is compared is the work, not the congestion control.
            prepare(client, address)
            client.setblocking(True)
            with client:
                yield client
