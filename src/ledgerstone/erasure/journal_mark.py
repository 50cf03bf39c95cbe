"""`erasure.mark`: how far the journal of erasures has gone, remembered outside of it. Grade D.

Two slots of 64 bytes, written in turns, so that a torn write leaves the other one. It is written
after the journal is synced: whatever a crash leaves, the mark is never ahead of the journal, and a
journal that ends before its mark has lost something. Contract: README.md, "Chain".
"""

from typing import Final

from ledgerstone.erasure.journal_chain import JournalMark
from ledgerstone.erasure.mark_slot import SLOT_BYTES, decoded, encoded
from ledgerstone.fs import Filesystem, parent_of
from ledgerstone.storage.checkpoints import read_if_exists

_SLOTS: Final = 2


class MarkFile:
    """The file of one broker; `mark` is what it holds, None before the first is written."""

    __slots__ = ("_fs", "_has_safe_name", "_slot", "mark", "path")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self.mark: JournalMark | None = None
        self._has_safe_name = False
        self._slot = 0  # the next to be written: not the one that holds `mark`

    def read(self) -> JournalMark | None:
        data = read_if_exists(self._fs, self.path) or b""
        for slot in range(_SLOTS):
            found = decoded(data[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES])
            if found is not None and (self.mark is None or found.sequence > self.mark.sequence):
                self.mark = found
                self._slot = 1 - slot
        return self.mark

    def write(self, mark: JournalMark) -> None:
        """Synced when it returns. What it marks must be on disk before."""
        file = self._fs.open(self.path, create=True)
        try:
            file.pwrite(encoded(mark), self._slot * SLOT_BYTES)
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
