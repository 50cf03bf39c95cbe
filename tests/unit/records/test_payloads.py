"""Payloads brought into reach: which batches fit into an arena, and what of them comes back."""

import numpy as np
import pytest

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.records.batch import HEADER_SIZE, Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import Arena, BatchAction, scan
from ledgerstone.records.kernels.scratch import Pile
from ledgerstone.records.lz4_frame import USUAL_BLOCK_BYTES

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def _batch(base_offset: int, size: int, codec: Codec) -> bytes:
    value = (b"%d " % base_offset) * size
    return bytes(build_batch([(1, b"k", value[:size], ())], codec=codec, base_offset=base_offset))


def _opened(window: bytes, arena: Arena, *, payload_limit: int = 1 << 20) -> list[bytes]:
    """The payloads of all batches, piece after piece."""
    batches = scan(window)
    found: list[bytes] = []
    first = 0
    while first < len(batches):
        piece = arena.open(
            window,
            batches,
            np.zeros(len(batches), np.uint8),
            first=first,
            payload_limit=payload_limit,
            has_compressed=True,
        )
        assert piece.end > first
        reach = window + piece.arena[: piece.arena_used].tobytes()
        spans = zip(batches.payload_start.tolist(), batches.payload_end.tolist(), strict=True)
        found += [reach[start:end] for start, end in list(spans)[first : piece.end]]
        first = piece.end
    return found


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize(
    "limit", [1, 100, 70_000, USUAL_BLOCK_BYTES, 3 * USUAL_BLOCK_BYTES, 1 << 20]
)
def test_every_payload_comes_whole_however_small_the_arena(codec: Codec, limit: int) -> None:
    sizes = [10, 65_000, 200_000, 5, 64_000, 65_536, 1]
    window = b"".join(_batch(at, size, codec) for at, size in enumerate(sizes))
    plain = [_batch(at, size, Codec.NONE)[HEADER_SIZE:] for at, size in enumerate(sizes)]

    assert _opened(window, Arena(limit)) == plain


@pytest.mark.parametrize("codec", COMPRESSED)
def test_payload_above_the_limit_of_one_is_refused(codec: Codec) -> None:
    window = _batch(0, 1000, codec)

    with pytest.raises(MessageTooLarge):
        _opened(window, Arena(1 << 20), payload_limit=999)


def test_damaged_block_is_refused_and_the_arena_goes_on() -> None:
    good, arena = _batch(0, 1000, Codec.LZ4), Arena(1 << 20)
    bad = bytearray(good)
    # From the block's first bytes on.
    bad[HEADER_SIZE + 11 : HEADER_SIZE + 40] = b"\xff" * 29

    with pytest.raises(CorruptRecord, match="lz4"):
        _opened(bytes(bad), arena)

    assert _opened(good, arena) == [_batch(0, 1000, Codec.NONE)[HEADER_SIZE:]]


def test_discarded_batch_is_not_opened() -> None:
    window = _batch(0, 100, Codec.LZ4) + _batch(1, 100, Codec.ZSTD) + _batch(2, 100, Codec.LZ4)
    batches, actions = scan(window), np.zeros(3, np.uint8)
    actions[:2] = BatchAction.DISCARD

    piece = Arena(1 << 20).open(
        window, batches, actions, first=0, payload_limit=1 << 20, has_compressed=True
    )

    assert piece.end == 3
    assert piece.arena_used == len(_batch(2, 100, Codec.NONE)) - HEADER_SIZE


def test_pile_grows_and_starts_anew_in_the_same_memory() -> None:
    pile = Pile()
    pieces: list[bytes | memoryview] = [b"a", b"", b"bc" * 100, memoryview(b"d" * 5000)]

    for piece in pieces:
        pile.add(piece)
    first = bytes(pile.view)
    pile.clear()
    pile.add(b"again")

    assert first == b"".join(pieces)
    assert bytes(pile.view) == b"again"
