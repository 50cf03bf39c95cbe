"""The files of the audit log. Grade D. Format in security/README.md.

Lines are appended to the newest file, `audit-<number of its first line>.jsonl`; a full one, and one
of an earlier day, is followed by the next. Lines that a crash has left in parts are cut away at the
next start, and a line says so. Files go when all of their lines are old enough, the oldest first,
and a line says that before they do.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.fs import File, FileLock, Filesystem, join, parent_of
from ledgerstone.security.audit_chain import (
    LONGEST_LINE,
    NO_HASH,
    SALT_BYTES,
    AuditEvent,
    BrokenChain,
    ChainEnd,
    link_of,
    parsed,
    sealed,
)
from ledgerstone.security.audit_check import RETIRED
from ledgerstone.security.audit_seal import SEAL

ROLL_BYTES: Final = 64 << 20
DAY_MS: Final = 86_400_000
LOCK_FILE: Final = ".lock"
_READ_BYTES: Final = 1 << 20
# Kept in memory until they are synced.
_UNSYNCED_BYTES: Final = 1 << 20
# Lines that are synced, and so everything before them; beside those that ask for something.
_SYNCED: Final = (SEAL, RETIRED, "audit.gap", "start", "stop")


def file_name(first_seq: int) -> str:
    return f"audit-{first_seq:020d}.jsonl"


def first_seq_of(path: str) -> int:
    """By the name of the file. ValueError for a name that is not ours."""
    return int(path.rpartition("audit-")[2].removesuffix(".jsonl"))


def audit_files(fs: Filesystem, directory: str) -> list[str]:
    """The oldest first."""
    names = [each for each in fs.list_dir(directory) if each.startswith("audit-")]
    return [
        join(directory, each)
        for each in names
        if each.endswith(".jsonl") and each[len("audit-") : -len(".jsonl")].isdecimal()
    ]


def lines_of(file: File, position: int = 0) -> Iterator[bytes]:
    """Whole lines, without their ends; what follows the last end of line is left out."""
    rest = b""
    while data := file.pread(_READ_BYTES, position):
        position += len(data)
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            # Not ours; told as a line, so that who reads it sees that it is none.
            yield rest
            return


def first_line_of(fs: Filesystem, path: str) -> dict[str, Any] | None:
    """None where there is none, or it cannot be read."""
    file = fs.open_read_only(path)
    try:
        data = next(lines_of(file), None)
        return None if data is None else parsed(data, 0)
    except BrokenChain:
        return None
    finally:
        file.close()


class AuditFile:
    """Opened for as long as the broker runs; `lock` is released with it."""

    def __init__(
        self,
        fs: Filesystem,
        directory: str,
        clock: Clock,
        dice: Dice,
        *,
        node_id: int,
        lock: FileLock | None = None,
    ) -> None:
        self.fs, self.directory = fs, directory
        self._clock, self._dice, self.node_id = clock, dice, node_id
        self._file: File | None = None
        self._position = 0
        # Of the first line in the newest file.
        self._day = 0
        self.link = ChainEnd()
        # Everything up to this line is on the disk.
        self.synced_seq = 0
        # Lines since the last seal.
        self.unsealed = 0
        self._before = (0, ChainEnd(), 0)
        # What was written since the last sync, and where it begins. A sync that fails may drop it
        # from the page cache, and the next one succeeds without it.
        self._unsynced = bytearray()
        self._unsynced_at = 0
        self._sync_has_failed = False
        self._lock = lock
        self._open()

    # -- lines --------------------------------------------------------------------------------

    def append(self, event: AuditEvent, *, sync: bool) -> None:
        """OSError where the disk takes no more: then nothing of the line counts."""
        self.append_made(lambda _: event, sync=sync)

    def append_made(self, make: Callable[[ChainEnd], AuditEvent], *, sync: bool) -> None:
        """The same, for a line that says something of the one before it."""
        if self._is_full():
            self._roll()
        self._append(make(self.link))
        if sync:
            try:
                self.sync()
            except OSError:
                self._cut_away(self._before)
                raise

    def _append(self, event: AuditEvent) -> None:
        line, link = sealed(
            event,
            self.link,
            node=self.node_id,
            ts_ms=self._clock.now_ms(),
            salt=self._dice.random_bytes(SALT_BYTES),
        )
        if self._file is None:
            self._begin(link.seq)
        assert self._file is not None
        if len(self._unsynced) >= _UNSYNCED_BYTES:
            self.sync()
        self._before = (self._position, self.link, self.unsealed)
        try:
            self._file.pwrite(line, self._position)
        except OSError:
            self._cut_away(self._before)
            raise
        self._position += len(line)
        self._unsynced += line
        self.link = link
        self.unsealed = 0 if event.kind == SEAL else self.unsealed + 1

    def sync(self) -> None:
        """Crash here: what was not synced yet is whole, or in parts and cut away at the start."""
        if self._file is not None and self.synced_seq < self.link.seq:
            if self._sync_has_failed:
                self._file.pwrite(self._unsynced, self._unsynced_at)
            try:
                self._file.fsync()
            except OSError:
                self._sync_has_failed = True
                raise
            self.synced_seq = self.link.seq
            self._all_synced()

    def _all_synced(self) -> None:
        self._unsynced.clear()
        self._unsynced_at = self._position
        self._sync_has_failed = False

    def _cut_away(self, before: tuple[int, ChainEnd, int]) -> None:
        """What was written of a line that failed. Where that fails, too, the next line is written
        over it."""
        assert self._file is not None
        self._position, self.link, self.unsealed = before
        del self._unsynced[self._position - self._unsynced_at :]
        try:
            self._file.truncate(self._position)
        except OSError:
            return

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()

    # -- files --------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        if self._file is None or not self._position:
            return False
        return self._position >= ROLL_BYTES or self._clock.now_ms() // DAY_MS > self._day

    def _roll(self) -> None:
        """The next file begins with a line that says so; its `prev` is the end of the last file."""
        assert self._file is not None
        closed, end = self._file, self.link
        self.sync()
        self._begin(end.seq + 1)
        closed.close()
        self._append(AuditEvent("audit.rotate", "done", {}, {"last": end.seq, "hash": end.hash}))

    def _begin(self, first_seq: int) -> None:
        path = join(self.directory, file_name(first_seq))
        if self.fs.exists(path):
            # Left by a failure between making the file and its first line.
            self.fs.unlink(path)
        file = self.fs.create_private(path)
        self.fs.fsync_dir(self.directory)
        self._file, self._position = file, 0
        self._all_synced()
        self._day = self._clock.now_ms() // DAY_MS

    def retire(self, before_ms: int, *, up_to_seq: int) -> int:
        """Removes files whose lines are all older, and up to a number; how many. OSError."""
        files, removed = audit_files(self.fs, self.directory), 0
        for path, successor in pairwise(files):
            first = first_line_of(self.fs, successor)
            if first is None or first["ts_ms"] >= before_ms or first["seq"] - 1 > up_to_seq:
                break
            facts = {"last": first["seq"] - 1, "hash": str(first["prev"])}
            # Crash here: the line is there and so is the file; it goes the next time.
            self.append(AuditEvent(RETIRED, "done", {}, facts), sync=True)
            self.fs.unlink(path)
            self.fs.fsync_dir(self.directory)
            removed += 1
        return removed

    # -- start --------------------------------------------------------------------------------

    def _open(self) -> None:
        make_durable_dir(self.fs, self.directory)
        files = audit_files(self.fs, self.directory)
        lost = 0
        for path in reversed(files):
            file = self.fs.open(path)
            size = file.size()
            tail = _last_whole_line(file)
            lost += size - tail.end
            if tail.end < size:
                file.truncate(tail.end)
            # The process before this one may have died before it synced what was read here.
            file.fsync()
            if tail.link is not None or path == files[0]:
                self._file, self._position, self.link = file, tail.end, tail.link or ChainEnd()
                self._day, self.unsealed = tail.day, tail.unsealed
                self._all_synced()
                break
            # Nothing in it survived, and its name is of a line that another file will have.
            file.close()
            self.fs.unlink(path)
            self.fs.fsync_dir(self.directory)
        if lost:
            gap = AuditEvent("audit.gap", "found", {}, {"lost_bytes": lost})
            self.append(gap, sync=True)


def lock_directory(fs: Filesystem, directory: str) -> FileLock:
    """LogDirLocked while a broker has it: two would write over each other's lines."""
    return fs.lock(join(directory, LOCK_FILE))


def make_durable_dir(fs: Filesystem, path: str) -> None:
    """A directory whose name is not synced is gone after a loss of power, with all it holds."""
    if fs.exists(path):
        return
    parent = parent_of(path)
    if parent != path:
        make_durable_dir(fs, parent)
    fs.make_dir(path)
    fs.fsync_dir(parent)


class _Tail:
    """Where the last whole line of a file ends, and what it says."""

    def __init__(self) -> None:
        self.end = 0
        self.link: ChainEnd | None = None
        self.day = 0
        self.unsealed = 0


def _last_whole_line(file: File) -> _Tail:
    """What a crash has torn can only lie behind the last line that was synced: there the first line
    that does not follow ends the file. What is wrong before that is no crash's work, and stays for
    `verify` to find."""
    tail, position, is_torn = _Tail(), 0, False
    for data in lines_of(file):
        position += len(data) + 1
        try:
            line = parsed(data, 0)
        except BrokenChain:
            is_torn = True
            continue
        if line.get("outcome") == "asked" or line["kind"] in _SYNCED:
            is_torn = False
        elif tail.link is not None and line["prev"] != tail.link.hash:
            is_torn = True
        if is_torn:
            continue
        if tail.link is None:
            tail.day = line["ts_ms"] // DAY_MS
        tail.unsealed = 0 if line["kind"] == SEAL else tail.unsealed + 1
        tail.end, tail.link = position, link_of(line)
    return tail


def chain_name(fs: Filesystem, directory: str) -> str:
    """Tells this chain from another of the same node: the first digits of its oldest hash."""
    for path in audit_files(fs, directory):
        first = first_line_of(fs, path)
        if first is not None:
            return str(first["h"])[:16]
    return NO_HASH[:16]
