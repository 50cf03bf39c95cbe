"""The five codecs: Kafka's framing on the way out, a bound on the size on the way in.

Grade P. A stream is abandoned once it passes `limit`; declared sizes are checked, never trusted.
Malformed bytes are CorruptRecord, too many are MessageTooLarge. The framings and the arithmetic of
the limit are in README.md. Each codec has a module of its own, imported with its first batch: their
libraries take 3 MB of every process that loads them.
"""

from typing import TYPE_CHECKING, Final

from ledgerstone.records.batch import Codec
from ledgerstone.types import Buffer

if TYPE_CHECKING:
    from ledgerstone.records.lz4_frame import Lz4FrameReader
    from ledgerstone.records.zstd_frame import ZstdFrames

_MIB: Final = 2**20
# Bound once: an enum lookup per batch would be slow.
_LZ4: Final = Codec.LZ4
_ZSTD: Final = Codec.ZSTD

# A bytearray that grows holds an eighth more than it needs and lz4 and zstd keep up to 8 MiB of
# their own, so 48 MiB of output fit into the 64 MiB that no bomb may exceed.
DEFAULT_DECOMPRESSION_LIMIT: Final = 48 * _MIB
# Of batches in a log: they were taken, perhaps when `max.message.bytes` was larger than it is now.
# A limit is there all the same, because a directory may come from elsewhere.
STORED_LIMIT: Final = 512 * _MIB


class Codecs:
    """Compresses and decompresses; keeps library objects that are worth reusing between batches.
    Cheap to make. One thread at a time."""

    __slots__ = ("_lz4_reader", "_zstd")

    def __init__(self) -> None:
        self._lz4_reader: Lz4FrameReader | None = None
        self._zstd: ZstdFrames | None = None

    def compress(self, codec: Codec, payload: Buffer, level: int | None = None) -> Buffer:
        """`level` is one of Kafka's for the codec; None is the codec's default."""
        if codec is _LZ4:
            from ledgerstone.records.lz4_frame import write_frame

            return write_frame(payload, level)
        if codec is _ZSTD:
            return (self._zstd or self._make_zstd()).write(payload, level)
        if codec is Codec.NONE:
            return payload
        if codec is Codec.GZIP:
            from ledgerstone.records.gzip_stream import compress_gzip

            return compress_gzip(payload, level)
        from ledgerstone.records.snappy_stream import compress_xerial

        return compress_xerial(payload)

    def decompress(self, codec: Codec, payload: Buffer, *, limit: int) -> Buffer:
        """At most `limit` bytes; the payload itself, not a copy, if it is not compressed."""
        opened = self.peek(codec, payload, limit=limit)
        return bytes(opened) if codec is _LZ4 and isinstance(opened, memoryview) else opened

    def peek(self, codec: Codec, payload: Buffer, *, limit: int) -> Buffer:
        """The same, but valid only until the next call: it may be in reused memory."""
        if codec is _LZ4:
            return (self._lz4_reader or self._make_lz4_reader()).read(memoryview(payload), limit)
        if codec is _ZSTD:
            return (self._zstd or self._make_zstd()).read(memoryview(payload), limit)
        if codec is Codec.NONE:
            return payload
        if codec is Codec.GZIP:
            from ledgerstone.records.gzip_stream import decompress_gzip

            return decompress_gzip(payload, limit)
        from ledgerstone.records.snappy_stream import decompress_snappy

        return decompress_snappy(memoryview(payload), limit)

    def _make_lz4_reader(self) -> "Lz4FrameReader":
        from ledgerstone.records.lz4_frame import Lz4FrameReader

        self._lz4_reader = Lz4FrameReader()
        return self._lz4_reader

    def _make_zstd(self) -> "ZstdFrames":
        from ledgerstone.records.zstd_frame import ZstdFrames

        self._zstd = ZstdFrames()
        return self._zstd


def decompression_limit(max_message_bytes: int) -> int:
    """How large the records of a batch may become on a topic with this `max.message.bytes`."""
    return max(DEFAULT_DECOMPRESSION_LIMIT, 4 * max_message_bytes)


def stored_limit(max_message_bytes: int) -> int:
    """The same for batches that are in the topic's log."""
    return max(STORED_LIMIT, 4 * max_message_bytes)


def compress(codec: Codec, payload: Buffer, level: int | None = None) -> Buffer:
    """For a single batch; for many, keep a Codecs."""
    return Codecs().compress(codec, payload, level)


def decompress(codec: Codec, payload: Buffer, *, limit: int) -> Buffer:
    """For a single batch; for many, keep a Codecs."""
    return Codecs().decompress(codec, payload, limit=limit)
