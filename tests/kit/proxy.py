"""A TCP proxy in front of a broker that misbehaves as a network does, by the dice of a seed.

It cuts the streams into Kafka's frames and knows enough to tell a Produce request. For each of
those it may lose the answer (the broker did the work, the connection breaks before the client hears
of it), lose the request (the broker never sees it), or repeat the request (the broker sees it
twice, the client hears the first answer). Everything else passes. One thread per direction.
"""

import random
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

PRODUCE: Final = 0
BACKLOG: Final = 64


class Fate(Enum):
    """What happens to one request and its answer."""

    PASS = "request and answer pass"
    LOSE_ANSWER = "the answer is lost with the connection"
    LOSE_REQUEST = "the request is lost with the connection"
    REPEAT = "the request is sent twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """Probabilities for a Produce request; what is left over passes."""

    lose_answer: float = 0.0
    lose_request: float = 0.0
    repeat: float = 0.0


@dataclass(slots=True)
class Proxy:
    """Listens from the start, so that its address can be advertised before the broker runs."""

    odds: Odds
    seed: int = 0
    upstream: str = ""
    fates: Counter[Fate] = field(default_factory=Counter)
    _dice: random.Random = field(init=False)
    _listener: socket.socket = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _links: list["_Link"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        # A blocked accept does not notice a close; a shutdown wakes it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            link.end()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def calm(self) -> None:
        """From now on everything passes."""
        self.odds = Odds()

    def draw(self) -> Fate:
        with self._lock:
            number = self._dice.random()
            fate = Fate.PASS
            for candidate, odds in (
                (Fate.LOSE_ANSWER, self.odds.lose_answer),
                (Fate.LOSE_REQUEST, self.odds.lose_request),
                (Fate.REPEAT, self.odds.repeat),
            ):
                if number < odds:
                    fate = candidate
                    break
                number -= odds
            self.fates[fate] += 1
        return fate

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, port = self.upstream.rsplit(":", 1)
            try:
                server = socket.create_connection((host, int(port)), timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self._links.append(_Link(self, client, server))


class _Link:
    """One client connection and the one to the broker that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        # What becomes of the answers that are due, oldest first: the broker answers in order.
        self._due: deque[Fate] = deque()
        self._threads = [
            threading.Thread(target=self._guarded, args=(run,), daemon=True)
            for run in (self._upwards, self._downwards)
        ]
        self._running = len(self._threads)
        self._lock = threading.Lock()
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._break()
        for thread in self._threads:
            thread.join()

    def _break(self) -> None:
        for sock in (self._client, self._server):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The other side was faster.
                continue

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except (OSError, EOFError):
            # A broken connection is what this proxy is for.
            pass
        finally:
            self._break()
            with self._lock:
                self._running -= 1
                last = self._running == 0
            if last:
                self._client.close()
                self._server.close()

    def _upwards(self) -> None:
        while True:
            frame = _read_frame(self._client)
            api_key = struct.unpack_from(">h", frame, 4)[0]
            fate = self._proxy.draw() if api_key == PRODUCE else Fate.PASS
            if fate is Fate.LOSE_REQUEST:
                return
            self._due.append(fate)
            self._server.sendall(frame * 2 if fate is Fate.REPEAT else frame)

    def _downwards(self) -> None:
        while True:
            answer = _read_frame(self._server)
            fate = self._due.popleft()
            if fate is Fate.LOSE_ANSWER:
                return
            self._client.sendall(answer)
            if fate is Fate.REPEAT:
                _read_frame(self._server)


def _read_frame(sock: socket.socket) -> bytes:
    size = _read_exactly(sock, 4)
    return size + _read_exactly(sock, struct.unpack(">i", size)[0])


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    pieces = []
    while count:
        piece = sock.recv(min(count, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
