"""Files under a `.deleted` name, waiting for file.delete.delay.ms to pass. Grade D.

A reader may still hold a slice of one; the delay lets it finish, since an unlinked file cannot be
reopened. Crash here: the loader unlinks every `.deleted` file it finds.

Unlinking a large file takes long, so a plan does it, which may run in a thread. A file in a plan
counts as waiting until it is gone. Until then its name is taken: another file renamed to it would
be unlinked too early, or forgotten and never unlinked.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.fs import Filesystem, join, parent_of
from ledgerstone.types import INT64_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlinkPlan:
    """Files and directories to unlink."""

    files: tuple[str, ...]
    directories: tuple[str, ...] = ()
    # More files were due than fit.
    is_part: bool = False


class Unlinked(NamedTuple):
    """What is gone for good, power loss included, and the first refusal of the disk."""

    gone: tuple[str, ...]
    failure: OSError | None = None


def unlink_all(fs: Filesystem, plan: UnlinkPlan) -> Unlinked:
    """A path that the disk refuses to remove does not keep the others.

    A receipt may say that what is gone is gone: it must not come back with the power."""
    refusals: list[OSError] = []
    removed: dict[str, list[str]] = {}
    for paths, remove in ((plan.files, _unlink), (plan.directories, _remove_dir)):
        for path in paths:
            try:
                remove(fs, path)
            except OSError as error:
                refusals.append(error)
            else:
                removed.setdefault(parent_of(path), []).append(path)
    gone: list[str] = []
    for directory, those in removed.items():
        try:
            _sync(fs, directory)
        except OSError as error:
            refusals.append(error)
        else:
            gone += those
    return Unlinked(tuple(gone), refusals[0] if refusals else None)


def _sync(fs: Filesystem, directory: str) -> None:
    # A directory that is gone itself is synced by whoever removed or renamed it.
    with suppress(FileNotFoundError):
        fs.fsync_dir(directory)


def _unlink(fs: Filesystem, path: str) -> None:
    try:
        fs.unlink(path)
    except FileNotFoundError:
        # Its directory was renamed because the topic was deleted; it goes with the directory.
        return


def _remove_dir(fs: Filesystem, directory: str) -> None:
    with suppress(FileNotFoundError):
        for name in fs.list_dir(directory):
            fs.unlink(join(directory, name))
        fs.remove_dir(directory)


class DeletedFiles:
    __slots__ = ("_cut", "_fs", "_waiting")

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        # When each path may be unlinked.
        self._waiting: dict[str, int] = {}
        # Of these, what was cut off the log.
        self._cut: dict[str, None] = {}

    def add(self, paths: Iterable[str], *, due_ms: int, is_cut: bool = False) -> None:
        for path in paths:
            self._waiting[path] = due_ms
            if is_cut:
                self._cut[path] = None

    @property
    def has_cut_off(self) -> bool:
        """Whether files of a truncation are left: their offsets were given to other records, so
        they say nothing of when a record was written."""
        return bool(self._cut)

    def is_taken(self, path: str) -> bool:
        """Includes files already renamed but not yet added."""
        return path in self._waiting or self._fs.exists(path)

    def hasten(self, paths: Iterable[str], *, now_ms: int) -> None:
        """Unlinks these early. When pass after pass replaces a file, one waiting copy is enough."""
        for path in paths:
            if path in self._waiting:
                self._waiting[path] = min(self._waiting[path], now_ms)

    def due(self, now_ms: int, *, longest_ms: int = INT64_MAX) -> list[str]:
        """Nothing waits for more than `longest_ms` from now: the clock may have been set back."""
        for path, due_ms in self._waiting.items():
            self._waiting[path] = min(due_ms, now_ms + longest_ms)
        return [path for path, due_ms in self._waiting.items() if due_ms <= now_ms]

    def forget(self, gone: Iterable[str]) -> None:
        """These have been unlinked."""
        for path in gone:
            self._waiting.pop(path, None)
            self._cut.pop(path, None)

    def unlink_due(self, now_ms: int) -> int:
        """Unlinks due files at once; returns their number."""
        gone, failure = unlink_all(self._fs, UnlinkPlan(files=tuple(self.due(now_ms))))
        self.forget(gone)
        if failure is not None:
            raise failure
        return len(gone)

    def waiting(self) -> list[tuple[str, int]]:
        """Each path, and when it may be unlinked."""
        return list(self._waiting.items())

    def __len__(self) -> int:
        return len(self._waiting)
