"""The payloads of a window's batches in reach of a kernel, compressed ones decompressed. Pure.

An `Arena` is memory for decompressed payloads that is used again and again: fresh memory costs more
than filling it. Spans are the virtual positions of `walk`, over the window and then the arena.
"""

from typing import Final, NamedTuple

import numpy as np

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.records.batch import CODEC_MASK, Codec, read_header
from ledgerstone.records.compression import Codecs
from ledgerstone.records.kernels.rewriting import BatchAction
from ledgerstone.records.kernels.windows import MIN_RECORD_SIZE, Batches, Bytes
from ledgerstone.records.lz4_frame import USUAL_BLOCK_BYTES, read_usual
from ledgerstone.types import Buffer

_CODECS: Final = tuple(Codec)
_LZ4: Final = int(Codec.LZ4)


class Payloads(NamedTuple):
    """The batches [first, end) of a window; good until the arena is used again."""

    buffer: Buffer
    arena: Bytes
    arena_used: int
    batches: Batches
    first: int
    end: int


class Arena:
    """Decompressed payloads, at most `limit_bytes` of them unless a single one has more."""

    __slots__ = ("_codecs", "_limit_bytes", "_memory")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._codecs = Codecs()
        self._memory: Bytes = np.empty(0, np.uint8)

    def open(
        self,
        buffer: Buffer,
        batches: Batches,
        actions: Bytes,
        *,
        first: int,
        payload_limit: int,
        has_compressed: bool,
    ) -> Payloads:
        """The batches from `first` on, as many as fit. DISCARDed ones are left as they are."""
        end, used = len(batches), 0
        if has_compressed:
            end, used = self._decompress(buffer, batches, actions, first, payload_limit)
        return Payloads(buffer, self._memory, used, batches, first, end)

    def _decompress(
        self, buffer: Buffer, batches: Batches, actions: Bytes, first: int, payload_limit: int
    ) -> tuple[int, int]:
        """(first batch that does not fit, bytes used)."""
        view = memoryview(buffer).cast("B")
        split, used = len(view), 0
        codecs = batches.attributes & CODEC_MASK
        # An emptied batch has no stream to open, but its codec must be one all the same.
        compressed = (codecs != 0) & ((batches.record_count > 0) | (codecs > Codec.ZSTD))
        compressed &= (actions[: len(batches)] & BatchAction.DISCARD) == 0
        indexes = first + np.flatnonzero(compressed[first:])
        columns = (codecs, batches.payload_start, batches.payload_end)
        rows = zip(indexes.tolist(), *(column[indexes].tolist() for column in columns), strict=True)
        block_limit = min(self._limit_bytes, payload_limit) - USUAL_BLOCK_BYTES
        for index, number, start, end in rows:
            size = None
            if number == _LZ4 and used <= block_limit:
                # Straight to where it goes, if it is a frame like nearly all others.
                room = self._room(used, used + USUAL_BLOCK_BYTES)
                size = read_usual(view[start:end], room)
            elif number > Codec.ZSTD:
                # Refuses it.
                read_header(view, int(batches.position[index])).codec  # noqa: B018
            if size is None:
                # What is alone may be larger: there is no way to have less of it.
                allowance = self._limit_bytes - used if used else payload_limit
                try:
                    payload = self._codecs.peek(
                        _CODECS[number], view[start:end], limit=max(allowance, 0)
                    )
                except MessageTooLarge:
                    if not used:
                        raise
                    return index, used
                size = len(payload)
                self._room(used, used + size)[:] = payload
            batches.payload_start[index] = split + used
            used += size
            batches.payload_end[index] = split + used
        return len(batches), used

    def _room(self, used: int, end: int) -> memoryview:
        """The bytes from `used` to `end`, behind those that are used."""
        if end > len(self._memory):
            larger = np.empty(max(end, min(2 * len(self._memory), self._limit_bytes)), np.uint8)
            larger[:used] = self._memory[:used]
            self._memory = larger
        return self._memory.data[used:end]


def check_declared_counts(payloads: Payloads, actions: Bytes) -> None:
    """Every record that is declared is backed by bytes that are there."""
    batches = payloads.batches
    size = batches.payload_end - batches.payload_start
    bad = batches.record_count * MIN_RECORD_SIZE > size
    bad &= (actions[: len(batches)] & BatchAction.DISCARD) == 0
    bad[: payloads.first] = False
    bad[payloads.end :] = False
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise CorruptRecord(
            f"batch at offset {batches.base_offset[index]}: {batches.record_count[index]} records "
            f"cannot be in {size[index]} bytes"
        )
