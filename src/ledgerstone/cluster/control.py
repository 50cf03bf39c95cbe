"""How commands talk to the `cluster up` that runs a cluster. Shell.

A socket in the cluster's directory, which only its owner may use. A request is one line of JSON,
`{"do": ...}`; so is the answer, `{"done": {...}}` or `{"error": text}`.
"""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ledgerstone.cluster.directory import CONTROL
from ledgerstone.errors import LedgerstoneError

LONGEST_LINE: Final = 1 << 20
# Longer than a node may take to start or to stop.
TIMEOUT_S: Final = 300.0
# sun_path has 108 bytes on Linux, fewer elsewhere.
_LONGEST_PATH: Final = 100


class NotRunning(LedgerstoneError):
    """No `cluster up` runs this cluster."""


class CommandRefused(LedgerstoneError):
    """The supervisor said no."""


@contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """A name of the socket that is short enough for the system."""
    path = str(directory / CONTROL)
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{CONTROL}"
    finally:
        os.close(descriptor)


def listening_socket(directory: Path) -> socket.socket:
    """The caller holds the directory's lock: a socket that is there is a leftover."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    (directory / CONTROL).unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        with socket_path(directory) as path:
            sock.bind(path)
    finally:
        os.umask(before)
    sock.listen(16)
    return sock


def ask(directory: Path, request: dict[str, Any]) -> dict[str, Any]:
    """The `done` of the answer; NotRunning or CommandRefused otherwise."""
    path = directory.resolve()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.closing(sock):
        sock.settimeout(TIMEOUT_S)
        try:
            with socket_path(path) as name:
                sock.connect(name)
        except OSError as error:
            raise NotRunning(
                f"no cluster runs in {directory}: start it with "
                f"`ledgerstone cluster up --data {directory}` ({error.strerror})"
            ) from error
        return _converse(sock, request)


def _converse(sock: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    try:
        sock.sendall(json.dumps(request).encode() + b"\n")
        with sock.makefile("rb") as lines:
            line = lines.readline(LONGEST_LINE)
        said: dict[str, Any] = json.loads(line) if line else {"error": "the cluster has ended"}
    except (OSError, ValueError) as error:
        raise NotRunning(f"the cluster did not answer: {error}") from error
    if "error" in said:
        raise CommandRefused(said["error"])
    done: dict[str, Any] = said["done"]
    return done
