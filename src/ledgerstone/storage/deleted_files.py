"""Files under a `.deleted` name, waiting for file.delete.delay.ms to pass. Grade D.

A reader may still hold a slice of one; the delay lets it finish, since an unlinked file cannot be
reopened. Crash here: the loader unlinks every `.deleted` file it finds.

Unlinking a large file takes long, so a plan does it, which may run in a thread. A file in a plan
counts as waiting until it is gone. Until then its name is taken: another file renamed to it would
be unlinked too early, or forgotten and never unlinked.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ledgerstone.fs import Filesystem, join


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlinkPlan:
    """Files to unlink. `perform` touches nothing but the disk and `gone`."""

    fs: Filesystem
    files: tuple[str, ...]
    directories: tuple[str, ...] = ()
    # More files were due than fit.
    is_part: bool = False
    gone: list[str] = field(default_factory=list)

    def perform(self) -> None:
        """Unlinks as many files as it can, then raises the first error."""
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
            # Its directory was renamed because the topic was deleted; it goes with the directory.
            return

    def _remove_dir(self, directory: str) -> None:
        for name in self.fs.list_dir(directory):
            self.fs.unlink(join(directory, name))
        self.fs.remove_dir(directory)


class DeletedFiles:
    __slots__ = ("_fs", "_waiting")

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        # When each path may be unlinked.
        self._waiting: dict[str, int] = {}

    def add(self, paths: Iterable[str], *, due_ms: int) -> None:
        self._waiting.update((path, due_ms) for path in paths)

    def is_taken(self, path: str) -> bool:
        """Includes files already renamed but not yet added."""
        return path in self._waiting or self._fs.exists(path)

    def hasten(self, paths: Iterable[str], *, now_ms: int) -> None:
        """Unlinks these early. When pass after pass replaces a file, one waiting copy is enough."""
        for path in paths:
            if path in self._waiting:
                self._waiting[path] = min(self._waiting[path], now_ms)

    def due(self, now_ms: int) -> list[str]:
        return [path for path, due_ms in self._waiting.items() if due_ms <= now_ms]

    def forget(self, gone: Iterable[str]) -> None:
        """These have been unlinked."""
        for path in gone:
            self._waiting.pop(path, None)

    def unlink_due(self, now_ms: int) -> int:
        """Unlinks due files at once; returns their number."""
        plan = UnlinkPlan(fs=self._fs, files=tuple(self.due(now_ms)))
        try:
            plan.perform()
        finally:
            self.forget(plan.gone)
        return len(plan.gone)

    def waiting(self) -> list[tuple[str, int]]:
        """Each path, and when it may be unlinked."""
        return list(self._waiting.items())

    def __len__(self) -> int:
        return len(self._waiting)
