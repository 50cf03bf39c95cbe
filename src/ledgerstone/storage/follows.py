"""Which segments began while the one before them was not synced. Grade D. Rules in README.md.

After power loss a sealed segment may have lost its tail while its successor is whole: the kernel
writes back as it likes. A hole between segments alone proves nothing, because compaction and
replication leave holes too. So a roll that finds unsynced batches behind it first makes an empty
file `N.log.follows`; it says that segment N counts only if the one before it ends at N.

Nothing here is synced. A directory keeps the order of its changes, so the mark is there whenever
the segment is; and it goes once a flush has passed N.
"""

from collections.abc import Iterable

from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.filenames import FOLLOWS, Kind, file_name


class Follows:
    __slots__ = ("_bases", "_directory", "_fs")

    def __init__(self, fs: Filesystem, directory: str, bases: Iterable[int] = ()) -> None:
        self._fs = fs
        self._directory = directory
        self._bases = sorted(bases)

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._bases

    def __len__(self) -> int:
        return len(self._bases)

    def add(self, base_offset: int) -> None:
        if base_offset not in self._bases:
            self._fs.open(self._path(base_offset), create=True).close()
            self._bases.append(base_offset)

    def remove_where(self, *, at_most: int | None = None, above: int | None = None) -> None:
        for base_offset in list(self._bases):
            low = at_most is not None and base_offset <= at_most
            high = above is not None and base_offset > above
            if low or high:
                self._fs.unlink(self._path(base_offset))
                self._bases.remove(base_offset)

    def _path(self, base_offset: int) -> str:
        return join(self._directory, file_name(base_offset, Kind.LOG, FOLLOWS))
