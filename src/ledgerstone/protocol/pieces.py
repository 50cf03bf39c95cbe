"""What an encoded message is made of: bytes, and things that are sent by reference. Pure.

A Fetch response refers to slices of files; reading them here would defeat sendfile. So encoding
returns a list of pieces, and the sender decides how to send each.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from ledgerstone.types import Buffer

# Below this size a copy is cheaper than one more entry in the socket's list.
JOIN_BELOW_BYTES: Final = 8192
_BUFFERS: Final = (bytes, bytearray, memoryview)


class Sendable(Protocol):
    """Bytes sent from where they are: a slice of a file."""

    @property
    def size(self) -> int: ...


Piece = Buffer | Sendable
Payload = Buffer | Sendable | list[Piece]
# A records field. Decoding gives a memoryview into the frame; encoding takes any of these.
Records = Payload | None


def piece_size(piece: Piece) -> int:
    return len(piece) if isinstance(piece, _BUFFERS) else piece.size


def total_size(pieces: Iterable[Piece]) -> int:
    total = 0
    for piece in pieces:
        # `piece_size`, written out: every answer comes here.
        total += len(piece) if isinstance(piece, _BUFFERS) else piece.size
    return total


def payload_size(payload: Payload) -> int:
    return total_size(payload) if isinstance(payload, list) else piece_size(payload)


def add_payload(parts: list[Piece], payload: Payload) -> None:
    if isinstance(payload, list):
        parts.extend(payload)
    else:
        parts.append(payload)


def join_pieces(parts: Iterable[Piece]) -> list[Piece]:
    """The same bytes in as few pieces as possible: neighbours are joined unless they are large."""
    pieces: list[Piece] = []
    small: list[Buffer] = []
    for part in parts:
        if isinstance(part, _BUFFERS):
            if len(part) < JOIN_BELOW_BYTES:
                small.append(part)
                continue
        elif part.size == 0:
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(part)
    if small:
        pieces.append(b"".join(small))
    return pieces
