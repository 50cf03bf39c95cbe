"""TLS over a socket: OpenSSL works on memory, and the bytes are carried here. Grade S.

Of an answer one part at a time is encrypted, and the next one only after the socket has taken all
of it. So what waits inside for a reader that does not read is bounded, whatever the answer's size.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ledgerstone.server.transport import SendFile
from ledgerstone.tls.failures import HandshakeFailed, explained
from ledgerstone.types import Buffer

# Encrypted at a time. Larger ones do not make it faster.
PART_BYTES: Final = 64 << 10
# Received at a time. Twice as fast as with a quarter of it; four times as much gains nothing more,
# and OpenSSL's buffer of a connection stays as large as what it once held.
RECEIVE_BYTES: Final = 128 << 10
MAX_RECORD_BYTES: Final = 16 << 10
# A handshake with a long chain of certificates takes some 10 KiB.
MAX_GREETING_BYTES: Final = 128 << 10
# Before others have their turn; records may bring no data at all, such as new keys.
_RECEIVES: Final = 8
# What the first record of the other side can be.
_ALERT: Final = 21
_HANDSHAKE: Final = 22


class TlsTransport:
    """`Transport`. `room` is only used within a call, so that all of a listener share it."""

    __slots__ = (
        "_ahead",
        "_failure",
        "_greeting_bytes",
        "_incoming",
        "_is_open",
        "_outgoing",
        "_room",
        "_sock",
        "_ssl",
        "_unsent",
    )
    sendfile: SendFile | None = None

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        room: memoryview,
        *,
        server_hostname: str | None = None,
    ) -> None:
        """`server_hostname`: the host that was dialled; None on the side that was."""
        self._sock = sock
        self._room = room
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_hostname is None
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_side=is_server, server_hostname=server_hostname
        )
        self._is_open = False
        self._greeting_bytes = 0
        self._unsent: memoryview | None = None
        # Decrypted to see whether there is more; nearly never.
        self._ahead = b""
        self._failure: OSError | None = None
        if not is_server:
            self._shake_hands()

    # -- what the loop asks -------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self._unsent is not None or not self._is_open or self.pending > 0

    @property
    def pending(self) -> int:
        if not self._is_open:
            return 0
        # A failure has to be met: the socket says nothing of it.
        return len(self._ahead) or self._ssl.pending() or int(self._failure is not None)

    @property
    def wants_read(self) -> bool:
        return not self._is_open

    @property
    def wants_write(self) -> bool:
        return self._unsent is not None

    @property
    def held_bytes(self) -> int:
        return 0 if self._unsent is None else len(self._unsent)

    @property
    def certificate(self) -> bytes | None:
        """In DER: of the other side, verified; None if it has shown none."""
        return self._ssl.getpeercert(binary_form=True) if self._is_open else None

    @property
    def version_and_cipher(self) -> tuple[str, str]:
        cipher = self._ssl.cipher()
        return self._ssl.version() or "", "" if cipher is None else cipher[0]

    # -- receiving ----------------------------------------------------------------------------

    def recv_into(self, room: memoryview, /) -> int:
        if self._failure is not None:
            raise self._failure
        if not self._is_open:
            raise BlockingIOError
        filled = self._take_ahead(room)
        for _ in range(_RECEIVES):
            filled = self._decrypt(room, filled)
            if filled == len(room):
                self._look_ahead()
                return filled
            if self._has_ended:
                return filled
            try:
                count = self._sock.recv_into(self._room)
            except (BlockingIOError, InterruptedError):
                break
            if count:
                self._incoming.write(self._room[:count])
            else:
                self._incoming.write_eof()
        else:
            filled = self._decrypt(room, filled)
            self._look_ahead()
        self._flush()
        if not filled and not self._has_ended:
            raise BlockingIOError
        return filled

    @property
    def _has_ended(self) -> bool:
        return self._failure is not None

    def _decrypt(self, room: memoryview, filled: int) -> int:
        """How much of the room is filled now. At the end of the stream there is a failure, too."""
        read: Callable[[int, memoryview], int] = self._ssl.read  # type: ignore[assignment]
        size = len(room)
        try:
            while filled < size:
                # One record at most; none after the other side's goodbye.
                count = read(size - filled, room[filled:])
                if not count:
                    self._failure = _ended()
                    break
                filled += count
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._failure = _ended()
        except ssl.SSLError as error:
            self._flush()
            raise ConnectionResetError(explained(error)) from error
        return filled

    def _take_ahead(self, room: memoryview) -> int:
        taken = min(len(self._ahead), len(room))
        if taken:
            room[:taken] = self._ahead[:taken]
            self._ahead = self._ahead[taken:]
        return taken

    def _look_ahead(self) -> None:
        """Whether a whole record is left of what was received can only be seen by reading it."""
        if self._ahead or self._ssl.pending() or not self._incoming.pending:
            return
        try:
            self._ahead = self._ssl.read(MAX_RECORD_BYTES)
            if not self._ahead:
                self._failure = _ended()
        except ssl.SSLWantReadError:
            return
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._failure = _ended()
        except ssl.SSLError as error:
            self._failure = ConnectionResetError(explained(error))

    # -- sending ------------------------------------------------------------------------------

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        if not self._is_open or not self._flush():
            raise BlockingIOError
        view = memoryview(data)
        size = len(view)
        for begin in range(0, size, PART_BYTES):
            part = view[begin : begin + PART_BYTES]
            self._ssl.write(part)
            if not self._flush(flags):
                return begin + len(part)
        return size

    def _flush(self, flags: int = 0) -> bool:
        """Whether all of it has left."""
        if self._unsent is None:
            if not self._outgoing.pending:
                return True
            self._unsent = memoryview(self._outgoing.read())
        try:
            while True:
                sent = self._sock.send(self._unsent, flags)
                if sent < len(self._unsent):
                    self._unsent = self._unsent[sent:]
                elif not self._outgoing.pending:
                    self._unsent = None
                    return True
                else:
                    self._unsent = memoryview(self._outgoing.read())
        except (BlockingIOError, InterruptedError):
            return False

    # -- handshake ----------------------------------------------------------------------------

    def advance(self) -> None:
        self._flush()
        if self._is_open:
            return
        try:
            count = self._sock.recv_into(self._room[:MAX_RECORD_BYTES])
        except (BlockingIOError, InterruptedError):
            return
        if count == 0:
            raise ConnectionResetError("the other side has left during the handshake")
        received = self._room[:count]
        if not self._greeting_bytes and received[0] not in (_HANDSHAKE, _ALERT):
            raise HandshakeFailed("it speaks no TLS")
        self._greeting_bytes += count
        if self._greeting_bytes > MAX_GREETING_BYTES:
            raise HandshakeFailed(f"the handshake took more than {MAX_GREETING_BYTES} bytes")
        self._incoming.write(received)
        self._shake_hands()

    def _shake_hands(self) -> None:
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            # The alert has to leave: without it the other side tries again for a minute.
            self._flush()
            raise HandshakeFailed(explained(error)) from error
        self._is_open = True
        self._flush()
        # A request may have come with the end of the handshake.
        self._look_ahead()

    def close(self) -> None:
        """Says goodbye, and does not wait for an answer."""
        if self._is_open and self._unsent is None:
            with contextlib.suppress(ssl.SSLError):
                self._ssl.unwrap()
        with contextlib.suppress(OSError):
            self._flush()
        self._sock.close()


def _ended() -> OSError:
    return ConnectionResetError("the other side has ended the connection")
