"""The files of the audit log. Grade D. Format in security/README.md.

Lines are appended to the newest file, `audit-<number of its first line>.jsonl`; a full one is
followed by the next. A line that was cut off by a crash is cut away at the next start, and a line
says so. Nothing else is ever changed or removed here.
"""

from collections.abc import Iterator
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.fs import File, Filesystem, join, parent_of
from ledgerstone.security.audit_chain import (
    LONGEST_LINE,
    SALT_BYTES,
    AuditEvent,
    BrokenChain,
    ChainEnd,
    parsed,
    sealed,
)

ROLL_BYTES: Final = 64 << 20
_READ_BYTES: Final = 1 << 20


def file_name(first_seq: int) -> str:
    return f"audit-{first_seq:020d}.jsonl"


def audit_files(fs: Filesystem, directory: str) -> list[str]:
    """The oldest first."""
    names = [each for each in fs.list_dir(directory) if each.startswith("audit-")]
    return [join(directory, each) for each in names if each.endswith(".jsonl")]


def lines_of(file: File) -> Iterator[bytes]:
    """Whole lines, without their ends; what follows the last end of line is left out."""
    position, rest = 0, b""
    while data := file.pread(_READ_BYTES, position):
        position += len(data)
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            # Not ours; told as a line, so that who reads it sees that it is none.
            yield rest
            return


class AuditFile:
    """Opened for as long as the broker runs."""

    def __init__(
        self, fs: Filesystem, directory: str, clock: Clock, dice: Dice, *, node_id: int
    ) -> None:
        self._fs, self._directory = fs, directory
        self._clock, self._dice, self._node_id = clock, dice, node_id
        self._file: File | None = None
        self._position = 0
        self.link = ChainEnd()
        self._open()

    def append(self, event: AuditEvent, *, sync: bool) -> None:
        """OSError where the disk takes no more: then nothing of the line counts."""
        line, link = sealed(
            event,
            self.link,
            node=self._node_id,
            ts_ms=self._clock.now_ms(),
            salt=self._dice.random_bytes(SALT_BYTES),
        )
        if self._file is None or self._position + len(line) > ROLL_BYTES:
            self._roll(link.seq)
        assert self._file is not None
        try:
            self._file.pwrite(line, self._position)
            if sync:
                # Crash here: the line is whole, or cut off and cut away at the next start.
                self._file.fsync()
        except OSError:
            self._cut_away()
            raise
        self._position += len(line)
        self.link = link

    def _cut_away(self) -> None:
        """What was written of a line that failed. Where that fails, too, the next line is written
        over it."""
        assert self._file is not None
        try:
            self._file.truncate(self._position)
        except OSError:
            return

    def _roll(self, first_seq: int) -> None:
        if self._file is not None:
            self._file.fsync()
            self._file.close()
        self._file = self._fs.create_private(join(self._directory, file_name(first_seq)))
        self._fs.fsync_dir(self._directory)
        self._position = 0

    def _open(self) -> None:
        _make_durable_dir(self._fs, self._directory)
        files = audit_files(self._fs, self._directory)
        lost = 0
        for path in reversed(files):
            file = self._fs.open(path)
            size = file.size()
            end, link = _last_whole_line(file)
            lost += size - end
            if end < size:
                file.truncate(end)
                file.fsync()
            if link is not None or path == files[0]:
                self._file, self._position, self.link = file, end, link or ChainEnd()
                break
            # Nothing in it survived, and its name is of a line that another file will have.
            file.close()
            self._fs.unlink(path)
            self._fs.fsync_dir(self._directory)
        if lost:
            gap = AuditEvent("audit.gap", "found", {}, {"lost_bytes": lost})
            self.append(gap, sync=True)


def _make_durable_dir(fs: Filesystem, path: str) -> None:
    """A directory whose name is not synced is gone after a loss of power, with all it holds."""
    if fs.exists(path):
        return
    parent = parent_of(path)
    if parent != path:
        _make_durable_dir(fs, parent)
    fs.make_dir(path)
    fs.fsync_dir(parent)


def _last_whole_line(file: File) -> tuple[int, ChainEnd | None]:
    """Where it ends, and what it says; lines behind it are the remains of a crash."""
    position, end, link = 0, 0, None
    for data in lines_of(file):
        position += len(data) + 1
        try:
            line = parsed(data, 0)
        except BrokenChain:
            continue
        end, link = position, ChainEnd(int(line["seq"]), str(line["h"]))
    return end, link
