"""Bytes and slices of log files into a transport. Grade S; how answers leave, see README.md.

A large slice leaves with sendfile and is never copied here, unless the transport has to change its
bytes; then it is copied bit by bit. A small one is always copied, because header, slice and tail
then leave in one call: three calls cost more than the copy, and a reader that waits for the end of
its answer would be woken for each of its parts.
"""

import errno
import socket
from collections import deque
from contextlib import suppress
from typing import Final

from ledgerstone.fs import FileSlice
from ledgerstone.protocol.pieces import Piece, piece_size
from ledgerstone.server.transport import Transport
from ledgerstone.types import Buffer

WOULD_BLOCK: Final = (BlockingIOError, InterruptedError)
SENDFILE_BYTES: Final = 1 << 22
# A slice up to this size is copied, and of all that leaves together so much at most.
COPIED_BYTES: Final = 16 << 10
GATHERED_BYTES: Final = 64 << 10
# Where the kernel cannot send a slice: how much of it is copied at a time.
CHUNK_BYTES: Final = 128 << 10
_BUFFERS: Final = (bytes, bytearray, memoryview)
_UNPACED: Final = b"reno"


def prepare(sock: socket.socket, peer: object) -> None:
    """A socket that was accepted, for the way answers are sent here."""
    sock.setblocking(False)
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # Set here: asyncio does so only for sockets it made itself.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    is_local = isinstance(peer, tuple) and sock.getsockname()[0] == peer[0]
    if is_local and hasattr(socket, "TCP_CONGESTION"):
        # BBR, the default of some systems, paces what it sends by timers. Between two processes of
        # one machine there is no line to be spared, and both pay for the timers in CPU.
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)


def send_unsent(transport: Transport, unsent: deque[Piece]) -> None:
    """Takes from the front what the transport takes. OSError: the connection is lost."""
    try:
        while unsent and _send_front(transport, unsent):
            pass
    except WOULD_BLOCK:
        return


def held_bytes(unsent: deque[Piece]) -> int:
    """What waits in memory; slices of files wait in their files. A part that was taken stays until
    the rest was taken too."""
    held = 0
    for piece in unsent:
        if isinstance(piece, memoryview):
            held += memoryview(piece.obj).nbytes
        elif isinstance(piece, bytes | bytearray):
            held += len(piece)
    return held


def _send_front(transport: Transport, unsent: deque[Piece]) -> bool:
    """False when only a part was taken: the socket is full, and says so when it has room again."""
    front = unsent[0]
    if isinstance(front, FileSlice) and front.size > COPIED_BYTES:
        sent, wanted = _send_slice(transport, front)
    else:
        data, count = _gathered(unsent)
        wanted = len(data)
        # What follows at once may share the packet: a fetch answer is a header and a file slice.
        sent = transport.send(data, socket.MSG_MORE if count < len(unsent) else 0)
    _take_off(unsent, sent)
    return sent == wanted


def _gathered(unsent: deque[Piece]) -> tuple[Buffer, int]:
    """The small pieces at the front as one, and how many they are; a large buffer alone.

    What the socket does not take of it stays where it was, so that no copy waits for a reader."""
    parts: list[Buffer] = []
    room = GATHERED_BYTES
    for piece in unsent:
        size = len(piece) if type(piece) is bytes else piece_size(piece)
        if isinstance(piece, FileSlice):
            if size > min(room, COPIED_BYTES):
                break
            parts.append(_copied(piece))
        else:
            assert isinstance(piece, _BUFFERS)
            if size > room and parts:
                break
            parts.append(piece)
        room -= size
        if room <= 0:
            break
    return (parts[0] if len(parts) == 1 else b"".join(parts)), len(parts)


def _copied(piece: FileSlice) -> bytes:
    data = piece.read()
    if len(data) < piece.size:
        raise _too_short(piece)
    return data


def _send_slice(transport: Transport, piece: FileSlice) -> tuple[int, int]:
    """How many bytes were taken, and of how many."""
    descriptor, sendfile = piece.file.fileno(), transport.sendfile
    if sendfile is None or descriptor < 0:
        if transport.wants_write:
            raise BlockingIOError
        # What is not taken is copied again later, so that no copy waits for a reader.
        chunk = _copied(FileSlice(piece.file, piece.position, min(piece.size, CHUNK_BYTES)))
        return transport.send(chunk, 0), len(chunk)
    wanted = min(piece.size, SENDFILE_BYTES)
    sent = sendfile(descriptor, piece.position, wanted)
    if sent == 0:
        raise _too_short(piece)
    return sent, wanted


def _too_short(piece: FileSlice) -> OSError:
    """The file ends before the slice does: the reader must not take less for all."""
    reason = f"a log file ends before {piece.position + piece.size}, where a slice of it does"
    return OSError(errno.EIO, reason)


def _take_off(unsent: deque[Piece], sent: int) -> None:
    while unsent:
        front = unsent[0]
        size = len(front) if type(front) is bytes else piece_size(front)
        if size > sent:
            break
        sent -= size
        unsent.popleft()
    if not sent:
        return
    front = unsent[0]
    if isinstance(front, FileSlice):
        unsent[0] = FileSlice(front.file, front.position + sent, front.size - sent)
    else:
        assert isinstance(front, _BUFFERS)
        unsent[0] = memoryview(front)[sent:]
