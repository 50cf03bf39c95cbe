"""Ports of this machine: which are free, and keeping them. Shell.

A held port is bound but not listened on. A node binds it as well (both sockets have SO_REUSEADDR)
and listens; other programs, the system's own choice of ports and a second `cluster up` pass it by
even while the node is down.
"""

import contextlib
import socket


def is_free(host: str, port: int) -> bool:
    with _socket(host) as sock:
        try:
            sock.bind((host, port))
        except (OSError, OverflowError):
            return False
    return True


class HeldPorts:
    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def hold(self, host: str, port: int) -> None:
        """Does nothing if something else has it: the node will say so when it starts."""
        sock = _socket(host)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            sock.bind((host, port))
        self._sockets.append(sock)

    def take(self, host: str) -> int:
        """Any free port, held from now on."""
        sock = _socket(host)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, 0))
        self._sockets.append(sock)
        port: int = sock.getsockname()[1]
        return port

    def release(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
