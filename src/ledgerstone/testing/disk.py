"""The disk of a broker that lives for one test. Shell.

Two things differ from the real disk. Nothing is synced: a test's data must survive the death of a
broker, but not a power failure. And it can die with its broker: after `die` no name in the
directory changes any more, so the directory is as a crash would leave it.
"""

import errno
import os

from ledgerstone.system import OsFile, OsFilesystem


class ScratchFile(OsFile):
    __slots__ = ()

    def fsync(self) -> None:
        return


class ScratchFilesystem(OsFilesystem):
    __slots__ = ("_is_dead",)

    def __init__(self) -> None:
        self._is_dead = False

    def die(self) -> None:
        self._is_dead = True

    def _check(self, path: str) -> None:
        if self._is_dead:
            raise OSError(errno.EIO, "the broker was killed", path)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        if create:
            self._check(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return ScratchFile(os.open(path, flags, 0o644))

    def create_private(self, path: str) -> OsFile:
        self._check(path)
        return super().create_private(path)

    def make_read_only(self, path: str) -> None:
        self._check(path)
        super().make_read_only(path)

    def make_dir(self, path: str) -> None:
        self._check(path)
        super().make_dir(path)

    def remove_dir(self, path: str) -> None:
        self._check(path)
        super().remove_dir(path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._check(path)
        super().unlink(path)

    def fsync_dir(self, path: str) -> None:
        return
