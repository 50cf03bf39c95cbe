"""A port in front of a broker's that writes down the head of every request that goes through it.

What a browser sends is what proxies and access logs would keep: the request line, and the headers.
"""

import contextlib
import socket
import threading
from types import TracebackType

_PIECE = 65_536


class RecordingProxy:
    """Use it as a context; `heads` has one text for each request so far."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.heads: list[str] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "RecordingProxy":
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def _start(self, work: object, *about: socket.socket) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=about)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._server.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open += [near, far]
                self._start(self._requests, near, far)
                self._start(self._answers, far, near)

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        """One request on each connection, as the broker serves them; the rest is its body."""
        data = b""
        with contextlib.suppress(OSError):
            while b"\r\n\r\n" not in data:
                piece = near.recv(_PIECE)
                if not piece:
                    return
                data += piece
            self.heads.append(data.partition(b"\r\n\r\n")[0].decode("latin-1"))
            far.sendall(data)
            while piece := near.recv(_PIECE):
                far.sendall(piece)

    def _answers(self, far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := far.recv(_PIECE):
                near.sendall(piece)
            near.shutdown(socket.SHUT_RDWR)
