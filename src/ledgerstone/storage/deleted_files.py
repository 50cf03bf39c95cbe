"""Files under a `.deleted` name, waiting for file.delete.delay.ms to pass. Grade D.

A reader may still hold a slice of them; the delay lets it finish where an unlinked file cannot be
opened again. Crash here: the loader unlinks every `.deleted` file it meets.

To unlink a large file takes long, so it is done by a plan that may be performed in a thread. What
is in a plan goes on waiting until it is really gone. Until then its name is taken: a file that came
to bear it meanwhile would be unlinked before its time, or forgotten and never unlinked.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from ledgerstone.fs import Filesystem, join, parent_of


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
        """What the disk refuses keeps nothing else from going; the first refusal is raised.

        Gone is what cannot come back after power loss: a receipt may say so."""
        refusals: list[OSError] = []
        removed: dict[str, list[str]] = {}
        for paths, remove in ((self.files, self._unlink), (self.directories, self._remove_dir)):
            for path in paths:
                try:
                    remove(path)
                except OSError as error:
                    refusals.append(error)
                else:
                    removed.setdefault(parent_of(path), []).append(path)
        for directory, gone in removed.items():
            try:
                self._sync(directory)
            except OSError as error:
                refusals.append(error)
            else:
                self.gone.extend(gone)
        if refusals:
            raise refusals[0]

    def _sync(self, directory: str) -> None:
        # Where it is gone itself, whoever removed or renamed it syncs what is above.
        with suppress(FileNotFoundError):
            self.fs.fsync_dir(directory)

    def _unlink(self, path: str) -> None:
        try:
            self.fs.unlink(path)
        except FileNotFoundError:
            # Its directory was renamed meanwhile, as its topic is deleted: it goes with that.
            return

    def _remove_dir(self, directory: str) -> None:
        with suppress(FileNotFoundError):
            for name in self.fs.list_dir(directory):
                self.fs.unlink(join(directory, name))
            self.fs.remove_dir(directory)


class DeletedFiles:
    __slots__ = ("_fs", "_waiting")

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        # When each path may go.
        self._waiting: dict[str, int] = {}

    def add(self, paths: Iterable[str], *, due_ms: int) -> None:
        self._waiting.update((path, due_ms) for path in paths)

    def is_taken(self, path: str) -> bool:
        """Also by what is set aside already and not yet added."""
        return path in self._waiting or self._fs.exists(path)

    def hasten(self, paths: Iterable[str], *, now_ms: int) -> None:
        """Newer ones like them wait too: of what passes replace again and again one is enough."""
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
        """Unlinks what is due, at once; returns how many files went."""
        plan = UnlinkPlan(fs=self._fs, files=tuple(self.due(now_ms)))
        try:
            plan.perform()
        finally:
            self.forget(plan.gone)
        return len(plan.gone)

    def waiting(self) -> list[tuple[str, int]]:
        """Each path, and when it may go."""
        return list(self._waiting.items())

    def __len__(self) -> int:
        return len(self._waiting)
