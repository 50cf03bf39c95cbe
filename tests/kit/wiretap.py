"""Wires between nodes on the loopback: each can be listened to, cut and healed.

A wire is a port that passes everything on to another one. A cut wire keeps its connections and
passes nothing, as a network does that drops packets; bytes wait and arrive after the healing. One
thread serves all wires.
"""

import contextlib
import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

READ_BYTES: Final = 1 << 16
MAX_WAITING: Final = 1 << 20
POLL_S: Final = 0.02


class HeardRequest(NamedTuple):
    api_key: int
    api_version: int
    # With its header.
    frame: bytes


@dataclass(eq=False, slots=True)
class _Pipe:
    """One direction of a connection."""

    source: socket.socket
    target: socket.socket
    wire: "Wire"
    is_request: bool
    waiting: deque[bytes] = field(default_factory=deque)
    heard: bytearray = field(default_factory=bytearray)
    is_ended: bool = False


@dataclass(eq=False, slots=True)
class Wire:
    upstream_port: int
    port: int = 0
    is_cut: bool = False
    # Called on the thread of the wires.
    on_request: Callable[[HeardRequest], None] | None = None
    _listener: socket.socket | None = None


class Wires:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._pipes: set[_Pipe] = set()
        self._is_closing = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="wires", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Wires":
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing.set()
        self._thread.join()

    def add(
        self, upstream_port: int, on_request: Callable[[HeardRequest], None] | None = None
    ) -> Wire:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        listener.setblocking(False)
        wire = Wire(upstream_port, listener.getsockname()[1], False, on_request, listener)
        with self._lock:
            self._selector.register(listener, selectors.EVENT_READ, wire)
        return wire

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closing.is_set():
            with self._lock:
                events = self._selector.select(POLL_S)
                for key, _ in events:
                    if isinstance(key.data, Wire):
                        self._accept(key.data)
                    elif key.data is not None:
                        self._read(key.data)
                for pipe in list(self._pipes):
                    self._write(pipe)
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        for pipe in self._pipes:
            pipe.source.close()
            pipe.target.close()
        self._selector.close()

    def _accept(self, wire: Wire) -> None:
        assert wire._listener is not None
        client, _ = wire._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", wire.upstream_port), 1.0)
        except OSError:
            client.close()
            return
        for each in (client, server):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pipe in (_Pipe(client, server, wire, True), _Pipe(server, client, wire, False)):
            self._pipes.add(pipe)
            self._selector.register(pipe.source, selectors.EVENT_READ, pipe)

    def _read(self, pipe: _Pipe) -> None:
        if sum(map(len, pipe.waiting)) > MAX_WAITING:
            return
        try:
            data = pipe.source.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(pipe.source)
            pipe.is_ended = True
            return
        pipe.waiting.append(data)
        if pipe.is_request and pipe.wire.on_request is not None:
            pipe.heard += data
            self._listen(pipe, pipe.wire.on_request)

    def _listen(self, pipe: _Pipe, on_request: Callable[[HeardRequest], None]) -> None:
        while len(pipe.heard) >= 8:
            size, api_key, version = struct.unpack_from(">ihh", pipe.heard)
            if len(pipe.heard) < 4 + size:
                return
            on_request(HeardRequest(api_key, version, bytes(pipe.heard[4 : 4 + size])))
            del pipe.heard[: 4 + size]

    def _write(self, pipe: _Pipe) -> None:
        if pipe.wire.is_cut:
            return
        try:
            while pipe.waiting:
                sent = pipe.target.send(pipe.waiting[0])
                rest = pipe.waiting.popleft()[sent:]
                if rest:
                    pipe.waiting.appendleft(rest)
        except BlockingIOError:
            return
        except OSError:
            pipe.waiting.clear()
            pipe.is_ended = True
        if pipe.is_ended and not pipe.waiting:
            self._end(pipe)

    def _end(self, pipe: _Pipe) -> None:
        """Half-closed connections are not kept: nobody here uses them."""
        for each in [each for each in self._pipes if each.source in (pipe.source, pipe.target)]:
            self._pipes.discard(each)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(each.source)
            each.source.close()
