"""gzip as Kafka's batches have it, by isal. Grade P.

Imported with the first batch of this codec, as every codec is: few brokers meet all of them.
"""

from typing import Final

from isal import igzip_lib, isal_zlib

from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.types import Buffer

_CHUNK_BYTES: Final = 256 * 1024
_WBITS: Final = 31
_DEFAULT_LEVEL: Final = -1


def compress_gzip(payload: Buffer, level: int | None) -> Buffer:
    return isal_zlib.compress(payload, _isal_level(level), _WBITS)


def _isal_level(level: int | None) -> int:
    """isal has three useful levels; Kafka's nine and its default are mapped to them."""
    if level is None or level == _DEFAULT_LEVEL:
        return 2
    return 1 if level <= 3 else 2 if level <= 6 else 3


def decompress_gzip(payload: Buffer, limit: int) -> Buffer:
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
            raise MessageTooLarge(f"gzip records decompress to more than {limit} bytes")
        piece = b""
    if stream.unused_data:
        raise CorruptRecord(f"gzip: {len(stream.unused_data)} bytes after the stream")
    return out
