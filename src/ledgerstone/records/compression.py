"""The five codecs: Kafka's framing on the way out, a bound on the size on the way in.

Grade P. A stream is abandoned once it passes `limit`; declared sizes are checked, never trusted.
Malformed bytes are CorruptRecord, too many are MessageTooLarge. The framings and the arithmetic of
the limit are in README.md. LZ4 frames have their own module.
"""

from struct import Struct
from typing import Final

from cramjam import DecompressionError, snappy
from isal import igzip_lib, isal_zlib
from zstandard import (
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
    frame_header_size,
    get_frame_parameters,
)

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.records.batch import Codec
from ledgerstone.records.lz4_frame import Lz4FrameReader, write_frame
from ledgerstone.types import Buffer

_MIB: Final = 2**20
# Bound once: an enum lookup per batch would be slow.
_LZ4: Final = Codec.LZ4
_ZSTD: Final = Codec.ZSTD

# A bytearray that grows holds an eighth more than it needs and lz4 and zstd keep up to 8 MiB of
# their own, so 48 MiB of output fit into the 64 MiB that no bomb may exceed.
DEFAULT_DECOMPRESSION_LIMIT: Final = 48 * _MIB
_CHUNK_BYTES: Final = 256 * 1024
# Each block costs time, whatever its size. Writers use blocks of 32 KiB and more.
_MAX_BLOCKS: Final = 16384

_GZIP_WBITS: Final = 31
_DEFAULT_GZIP_LEVEL: Final = -1

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = Struct(">8sii")
_XERIAL_VERSION: Final = 1
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = Struct(">i")
# The densest thing snappy can say is "copy 64 bytes" in 3.
_SNAPPY_MAX_RATIO: Final = 22

_DEFAULT_ZSTD_LEVEL: Final = 3
_ZSTD_MAX_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_MAX_WINDOW: Final = 128 * _MIB
_ZSTD_SMALL_WINDOW: Final = 8 * _MIB
_ZSTD_UNKNOWN_SIZE: Final = 2**64 - 1
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = range(3)
# Magic, descriptor and window of a frame, and three bytes that begin a block: whether it is the
# last, its kind, its size.
_ZSTD_PLAIN_FRAME: Final = Struct("<IBBHB")
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_LAST_AND_KIND: Final = 0b111
_ZSTD_LAST_COMPRESSED: Final = _ZSTD_COMPRESSED << 1 | 1


class Codecs:
    """Compresses and decompresses; keeps library objects that are worth reusing between batches.
    Cheap to make. One thread at a time."""

    __slots__ = ("_lz4_reader", "_zstd_compressor", "_zstd_decompressor", "_zstd_level")

    def __init__(self) -> None:
        self._lz4_reader: Lz4FrameReader | None = None
        self._zstd_compressor: ZstdCompressor | None = None
        self._zstd_decompressor: ZstdDecompressor | None = None
        self._zstd_level: int | None = None

    def compress(self, codec: Codec, payload: Buffer, level: int | None = None) -> Buffer:
        """`level` is one of Kafka's for the codec; None is the codec's default."""
        if codec is _LZ4:
            return write_frame(payload, level)
        if codec is _ZSTD:
            if self._zstd_compressor is None or self._zstd_level != level:
                self._zstd_compressor = _zstd_compressor(level)
                self._zstd_level = level
            return self._zstd_compressor.compress(payload)
        if codec is Codec.GZIP:
            return isal_zlib.compress(payload, _isal_level(level), _GZIP_WBITS)
        return payload if codec is Codec.NONE else _compress_xerial(payload)

    def decompress(self, codec: Codec, payload: Buffer, *, limit: int) -> Buffer:
        """At most `limit` bytes; the payload itself, not a copy, if it is not compressed."""
        opened = self.peek(codec, payload, limit=limit)
        return bytes(opened) if codec is _LZ4 and isinstance(opened, memoryview) else opened

    def peek(self, codec: Codec, payload: Buffer, *, limit: int) -> Buffer:
        """The same, but valid only until the next call: it may be in reused memory."""
        if codec is _LZ4:
            if self._lz4_reader is None:
                self._lz4_reader = Lz4FrameReader()
            return self._lz4_reader.read(memoryview(payload), limit)
        if codec is _ZSTD:
            if self._zstd_decompressor is None:
                self._zstd_decompressor = _zstd_decompressor()
            return _decompress_zstd(memoryview(payload), limit, self._zstd_decompressor)
        if codec is Codec.GZIP:
            return _decompress_gzip(payload, limit)
        return payload if codec is Codec.NONE else _decompress_snappy(memoryview(payload), limit)


def decompression_limit(max_message_bytes: int) -> int:
    """How large the records of a batch may become on a topic with this `max.message.bytes`."""
    return max(DEFAULT_DECOMPRESSION_LIMIT, 4 * max_message_bytes)


def compress(codec: Codec, payload: Buffer, level: int | None = None) -> Buffer:
    """For a single batch; for many, keep a Codecs."""
    return Codecs().compress(codec, payload, level)


def decompress(codec: Codec, payload: Buffer, *, limit: int) -> Buffer:
    """For a single batch; for many, keep a Codecs."""
    return Codecs().decompress(codec, payload, limit=limit)


def _too_large(codec: Codec, limit: int) -> MessageTooLarge:
    return MessageTooLarge(f"{codec.config_name} records decompress to more than {limit} bytes")


def _isal_level(level: int | None) -> int:
    """isal has three useful levels; Kafka's nine and its default are mapped to them."""
    if level is None or level == _DEFAULT_GZIP_LEVEL:
        return 2
    return 1 if level <= 3 else 2 if level <= 6 else 3


def _decompress_gzip(payload: Buffer, limit: int) -> Buffer:
    stream = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    out = bytearray()
    piece: Buffer = payload
    while not stream.eof:
        try:
            chunk = stream.decompress(piece, _CHUNK_BYTES)
        except isal_zlib.IsalError as error:  # type: ignore[misc] # the stub takes it for a value
            raise CorruptRecord(f"gzip: {error}") from None
        if not chunk and not stream.eof:
            raise CorruptRecord(f"gzip: {len(payload)} bytes end inside the stream")
        out += chunk
        if len(out) > limit:
            raise _too_large(Codec.GZIP, limit)
        piece = b""
    if stream.unused_data:
        raise CorruptRecord(f"gzip: {len(stream.unused_data)} bytes after the stream")
    return out


def _compress_xerial(payload: Buffer) -> bytes:
    out = bytearray(_XERIAL_HEADER.pack(_XERIAL_MAGIC, _XERIAL_VERSION, _XERIAL_VERSION))
    view = memoryview(payload)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(payload: memoryview, limit: int) -> bytearray:
    framed = bytes(payload[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC
    blocks = _xerial_blocks(payload) if framed else [payload]
    sizes = [_snappy_size(block) for block in blocks]
    total = sum(sizes)
    if total > limit:
        raise _too_large(Codec.SNAPPY, limit)
    out = bytearray(total)
    room = memoryview(out)
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            written = snappy.decompress_raw_into(block, room[position : position + size])
        except DecompressionError as error:
            raise CorruptRecord(f"snappy: {error}") from None
        if written != size:
            raise CorruptRecord(f"snappy: block of {size} bytes has {written}")
        position += size
    return out


def _xerial_blocks(payload: memoryview) -> list[memoryview]:
    if len(payload) < _XERIAL_HEADER.size:
        raise CorruptRecord(f"snappy: {len(payload)} bytes end inside the stream header")
    _, _, compatible_version = _XERIAL_HEADER.unpack_from(payload)
    if compatible_version < _XERIAL_VERSION:
        raise CorruptRecord(f"snappy: stream for version {compatible_version}")
    blocks: list[memoryview] = []
    position = _XERIAL_HEADER.size
    while position < len(payload):
        if len(payload) - position < _INT32.size:
            raise CorruptRecord(f"snappy: stream ends inside the block length at {position}")
        (length,) = _INT32.unpack_from(payload, position)
        position += _INT32.size
        if not 0 < length <= len(payload) - position:
            raise CorruptRecord(
                f"snappy: block of {length} bytes at {position}, {len(payload) - position} left"
            )
        blocks.append(payload[position : position + length])
        if len(blocks) > _MAX_BLOCKS:
            raise CorruptRecord(f"snappy: more than {_MAX_BLOCKS} blocks")
        position += length
    return blocks


def _snappy_size(block: memoryview) -> int:
    try:
        size = int(snappy.decompress_raw_len(block))
    except DecompressionError as error:
        raise CorruptRecord(f"snappy: {error}") from None
    if size > _SNAPPY_MAX_RATIO * len(block):
        raise CorruptRecord(f"snappy: block of {len(block)} bytes declares {size}")
    return size


def _zstd_compressor(level: int | None) -> ZstdCompressor:
    return ZstdCompressor(
        level=_DEFAULT_ZSTD_LEVEL if level is None else level,
        write_content_size=False,
        write_checksum=False,
    )


def _zstd_decompressor() -> ZstdDecompressor:
    return ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)


def _decompress_zstd(payload: memoryview, limit: int, decompressor: ZstdDecompressor) -> Buffer:
    end, largest_window, most = _usual_zstd_frame(payload) or _skip_zstd_frame(payload, 0, limit)
    if end == len(payload) and largest_window <= _ZSTD_SMALL_WINDOW:
        # The slower path reports what is wrong, or too large.
        try:
            return decompressor.decompress(payload, max_output_size=min(limit, most))
        except ZstdError:
            pass
    while end < len(payload):
        end, window, _ = _skip_zstd_frame(payload, end, limit)
        largest_window = max(largest_window, window)
    return _stream_zstd(payload, limit, largest_window)


def _stream_zstd(payload: memoryview, limit: int, largest_window: int) -> bytearray:
    if largest_window > _ZSTD_SMALL_WINDOW:
        # The library would hold up to all of the output a second time.
        limit //= 2
    out = bytearray()
    # A separate decompressor: a shared one would keep the memory of a large window.
    with _zstd_decompressor().stream_reader(payload, read_across_frames=True) as reader:
        while True:
            try:
                chunk = reader.read(_CHUNK_BYTES)
            except ZstdError as error:
                raise CorruptRecord(f"zstd: {error}") from None
            if not chunk:
                return out
            out += chunk
            if len(out) > limit:
                raise _too_large(Codec.ZSTD, limit)


def _usual_zstd_frame(payload: memoryview) -> tuple[int, int, int] | None:
    """As `_skip_zstd_frame`, for the usual frame: all of the payload, one block, a small window and
    nothing else declared. None for any other."""
    if len(payload) < _ZSTD_PLAIN_FRAME.size:
        return None
    magic, descriptor, window, low, high = _ZSTD_PLAIN_FRAME.unpack_from(payload)
    head = low | high << 16
    if magic != _ZSTD_MAGIC or descriptor or head & _ZSTD_LAST_AND_KIND != _ZSTD_LAST_COMPRESSED:
        return None
    size = head >> 3
    if size > _ZSTD_MAX_BLOCK_BYTES or _ZSTD_PLAIN_FRAME.size + size != len(payload):
        return None
    # Exponent and eighths, as the format has them.
    window_bytes: int = (8 + (window & 7)) << (7 + (window >> 3))
    if window_bytes > _ZSTD_SMALL_WINDOW:
        return None
    return len(payload), window_bytes, min(_ZSTD_MAX_BLOCK_BYTES, window_bytes)


def _skip_zstd_frame(payload: memoryview, start: int, limit: int) -> tuple[int, int, int]:
    """Where the frame ends, its window, and its largest possible output. The library accepts a
    truncated frame as whole."""
    try:
        parameters = get_frame_parameters(payload[start:])
        position = start + frame_header_size(payload[start:])
    except ZstdError as error:
        raise CorruptRecord(f"zstd: frame at {start}: {error}") from None
    if parameters.content_size != _ZSTD_UNKNOWN_SIZE and parameters.content_size > limit:
        raise _too_large(Codec.ZSTD, limit)
    last = False
    blocks = 0
    while not last:
        if len(payload) - position < 3:
            raise CorruptRecord(f"zstd: {len(payload)} bytes end inside the frame at {start}")
        head = int.from_bytes(payload[position : position + 3], "little")
        last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        position += 3 + (1 if kind == _ZSTD_RLE else size)
        blocks += 1
        if kind > _ZSTD_COMPRESSED or size > _ZSTD_MAX_BLOCK_BYTES or blocks > _MAX_BLOCKS:
            raise CorruptRecord(
                f"zstd: block {blocks} of frame at {start} has kind {kind}, {size} bytes"
            )
    position += 4 if parameters.has_checksum else 0
    if position > len(payload):
        raise CorruptRecord(f"zstd: {len(payload)} bytes end inside the frame at {start}")
    most = blocks * min(_ZSTD_MAX_BLOCK_BYTES, parameters.window_size)
    return position, parameters.window_size, most
