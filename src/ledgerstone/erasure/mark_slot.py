"""One slot of `erasure.mark`: its bytes, and back. Grade P.

| bytes | content |
|---|---|
| 8 | `LSMARK1` and a line feed |
| 8 | number of the record, big-endian |
| 32 | its code |
| 4 | CRC-32 of all before |
| 12 | zeros |
"""

import struct
import zlib
from typing import Final

from ledgerstone.erasure.journal_chain import JournalMark

MARK_FILE: Final = "erasure.mark"
SLOT_BYTES: Final = 64
_MAGIC: Final = b"LSMARK1\n"
_FIELDS: Final = struct.Struct(">8sQ32s")
_CRC: Final = struct.Struct(">I")


def encoded(mark: JournalMark) -> bytes:
    fields = _FIELDS.pack(_MAGIC, mark.sequence, mark.code)
    return (fields + _CRC.pack(zlib.crc32(fields))).ljust(SLOT_BYTES, b"\0")


def is_mark(slot: bytes) -> bool:
    """Whether these are the bytes of a slot, and nothing else is in them."""
    mark = decoded(slot)
    return mark is not None and encoded(mark) == slot


def decoded(slot: bytes) -> JournalMark | None:
    if len(slot) != SLOT_BYTES:
        return None
    fields = slot[: _FIELDS.size]
    magic, sequence, code = _FIELDS.unpack(fields)
    (crc,) = _CRC.unpack_from(slot, _FIELDS.size)
    return JournalMark(sequence, code) if magic == _MAGIC and crc == zlib.crc32(fields) else None
