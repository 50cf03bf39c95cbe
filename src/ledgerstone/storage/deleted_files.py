"""Files under a `.deleted` name, waiting for file.delete.delay.ms to pass. Grade D.

A reader may still hold a slice of them; the delay lets it finish where an unlinked file cannot be
opened again. Crash here: the loader unlinks every `.deleted` file it meets.

To unlink a large file takes long, so it is done by a plan that may be performed in a thread. What
is in a plan goes on waiting until it is really gone.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from ledgerstone.fs import Filesystem, join


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlinkPlan:
    """What may go. `perform` touches nothing but the disk and `gone`."""

    fs: Filesystem
    files: tuple[str, ...]
    directories: tuple[str, ...] = ()
    # More than this was due.
    is_part: bool = False
    gone: list[str] = field(default_factory=list)

    def perform(self) -> None:
        """What the disk refuses keeps nothing else from going; the first refusal is raised."""
        refusals: list[OSError] = []
        for paths, remove in ((self.files, self._unlink), (self.directories, self._remove_dir)):
            for path in paths:
                try:
                    remove(path)
                except OSError as error:
                    refusals.append(error)
                else:
                    self.gone.append(path)
        if refusals:
            raise refusals[0]

    def _unlink(self, path: str) -> None:
        try:
            self.fs.unlink(path)
        except FileNotFoundError:
            # Its directory was renamed meanwhile, as its topic is deleted: it goes with that.
            return

    def _remove_dir(self, directory: str) -> None:
        for name in self.fs.list_dir(directory):
            self.fs.unlink(join(directory, name))
        self.fs.remove_dir(directory)


class DeletedFiles:
    __slots__ = ("_fs", "_waiting")

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._waiting: deque[tuple[int, str]] = deque()

    def add(self, paths: Iterable[str], *, due_ms: int) -> None:
        self._waiting.extend((due_ms, path) for path in paths)

    def due(self, now_ms: int) -> list[str]:
        return [path for due_ms, path in self._waiting if due_ms <= now_ms]

    def forget(self, gone: Iterable[str]) -> None:
        """These have been unlinked."""
        paths = dict.fromkeys(gone)
        self._waiting = deque(entry for entry in self._waiting if entry[1] not in paths)

    def unlink_due(self, now_ms: int) -> int:
        """Unlinks what is due, at once; returns how many files went."""
        plan = UnlinkPlan(fs=self._fs, files=tuple(self.due(now_ms)))
        try:
            plan.perform()
        finally:
            self.forget(plan.gone)
        return len(plan.gone)

    def waiting(self) -> list[tuple[str, int]]:
        """Each path, and when it may go."""
        return [(path, due_ms) for due_ms, path in self._waiting]

    def __len__(self) -> int:
        return len(self._waiting)
