"""Files under a `.deleted` name, waiting for file.delete.delay.ms to pass. Grade D.

A reader may still hold a slice of them; the delay lets it finish where an unlinked file cannot be
opened again. Crash here: the loader unlinks every `.deleted` file it meets.
"""

from collections import deque
from collections.abc import Iterable

from ledgerstone.fs import Filesystem


class DeletedFiles:
    __slots__ = ("_fs", "_waiting")

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._waiting: deque[tuple[int, str]] = deque()

    def add(self, paths: Iterable[str], *, due_ms: int) -> None:
        self._waiting.extend((due_ms, path) for path in paths)

    def unlink_due(self, now_ms: int) -> int:
        """Unlinks what is due; returns how many files went."""
        later: deque[tuple[int, str]] = deque()
        gone = 0
        while self._waiting:
            due_ms, path = self._waiting.popleft()
            if due_ms > now_ms:
                later.append((due_ms, path))
                continue
            if self._fs.exists(path):
                self._fs.unlink(path)
            gone += 1
        self._waiting = later
        return gone

    def __len__(self) -> int:
        return len(self._waiting)
