"""The producer snapshot files of one partition. Grade D. The format is in producer_snapshot.py.

A snapshot named N holds the producer state of all batches below offset N. One is taken at every
roll and at a clean close, so that opening a log reads one small file instead of its batches.
"""

import logging
from collections.abc import Iterable
from typing import Final

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.storage.producer_snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from ledgerstone.storage.sync_plan import FileAt, Syncable, sync_all

_LOG: Final = logging.getLogger(__name__)


class ProducerSnapshots:
    """Knows which snapshots exist; `offsets` is ascending."""

    __slots__ = ("_directory", "_fs", "_unsynced", "offsets")

    def __init__(self, fs: Filesystem, directory: str, offsets: Iterable[int] = ()) -> None:
        self._fs = fs
        self._directory = directory
        self.offsets = sorted(offsets)
        self._unsynced: list[int] = []

    def path(self, offset: int, suffix: str = "") -> str:
        return join(self._directory, file_name(offset, Kind.SNAPSHOT, suffix))

    def take(self, offset: int, entries: Iterable[SnapshotEntry]) -> None:
        """Writes a snapshot; it is synced with the next flush.

        Crash here: a torn file fails its CRC at load and the next older snapshot is used."""
        file = self._fs.open(self.path(offset), create=True)
        file.truncate(0)
        file.pwrite(encode_snapshot(entries), 0)
        file.close()
        self._unsynced.append(offset)
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()

    def sync(self) -> None:
        sync_all(self._fs, self.take_unsynced())

    def take_unsynced(self) -> list[Syncable]:
        """The snapshots taken since the last call; the caller syncs them."""
        pending, self._unsynced = self._unsynced, []
        return [FileAt(self.path(offset)) for offset in pending if offset in self.offsets]

    def load_newest(self, end_offset: int) -> tuple[int, list[SnapshotEntry]] | None:
        """The newest readable snapshot at or below `end_offset`; unreadable ones are removed."""
        for offset in reversed([offset for offset in self.offsets if offset <= end_offset]):
            try:
                return offset, decode_snapshot(self._read(offset), self.path(offset))
            except CorruptFile as error:
                _LOG.warning("producer snapshot ignored, reading the log reason=%s", error)
                self.remove(offset)
        return None

    def _read(self, offset: int) -> bytes:
        file = self._fs.open(self.path(offset))
        data = file.pread(file.size(), 0)
        file.close()
        return data

    def remove(self, offset: int) -> None:
        self.offsets.remove(offset)
        self._fs.unlink(self.path(offset))

    def remove_where(self, *, at_most: int | None = None, above: int | None = None) -> None:
        for offset in list(self.offsets):
            low = at_most is not None and offset <= at_most
            high = above is not None and offset > above
            if low or high:
                self.remove(offset)

    def remove_strays(self, bases: Iterable[int]) -> None:
        """Keeps snapshots of segments, and the newest if it lies past them all (clean stop).

        Removes empty files first: a crash came before their content was written."""
        for offset in list(self.offsets):
            if self._fs.size_of(self.path(offset)) == 0:
                _LOG.warning("empty producer snapshot removed file=%s", self.path(offset))
                self.remove(offset)
        known = sorted(bases)
        for offset in list(self.offsets):
            newest = offset == self.offsets[-1]
            past_all = not known or offset >= known[-1]
            if offset not in known and not (newest and past_all):
                self.remove(offset)

    def set_aside(self, offset: int, suffix: str) -> str | None:
        """Renames the snapshot of a deleted segment; returns the path to unlink later."""
        if offset not in self.offsets:
            return None
        self.offsets.remove(offset)
        aside = self.path(offset, suffix)
        self._fs.rename(self.path(offset), aside)
        return aside
