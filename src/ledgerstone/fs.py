"""The disk as a dependency to pass in. Pure: protocols, and joining of paths.

Storage code opens, writes, renames and syncs only through a `Filesystem`; the real one is in
`system`, the one that loses whatever was not synced is in `sim`. Paths are `/`-separated strings.

Contract, the same for both:

- `File.pwrite` writes all of `data` or raises OSError; a torn part may stay behind.
- Bytes survive a process kill once `pwrite` returned, and power loss once `fsync` returned.
- A created, renamed or unlinked *name* survives power loss once `fsync_dir` of its parent returned.
- `rename` replaces its target atomically. An open `File` stays usable after rename and unlink.
- A `File` closes itself when it is garbage collected.
"""

from typing import NamedTuple, Protocol

from ledgerstone.types import Buffer, WritableBuffer


class File(Protocol):
    """One open file, read and written by position; there is no shared file position."""

    def fileno(self) -> int:
        """The descriptor for sendfile; -1 if there is none."""
        ...

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; shorter only at the end of the file."""
        ...

    def pread_into(self, buffer: WritableBuffer, position: int) -> int:
        """Fills `buffer` as far as the file reaches; returns the number of bytes."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None: ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None: ...

    def close(self) -> None: ...


class FileLock(Protocol):
    def release(self) -> None: ...


class Filesystem(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and writing; FileNotFoundError unless it exists or `create` is set."""
        ...

    def create_private(self, path: str) -> File:
        """Creates a file that only its owner may open; FileExistsError if the name is taken."""
        ...

    def open_private(self, path: str) -> File:
        """Opens such a file for reading; NotPrivate if others may use it."""
        ...

    def open_read_only(self, path: str) -> File:
        """Also opens files that nobody may write; FileNotFoundError unless it exists."""
        ...

    def make_read_only(self, path: str) -> None:
        """Takes the permission to write from everyone. A guard against mistakes, not durable."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """Sorted names, so that every walk over a directory has the same order."""
        ...

    def make_dir(self, path: str) -> None:
        """Creates the directory and its missing parents; does nothing if it exists."""
        ...

    def remove_dir(self, path: str) -> None:
        """Removes an empty directory."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def size_of(self, path: str) -> int: ...

    def mode_of(self, path: str) -> int:
        """The permission bits, as in 0o600."""
        ...

    def mtime_ms(self, path: str) -> int: ...

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None: ...

    def room_of(self, path: str) -> tuple[int, int]:
        """Bytes of the disk that holds the path, and how many of them can still be used."""
        ...

    def fsync_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> FileLock:
        """Takes an exclusive lock for the life of the process; LogDirLocked if another has it."""
        ...


def join(parent: str, name: str) -> str:
    return f"{parent.rstrip('/')}/{name}" if parent else name


def parent_of(path: str) -> str:
    head, _, _ = path.rpartition("/")
    return head or ("/" if path.startswith("/") else ".")


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


class FileSlice(NamedTuple):
    """Bytes of a file that travel by reference: the runtime sends them with sendfile.

    Holding the slice keeps the file open, even after it is renamed or unlinked."""

    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)
