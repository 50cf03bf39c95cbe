"""`erasure.mark`: how far the journal of erasures has gone, remembered outside of it. Grade D.

Two slots of 64 bytes, written in turns, so that a torn write leaves the other one. It is written
after the journal is synced: whatever a crash leaves, the mark is never ahead of the journal, and a
journal that ends before its mark has lost something. Contract: README.md, "Chain".
"""

import struct
import zlib
from typing import Final

from ledgerstone.erasure.journal_chain import Mark
from ledgerstone.fs import Filesystem, parent_of
from ledgerstone.storage.checkpoints import read_if_exists

MARK_FILE: Final = "erasure.mark"
SLOT_BYTES: Final = 64
_SLOTS: Final = 2
_MAGIC: Final = b"LSMARK1\n"
_FIELDS: Final = struct.Struct(">8sQ32s")
_CRC: Final = struct.Struct(">I")


class MarkFile:
    """The file of one broker; `mark` is what it holds, None before the first is written."""

    __slots__ = ("_fs", "_has_safe_name", "_slot", "mark", "path")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self.mark: Mark | None = None
        self._has_safe_name = False
        self._slot = 0  # the next to be written: not the one that holds `mark`

    def read(self) -> Mark | None:
        data = read_if_exists(self._fs, self.path) or b""
        for slot in range(_SLOTS):
            found = _decoded(data[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES])
            if found is not None and (self.mark is None or found.sequence > self.mark.sequence):
                self.mark = found
                self._slot = 1 - slot
        return self.mark

    def write(self, mark: Mark) -> None:
        """Synced when it returns. What it marks must be on disk before."""
        file = self._fs.open(self.path, create=True)
        try:
            file.pwrite(_encoded(mark), self._slot * SLOT_BYTES)
            file.fsync()
        finally:
            file.close()
        if not self._has_safe_name:
            # Also of a file that is there already: who made it may have died before this.
            self._fs.fsync_dir(parent_of(self.path))
            self._has_safe_name = True
        # Crash before: the other slot has what was remembered last.
        self.mark = mark
        self._slot = 1 - self._slot


def _encoded(mark: Mark) -> bytes:
    fields = _FIELDS.pack(_MAGIC, mark.sequence, mark.code)
    return (fields + _CRC.pack(zlib.crc32(fields))).ljust(SLOT_BYTES, b"\0")


def _decoded(slot: bytes) -> Mark | None:
    if len(slot) != SLOT_BYTES:
        return None
    fields = slot[: _FIELDS.size]
    magic, sequence, code = _FIELDS.unpack(fields)
    (crc,) = _CRC.unpack_from(slot, _FIELDS.size)
    return Mark(sequence, code) if magic == _MAGIC and crc == zlib.crc32(fields) else None
