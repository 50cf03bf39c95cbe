"""Where the compiled kernels are kept between processes. Shell: touches the user's cache directory.

A cached library is machine code this process will run, so a directory or file that another user
could have written is refused. The file format and the rules are in README.md.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import stat
import struct
from collections.abc import Iterator
from typing import Final

MAGIC: Final = b"LSKERN2\n"
_LENGTH: Final = struct.Struct(">Q")
_DIGEST_SIZE: Final = 32
_TRAILER_SIZE: Final = len(MAGIC) + _LENGTH.size + _DIGEST_SIZE
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class CacheRefused(Exception):
    """The cache directory cannot be trusted or cannot be used; the message says which and why."""


def cache_directory() -> pathlib.Path:
    """The directory the environment asks for; it need not exist yet."""
    explicit = os.environ.get("LEDGERSTONE_CACHE_DIR")
    if explicit:
        return pathlib.Path(explicit)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return pathlib.Path(shared) / "ledgerstone"
    return pathlib.Path("~/.cache/ledgerstone").expanduser()


def prepare_directory(directory: pathlib.Path) -> None:
    """Makes `directory` if need be, private to us; raises CacheRefused unless it can be trusted."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except (OSError, RuntimeError) as error:
        raise CacheRefused(f"{directory} cannot be made: {error}") from error
    _check_owner(directory, status)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise CacheRefused(f"{directory} is not writable")


def _check_owner(path: pathlib.Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise CacheRefused(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise CacheRefused(f"{path} has mode {stat.S_IMODE(status.st_mode):o}: others may write it")


def read_image(path: pathlib.Path) -> bytes | None:
    """The library or object in `path`; None if it is missing, damaged, or not ours to trust."""
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            content = file.read()
    except (OSError, CacheRefused):
        return None
    end = len(content) - _TRAILER_SIZE
    if end < 0 or content[end : end + len(MAGIC)] != MAGIC:
        return None
    if _LENGTH.unpack_from(content, end + len(MAGIC)) != (end,):
        return None
    if hashlib.sha256(content[:-_DIGEST_SIZE]).digest() != content[-_DIGEST_SIZE:]:
        return None
    return content[:end]


def write_image(path: pathlib.Path, image: bytes) -> None:
    """Replaces `path` atomically: a reader sees the old file, the new one, or none.

    What tells damage stands behind the image, where the linker of a process does not look."""
    content = image + MAGIC + _LENGTH.pack(len(image))
    content += hashlib.sha256(content).digest()
    # Imported here: a start only reads.
    import tempfile

    # mkstemp makes the file with mode 0600.
    descriptor, temporary = tempfile.mkstemp(prefix=path.name, suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def one_builder(directory: pathlib.Path) -> Iterator[None]:
    """Lets one process of this machine compile at a time; the others then find its library."""
    descriptor = os.open(directory / "build.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
