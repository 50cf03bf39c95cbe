"""Marks where a segment ended that was unsynced when the next began. Grade D. Rules in README.md.

After power loss a sealed segment may have lost its tail while its successor is whole: the kernel
writes back in any order. A hole between segments alone proves nothing, because compaction and
replication leave holes too. So a roll that leaves unsynced batches first creates an empty file
`N.log.follows`, N being one past the last of them: later segments count only if those batches are
there.

Nothing here is synced. A directory keeps the order of its changes, so if the new segment exists,
so does the mark. It is removed once a flush has passed N.
"""

from bisect import insort
from collections.abc import Iterable

from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.filenames import FOLLOWS, Kind, file_name


class Follows:
    """Invariant: `_ends` is ascending, and each has its file."""

    __slots__ = ("_directory", "_ends", "_fs")

    def __init__(self, fs: Filesystem, directory: str, ends: Iterable[int] = ()) -> None:
        self._fs = fs
        self._directory = directory
        self._ends = sorted(ends)

    def add(self, end_offset: int) -> None:
        if end_offset not in self._ends:
            self._fs.open(self._path(end_offset), create=True).close()
            insort(self._ends, end_offset)

    def newest_in(self, start_offset: int, end_offset: int) -> int | None:
        return max((end for end in self._ends if start_offset <= end < end_offset), default=None)

    def remove_where(self, *, at_most: int | None = None, above: int | None = None) -> None:
        for end_offset in list(self._ends):
            low = at_most is not None and end_offset <= at_most
            high = above is not None and end_offset > above
            if low or high:
                self._fs.unlink(self._path(end_offset))
                self._ends.remove(end_offset)

    def _path(self, end_offset: int) -> str:
        return join(self._directory, file_name(end_offset, Kind.LOG, FOLLOWS))
