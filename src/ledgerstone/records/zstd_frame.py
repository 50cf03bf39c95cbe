"""zstd frames, written and read by the library and walked before: a bound on what they become.

Grade P. Imported with the first batch of this codec.
"""

from struct import Struct
from typing import Final

from zstandard import (
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
    frame_header_size,
    get_frame_parameters,
)

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.types import Buffer

_MIB: Final = 2**20
_CHUNK_BYTES: Final = 256 * 1024
# Each block costs time, whatever its size.
_MAX_BLOCKS: Final = 16384
_DEFAULT_LEVEL: Final = 3
_MAX_BLOCK_BYTES: Final = 128 * 1024
_MAX_WINDOW: Final = 128 * _MIB
_SMALL_WINDOW: Final = 8 * _MIB
_UNKNOWN_SIZE: Final = 2**64 - 1
_RAW, _RLE, _COMPRESSED = range(3)
# Magic, descriptor and window of a frame, and three bytes that begin a block: whether it is the
# last, its kind, its size.
_PLAIN_FRAME: Final = Struct("<IBBHB")
_MAGIC: Final = 0xFD2FB528
_LAST_AND_KIND: Final = 0b111
_LAST_COMPRESSED: Final = _COMPRESSED << 1 | 1


class ZstdFrames:
    """Keeps the library's contexts between batches."""

    __slots__ = ("_compressor", "_decompressor", "_level")

    def __init__(self) -> None:
        self._compressor: ZstdCompressor | None = None
        self._level: int | None = None
        self._decompressor: ZstdDecompressor | None = None

    def write(self, payload: Buffer, level: int | None) -> bytes:
        """`level` is one of Kafka's; None is the default."""
        if self._compressor is None or self._level != level:
            self._compressor, self._level = _compressor(level), level
        return self._compressor.compress(payload)

    def read(self, payload: memoryview, limit: int) -> Buffer:
        """At most `limit` bytes."""
        if self._decompressor is None:
            self._decompressor = _decompressor()
        end, largest_window, most = _usual_frame(payload) or _skip_frame(payload, 0, limit)
        if end == len(payload) and largest_window <= _SMALL_WINDOW:
            # The slower path reports what is wrong, or too large.
            try:
                return self._decompressor.decompress(payload, max_output_size=min(limit, most))
            except ZstdError:
                pass
        while end < len(payload):
            end, window, _ = _skip_frame(payload, end, limit)
            largest_window = max(largest_window, window)
        return _stream(payload, limit, largest_window)


def _too_large(limit: int) -> MessageTooLarge:
    return MessageTooLarge(f"zstd records decompress to more than {limit} bytes")


def _compressor(level: int | None) -> ZstdCompressor:
    return ZstdCompressor(
        level=_DEFAULT_LEVEL if level is None else level,
        write_content_size=False,
        write_checksum=False,
    )


def _decompressor() -> ZstdDecompressor:
    return ZstdDecompressor(max_window_size=_MAX_WINDOW)


def _stream(payload: memoryview, limit: int, largest_window: int) -> bytearray:
    if largest_window > _SMALL_WINDOW:
        # The library would hold up to all of the output a second time.
        limit //= 2
    out = bytearray()
    # A separate decompressor: a shared one would keep the memory of a large window.
    with _decompressor().stream_reader(payload, read_across_frames=True) as reader:
        while True:
            try:
                chunk = reader.read(_CHUNK_BYTES)
            except ZstdError as error:
                raise CorruptRecord(f"zstd: {error}") from None
            if not chunk:
                return out
            out += chunk
            if len(out) > limit:
                raise _too_large(limit)


def _usual_frame(payload: memoryview) -> tuple[int, int, int] | None:
    """As `_skip_frame`, for the usual frame: all of the payload, one block, a small window and
    nothing else declared. None for any other."""
    if len(payload) < _PLAIN_FRAME.size:
        return None
    magic, descriptor, window, low, high = _PLAIN_FRAME.unpack_from(payload)
    head = low | high << 16
    if magic != _MAGIC or descriptor or head & _LAST_AND_KIND != _LAST_COMPRESSED:
        return None
    size = head >> 3
    if size > _MAX_BLOCK_BYTES or _PLAIN_FRAME.size + size != len(payload):
        return None
    # Exponent and eighths, as the format has them.
    window_bytes: int = (8 + (window & 7)) << (7 + (window >> 3))
    if window_bytes > _SMALL_WINDOW:
        return None
    return len(payload), window_bytes, min(_MAX_BLOCK_BYTES, window_bytes)


def _skip_frame(payload: memoryview, start: int, limit: int) -> tuple[int, int, int]:
    """Where the frame ends, its window, and its largest possible output. The library accepts a
    truncated frame as whole."""
    try:
        parameters = get_frame_parameters(payload[start:])
        position = start + frame_header_size(payload[start:])
    except ZstdError as error:
        raise CorruptRecord(f"zstd: frame at {start}: {error}") from None
    if parameters.content_size != _UNKNOWN_SIZE and parameters.content_size > limit:
        raise _too_large(limit)
    last = False
    blocks = 0
    while not last:
        if len(payload) - position < 3:
            raise CorruptRecord(f"zstd: {len(payload)} bytes end inside the frame at {start}")
        head = int.from_bytes(payload[position : position + 3], "little")
        last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        position += 3 + (1 if kind == _RLE else size)
        blocks += 1
        if kind > _COMPRESSED or size > _MAX_BLOCK_BYTES or blocks > _MAX_BLOCKS:
            raise CorruptRecord(
                f"zstd: block {blocks} of frame at {start} has kind {kind}, {size} bytes"
            )
    position += 4 if parameters.has_checksum else 0
    if position > len(payload):
        raise CorruptRecord(f"zstd: {len(payload)} bytes end inside the frame at {start}")
    most = blocks * min(_MAX_BLOCK_BYTES, parameters.window_size)
    return position, parameters.window_size, most
