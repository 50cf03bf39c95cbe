"""Files that hold secrets: how they are written, opened and judged. Shell.

There are two kinds. *Ours* are made by this program with mode 0600 and read back by it alone:
`erasure.keys`, `DATA/secure`, a ready file. Nobody has a reason to share one, so one that others
may touch, that belongs to somebody else or that is a link is refused. An *operator's* are brought
by somebody else: properties, keystores. Orchestrators mount them through links, with root as their
owner and a group that may read. So they are only remarked upon, with one exception: what everybody
may write is refused, as whoever writes it commands the process.

Modes and owners are those of the descriptor that is read: nothing can be exchanged in between.
"""

import errno
import os
import stat
from contextlib import suppress
from typing import Final, NamedTuple

from ledgerstone.errors import NotPrivate

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_TEMPORARY: Final = ".tmp"
_ROOT: Final = 0


class Exposure(NamedTuple):
    """What the kernel says of an open file. `user` is who asks."""

    path: str
    mode: int
    owner: int
    user: int

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)

    def refusal_as_ours(self) -> str | None:
        """Why it cannot be a file that we made."""
        if not stat.S_ISREG(self.mode):
            return "is no regular file"
        # Root may look at what a service made: to check a receipt, say.
        if self.owner != self.user != _ROOT:
            return f"belongs to user {self.owner}, not to {self.user}"
        if self.permissions & _OTHERS:
            return (
                f"has mode {self.permissions:04o}: others than its owner may use its secrets; "
                "make it 0600, and take the secrets for known if somebody could read them"
            )
        return None

    def refusal_as_operators(self) -> str | None:
        if self.permissions & stat.S_IWOTH and stat.S_ISREG(self.mode):
            return f"has mode {self.permissions:04o}: everybody may change it; make it 0600"
        return None

    def remark(self, what: str) -> str | None:
        """On an operator's file that holds a secret: `what` is in it."""
        if self.owner not in (self.user, _ROOT):
            return f"{self.path} holds {what} and belongs to user {self.owner}, who can change it"
        exposed = self.permissions & _OTHERS
        if self.owner == _ROOT != self.user:
            # The group is then how this process can read it, and it cannot write it.
            exposed &= ~stat.S_IRGRP
        if exposed:
            return f"{self.path} holds {what} and has mode {self.permissions:04o}; make it 0600"
        return None


class OperatorsFile(NamedTuple):
    content: bytes
    found: Exposure


def open_private(path: str) -> int:
    """A descriptor to read one of ours; NotPrivate unless it is its owner's alone."""
    # Without O_NONBLOCK, opening a pipe that somebody put there would wait for a writer.
    return _open_ours(path, os.O_RDONLY | os.O_NONBLOCK)


def read_private(path: str, most_bytes: int) -> bytes:
    """The content of one of ours."""
    with os.fdopen(open_private(path), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotPrivate(path, f"is larger than {most_bytes} bytes")
    return content


def write_private(path: str, content: bytes, mode: int = 0o600) -> None:
    """Whole or not at all, synced, and readable by others at no moment."""
    temporary = path + _TEMPORARY
    # What a crash left under this name was never in use, and may have another mode.
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    with os.fdopen(create_private(temporary, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def create_private(path: str, mode: int = 0o600) -> int:
    """A descriptor of a new file; FileExistsError for anything that is there, a link included."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.open(path, flags, mode)


def append_private(path: str) -> int:
    """A descriptor at the end of one of ours, which is made if it is not there."""
    return _open_ours(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _open_ours(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivate(path, "is a symbolic link") from None
        raise
    refusal = _found(descriptor, path).refusal_as_ours()
    if refusal is not None:
        os.close(descriptor)
        raise NotPrivate(path, refusal)
    return descriptor


def read_operators(path: str, most_bytes: int) -> OperatorsFile:
    """At most one byte more than `most_bytes`, so that the caller can say what is too large."""
    with open(path, "rb") as file:
        found = _found(file.fileno(), path)
        refusal = found.refusal_as_operators()
        if refusal is not None:
            raise NotPrivate(path, refusal)
        return OperatorsFile(file.read(most_bytes + 1), found)


def _found(descriptor: int, path: str) -> Exposure:
    status = os.fstat(descriptor)
    return Exposure(path, status.st_mode, status.st_uid, os.geteuid())
