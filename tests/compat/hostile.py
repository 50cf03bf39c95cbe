"""A blocking socket that may misbehave, and what the broker's process costs meanwhile."""

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from ledgerstone.protocol.message import ApiMessage
from tests.kit.broker import BrokerProcess
from tests.kit.in_process import frame_of, newest_version

KIB = 1024
MIB = 1024 * KIB
TIMEOUT_S = 10.0
# Others are being served as long as they wait less than this; a loaded machine takes its time.
PATIENCE_S = 5.0
# Fatal, handshake_failure: the answer to a TLS client on a plaintext port.
TLS_ALERT = bytes.fromhex("15 0303 0002 02 28")


@dataclass(slots=True)
class Socket:
    """Blocking, with a deadline on everything; a deadline that passes fails the test."""

    raw: socket.socket
    sent: int = 0
    _rest: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> "Socket":
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.raw.close()

    def ask(self, message: ApiMessage, version: int | None = None) -> bytes:
        self.send(message, version)
        return self.frame()

    def send(self, message: ApiMessage, version: int | None = None) -> None:
        number = newest_version(message) if version is None else version
        self.raw.sendall(frame_of(message, number, self.sent))
        self.sent += 1

    def send_at_most(self, data: bytes) -> None:
        """What the network takes without waiting for the broker to read."""
        self.raw.setblocking(False)
        try:
            while data:
                data = data[self.raw.send(data) :]
        except BlockingIOError:
            pass
        self.raw.settimeout(TIMEOUT_S)

    def frame(self) -> bytes:
        """The next answer without its size; empty once the broker has closed."""
        head = self._exactly(4)
        return self._exactly(int.from_bytes(head, "big")) if len(head) == 4 else b""

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            try:
                data = self.raw.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return b""
            self._rest += data
        taken = bytes(self._rest[:size])
        del self._rest[:size]
        return taken

    def is_closed(self) -> bool:
        """Waits for the end of the stream; False if there is an answer instead.

        A TLS alert is none: it only says in another protocol that this one is not understood."""
        try:
            said = self.raw.recv(1)
            return said == b"" or (said == TLS_ALERT[:1] and self._is_tls_alert())
        except ConnectionResetError:
            return True

    def _is_tls_alert(self) -> bool:
        rest = b"".join(iter(lambda: self.raw.recv(64), b""))
        return rest == TLS_ALERT[1:]


def connect(broker: BrokerProcess, *, receive_bytes: int | None = None) -> Socket:
    host, _, port = broker.bootstrap.rpartition(":")
    raw = socket.socket()
    raw.settimeout(TIMEOUT_S)
    if receive_bytes is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    raw.connect((host, int(port)))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Socket(raw)


def _status_kib(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise AssertionError(f"{name} is not in /proc/{pid}/status")


def rss_bytes(broker: BrokerProcess) -> int:
    return _status_kib(broker.pid, "VmRSS") * KIB


def forget_peak(broker: BrokerProcess) -> None:
    Path(f"/proc/{broker.pid}/clear_refs").write_text("5", encoding="ascii")


def peak_bytes(broker: BrokerProcess) -> int:
    """The most the process has held since `forget_peak`."""
    return _status_kib(broker.pid, "VmHWM") * KIB


def cpu_seconds(broker: BrokerProcess) -> float:
    text = Path(f"/proc/{broker.pid}/stat").read_text(encoding="ascii")
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))
