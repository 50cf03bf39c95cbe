"""The real clock, dice and disk. Shell: the one place that touches `os` and `time`.

Contract: the protocols in `clock` and `fs`. `sim` has the other implementation; the same test
sentences run against both.
"""

import errno
import fcntl
import os
import stat
import time

from ledgerstone import private_files
from ledgerstone.errors import LogDirLocked
from ledgerstone.types import Buffer, WritableBuffer

_NANOSECONDS_PER_MS = 1_000_000


_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str | None:
    """Changes with every boot of the machine; None if the system has none."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


class SystemClock:
    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // _NANOSECONDS_PER_MS

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // _NANOSECONDS_PER_MS


class SystemDice:
    """Unpredictable randomness, because producer ids and hash salts are made from it."""

    __slots__ = ()

    def below(self, bound: int) -> int:
        if bound <= 0:
            raise ValueError(f"nothing is below {bound}")
        bits = (bound - 1).bit_length()
        size = (bits + 7) // 8
        # Numbers that are too large are drawn again, so that all are equally likely. Not by
        # `secrets`, which would import `random` and its tables.
        while (drawn := int.from_bytes(os.urandom(size)) >> (8 * size - bits)) >= bound:
            pass
        return drawn

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class OsFile:
    """Owns one descriptor until `close`, or until it is garbage collected."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size:
            return data
        # The kernel moves at most 2 GiB per call, so only an empty result means end of file.
        chunks = []
        while data:
            chunks.append(data)
            size -= len(data)
            position += len(data)
            data = os.pread(self._fd, size, position)
        return b"".join(chunks)

    def pread_into(self, buffer: WritableBuffer, position: int) -> int:
        view = memoryview(buffer).cast("B")
        filled = os.preadv(self._fd, [view], position)
        count = filled
        while count and filled < view.nbytes:
            count = os.preadv(self._fd, [view[filled:]], position + filled)
            filled += count
        return filled

    def pwrite(self, data: Buffer, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        if written == len(data):
            return
        view = memoryview(data).cast("B")
        while written < view.nbytes:
            # A disk that fills up first returns a short count and only then ENOSPC.
            count = os.pwrite(self._fd, view[written:], position + written)
            if count == 0:
                raise OSError(
                    errno.EIO,
                    f"pwrite stopped after {written} of {view.nbytes} bytes at {position}",
                )
            written += count

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        # fdatasync flushes the data and every change of size, which is all that reading it back
        # needs. It leaves out a bare change of mtime and so saves a journal commit on overwrites.
        os.fdatasync(self._fd)

    def close(self) -> None:
        # The number is cleared first: after a failed close it may already belong to another file.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class OsFileLock:
    """Holds the flock through its open file, so the kernel releases it when the process dies.

    The owner keeps this object: garbage collection would release the lock.
    """

    __slots__ = ("_file", "_path")

    def __init__(self, file: OsFile, path: str) -> None:
        self._file = file
        self._path = path

    def release(self) -> None:
        if self._file.fileno() < 0:
            return
        # Unlinked while still held: the other order could remove a file the next owner has locked.
        try:
            if _is_still_at(self._file, self._path):
                os.unlink(self._path)
        finally:
            self._file.close()


class OsFilesystem:
    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644))

    def create_private(self, path: str) -> OsFile:
        return OsFile(private_files.create_private(path))

    def open_private(self, path: str) -> OsFile:
        return OsFile(private_files.open_private(path))

    def open_read_only(self, path: str) -> OsFile:
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def make_read_only(self, path: str) -> None:
        os.chmod(path, 0o444)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_dir(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def mode_of(self, path: str) -> int:
        return stat.S_IMODE(os.stat(path).st_mode)

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // _NANOSECONDS_PER_MS

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        mtime_ns = mtime_ms * _NANOSECONDS_PER_MS
        os.utime(path, ns=(mtime_ns, mtime_ns))

    def room_of(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> OsFileLock:
        while True:
            file = self.open(path, create=True)
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.close()
                raise LogDirLocked(f"{path} is locked by another process") from error
            if _is_still_at(file, path):
                return OsFileLock(file, path)
            # The former owner unlinked the file between our open and our flock. What we hold is a
            # lock on a file without a name, which would not keep the next process out.
            file.close()


class ReadOnlyFilesystem(OsFilesystem):
    """Opens for reading only, and without waiting: a scan also meets files that nobody may write,
    and pipes."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        assert not create, f"a reader creates {path}"
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))


def _is_still_at(file: OsFile, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
