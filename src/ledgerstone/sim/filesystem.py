"""A disk in memory that loses what was not synced, and fails when and where it is told to.

Contract: `ledgerstone.fs`. Which faults exist, and why storage must survive exactly those, is in
sim/README.md. Same dice and same calls give the same trace and the same survivors.

The model has three layers:

- A file is an inode: what the page cache shows, what the platter holds, and the changes between.
- A directory has cached and durable entries; the changes between them are an ordered journal.
- `kill` keeps the page cache. `power_loss` lets the dice choose among the unsynced changes.
"""

import errno
import os
from fnmatch import fnmatchcase
from typing import NoReturn

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import LogDirLocked, NotPrivate
from ledgerstone.fs import join
from ledgerstone.sim.platter import (
    Directory,
    Edit,
    EntryOperation,
    Inode,
    Node,
    PowerLoss,
    UnsyncedChange,
    make_durable,
    set_entry,
    split_for_fsync,
    surviving,
    walk_cached,
    walk_durable,
)
from ledgerstone.types import INT64_MAX, Buffer, WritableBuffer

NAME_BYTES_MAX = 255


class SimulatedCrash(BaseException):
    """The process died here. Not an Exception: code that handles errors must not survive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    error: int | None  # None is a crash
    torn: bool = False
    lose_dirty: bool = False


@dataclass(slots=True)
class _Rule:
    operation: str
    path_pattern: str
    times: int | None  # None is for ever
    fault: _Fault
    skip: int = 0


class SimFile:
    """One open handle. It is traced under the path it was opened by, whatever the name is now."""

    __slots__ = ("_boot", "_disk", "_inode", "_path")

    def __init__(self, disk: "SimFilesystem", inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._boot = disk.boot_count

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return len(self._live().cached)

    def pread(self, size: int, position: int) -> bytes:
        start, end = self._readable(size, position)
        return bytes(memoryview(self._inode.cached)[start:end])

    def pread_into(self, buffer: WritableBuffer, position: int) -> int:
        view = memoryview(buffer).cast("B")
        start, end = self._readable(view.nbytes, position)
        view[: end - start] = memoryview(self._inode.cached)[start:end]
        return end - start

    def pwrite(self, data: Buffer, position: int) -> None:
        inode = self._live()
        if position < 0:
            raise _error(errno.EINVAL, self._path)
        payload = bytes(data)
        if payload:
            self._disk.write(self._path, inode, UnsyncedChange(position, payload))

    def truncate(self, size: int) -> None:
        inode = self._live()
        if size < 0:
            raise _error(errno.EINVAL, self._path)
        self._disk.write(self._path, inode, UnsyncedChange(size, None))

    def fsync(self) -> None:
        self._disk.sync(self._path, self._live())

    def close(self) -> None:
        self._boot = -1

    def _readable(self, size: int, position: int) -> tuple[int, int]:
        inode = self._live()
        if size < 0 or position < 0:
            raise _error(errno.EINVAL, self._path)
        self._disk.check_read(self._path)
        start = min(position, len(inode.cached))
        return start, min(position + size, len(inode.cached))

    def _live(self) -> Inode:
        self._disk.check_alive()
        if self._boot != self._disk.boot_count:
            # Closed, or opened by a process that a reboot has ended since.
            raise _error(errno.EBADF, self._path)
        return self._inode


class SimFileLock:
    __slots__ = ("_disk", "inode", "path")

    def __init__(self, disk: "SimFilesystem", inode: Inode, path: str) -> None:
        self._disk = disk
        self.inode = inode
        self.path = path

    def release(self) -> None:
        self._disk.unlock(self)


class SimFilesystem:
    """Invariant: `trace[n - 1]` is the n-th mutating operation since the disk or clone was made."""

    def __init__(
        self, *, dice: Dice, clock: Clock | None = None, capacity_bytes: int | None = None
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.operation_count = 0
        self.trace: list[str] = []
        self.boot_count = 0
        self._dice = dice
        self._clock = clock
        self._crashed = False
        self._faults: dict[int, _Fault] = {}
        self._rules: list[_Rule] = []
        self._journal: list[EntryOperation] = []
        self._locks: dict[int, SimFileLock] = {}
        self._root = Directory(0, self._now_ms())
        self._inode_count = 1

    # --- faults -------------------------------------------------------------------------------

    def crash_at(self, n: int, *, torn: bool = False) -> None:
        """The n-th operation dies before it takes effect; torn, a pwrite leaves a part behind."""
        self._plan(n, _Fault(error=None, torn=torn))

    def fail_at(self, n: int, error: int, *, torn: bool = False, lose_dirty: bool = False) -> None:
        """The n-th operation raises OSError. `lose_dirty`: a failed fsync drops its dirty pages."""
        self._plan(n, _Fault(error=error, torn=torn, lose_dirty=lose_dirty))

    def fail_matching(
        self,
        operation: str,
        path_pattern: str,
        error: int,
        *,
        times: int | None = 1,
        torn: bool = False,
        lose_dirty: bool = False,
    ) -> None:
        """Shell patterns for operation and path; `pread` fails too. `times=None` is for ever."""
        fault = _Fault(error=error, torn=torn, lose_dirty=lose_dirty)
        self._rules.append(_Rule(operation, path_pattern, times, fault))

    def crash_matching(
        self, operation: str, path_pattern: str, *, skip: int = 0, torn: bool = False
    ) -> None:
        """Dies at an operation on such a path, after `skip` of them; patterns as above."""
        fault = _Fault(error=None, torn=torn)
        self._rules.append(_Rule(operation, path_pattern, 1, fault, skip))

    def clear_faults(self) -> None:
        self._faults.clear()
        self._rules.clear()

    def kill(self) -> None:
        """The process is gone and a new one may start: no handles, no locks, same page cache."""
        self.boot_count += 1
        self._crashed = False
        self._locks.clear()

    def power_loss(self, mode: PowerLoss = "random") -> None:
        """The machine is gone and starts again; `mode` says which unsynced changes survived."""
        if mode == "all":
            survivors = self._journal
        else:
            survivors = surviving(self._journal, self._dice) if mode == "random" else []
        for operation in survivors:
            make_durable(operation)
        self._journal = []
        for node in walk_durable(self._root):
            if isinstance(node, Directory):
                node.cached = dict(node.durable)
            else:
                node.lose_power(mode, self._dice)
        self.kill()

    def clone(self, *, dice: Dice | None = None) -> "SimFilesystem":
        """The same disk and page cache in another machine: count and trace at zero, no faults.

        Without `dice` of its own the clone draws from this one's, and what survives in it then
        depends on every throw before.
        """
        twin = SimFilesystem(
            dice=dice or self._dice, clock=self._clock, capacity_bytes=self.capacity_bytes
        )
        memo: dict[int, Node] = {}
        twin._root = self._root.copy(memo)
        twin._inode_count = self._inode_count
        twin._journal = [
            tuple(
                Edit(directory.copy(memo), name, node.copy(memo) if node else None)
                for directory, name, node in operation
            )
            for operation in self._journal
        ]
        return twin

    def files(self) -> dict[str, bytes]:
        """What a process sees now: every file by path, in path order."""
        return {path: bytes(inode.cached) for path, inode in walk_cached("/", self._root)}

    # --- ledgerstone.fs.Filesystem ------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimFile:
        parent, name, node = self._locate(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            node = self._create(path, parent, name)
        return SimFile(self, node, path)

    def create_private(self, path: str) -> SimFile:
        parent, name, node = self._locate(path)
        if node is not None:
            raise _error(errno.EEXIST, path)
        inode = self._create(path, parent, name)
        inode.mode = 0o600
        return SimFile(self, inode, path)

    def open_private(self, path: str) -> SimFile:
        mode = self.mode_of(path)
        if mode & 0o077:
            raise NotPrivate(path, f"has mode {mode:04o}")
        return self.open(path)

    def open_read_only(self, path: str) -> SimFile:
        return self.open(path)

    def make_read_only(self, path: str) -> None:
        node = self._existing(path)[2]
        self._begin("make_read_only", path)
        if isinstance(node, Inode):
            node.mode = 0o444

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def list_dir(self, path: str) -> list[str]:
        return sorted(self._directory(path).cached)

    def make_dir(self, path: str) -> None:
        self.check_alive()
        names = _components(path)
        directory, walked = self._root, "/"
        for depth, name in enumerate(names, start=1):
            walked = join(walked, name)
            node = directory.cached.get(name)
            if isinstance(node, Inode):
                raise _error(errno.EEXIST if depth == len(names) else errno.ENOTDIR, path)
            if node is None:
                self._begin("mkdir", walked)
                node = Directory(self._next_inode_number(), self._now_ms())
                self._edit(Edit(directory, name, node))
            directory = node

    def remove_dir(self, path: str) -> None:
        parent, name, node = self._existing(path)
        if isinstance(node, Inode):
            raise _error(errno.ENOTDIR, path)
        if node.cached:
            raise _error(errno.ENOTEMPTY, path)
        self._begin("rmdir", path)
        self._edit(Edit(parent, name, None))

    def rename(self, source: str, target: str) -> None:
        source_parent, source_name, node = self._existing(source)
        target_parent, target_name, replaced = self._locate(target)
        if replaced is node:
            return
        if isinstance(node, Directory):
            _check_directory_rename(source, target, replaced)
        elif isinstance(replaced, Directory):
            raise _error(errno.EISDIR, target)
        self._begin("rename", source, f" {target}")
        self._edit(Edit(source_parent, source_name, None), Edit(target_parent, target_name, node))

    def unlink(self, path: str) -> None:
        parent, name, node = self._existing(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        self._begin("unlink", path)
        self._edit(Edit(parent, name, None))

    def size_of(self, path: str) -> int:
        node = self._existing(path)[2]
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return len(node.cached)

    def mode_of(self, path: str) -> int:
        node = self._existing(path)[2]
        return node.mode if isinstance(node, Inode) else 0o755

    def mtime_ms(self, path: str) -> int:
        return self._existing(path)[2].mtime_ms

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        node = self._existing(path)[2]
        self._begin("set_mtime", path, f" {mtime_ms}")
        node.mtime_ms = mtime_ms

    def room_of(self, path: str) -> tuple[int, int]:
        self._existing(path)
        total = INT64_MAX if self.capacity_bytes is None else self.capacity_bytes
        return total, max(0, total - self._used())

    def fsync_dir(self, path: str) -> None:
        directory = self._directory(path)
        self._begin("fsync_dir", path)
        flushed, self._journal = split_for_fsync(self._journal, directory)
        for operation in flushed:
            make_durable(operation)

    def lock(self, path: str) -> SimFileLock:
        parent, name, node = self._locate(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        if node is None:
            node = self._create(path, parent, name)
        if node.number in self._locks:
            raise LogDirLocked(f"{path} is locked by another process")
        lock = self._locks[node.number] = SimFileLock(self, node, path)
        return lock

    # --- what handles ask of their disk ---------------------------------------------------------

    def check_alive(self) -> None:
        if self._crashed:
            raise SimulatedCrash(f"the process died at operation {self.operation_count}")

    def check_read(self, path: str) -> None:
        fault = self._matching("pread", path)
        if fault is not None:
            self._strike(fault, path)

    def write(self, path: str, inode: Inode, change: UnsyncedChange) -> None:
        position, data = change
        if data is None:
            self._begin("truncate", path, f" {position}")
            inode.change(change, self._now_ms())
            return
        fault = self._announce("pwrite", path, f" {position}+{len(data)}")
        writable = len(data)
        if fault is not None:
            writable = self._dice.below(len(data)) if fault.torn else 0
        elif self.capacity_bytes is not None:
            writable = min(len(data), self._room_after(inode, position))
        if writable:
            inode.change(UnsyncedChange(position, data[:writable]), self._now_ms())
        if fault is not None:
            self._strike(fault, path)
        if writable < len(data):
            raise _error(errno.ENOSPC, path)

    def sync(self, path: str, inode: Inode) -> None:
        fault = self._announce("fsync", path)
        if fault is not None:
            if fault.lose_dirty:
                inode.forget()
            self._strike(fault, path)
        inode.sync()

    def unlock(self, lock: SimFileLock) -> None:
        self.check_alive()
        if self._locks.get(lock.inode.number) is not lock:
            # Released before, or taken by a process that a reboot has ended since.
            return
        if self._find(lock.path) is lock.inode:
            self.unlink(lock.path)
        del self._locks[lock.inode.number]

    # --- inside ---------------------------------------------------------------------------------

    def _plan(self, n: int, fault: _Fault) -> None:
        if n <= self.operation_count:
            raise ValueError(f"operation {n} is past; the last one was {self.operation_count}")
        self._faults[n] = fault

    def _begin(self, operation: str, path: str, detail: str = "") -> None:
        fault = self._announce(operation, path, detail)
        if fault is not None:
            self._strike(fault, path)

    def _announce(self, operation: str, path: str, detail: str = "") -> _Fault | None:
        self.operation_count += 1
        self.trace.append(f"{operation} {path}{detail}")
        return self._faults.pop(self.operation_count, None) or self._matching(operation, path)

    def _matching(self, operation: str, path: str) -> _Fault | None:
        for rule in self._rules:
            if (
                rule.times != 0
                and fnmatchcase(operation, rule.operation)
                and fnmatchcase(path, rule.path_pattern)
            ):
                if rule.skip:
                    rule.skip -= 1
                    continue
                if rule.times is not None:
                    rule.times -= 1
                return rule.fault
        return None

    def _strike(self, fault: _Fault, path: str) -> NoReturn:
        if fault.error is not None:
            raise _error(fault.error, path)
        self._crashed = True
        raise SimulatedCrash(f"operation {self.operation_count}: {self.trace[-1]}")

    def _create(self, path: str, parent: Directory, name: str) -> Inode:
        self._begin("create", path)
        inode = Inode(self._next_inode_number(), self._now_ms(), self._now_ms())
        self._edit(Edit(parent, name, inode))
        return inode

    def _edit(self, *operation: Edit) -> None:
        for directory, name, node in operation:
            set_entry(directory.cached, name, node)
            directory.mtime_ms = self._now_ms()
        self._journal.append(operation)

    def _next_inode_number(self) -> int:
        self._inode_count += 1
        return self._inode_count

    def _now_ms(self) -> int:
        return self._clock.now_ms() if self._clock else 0

    def _room_after(self, inode: Inode, position: int) -> int:
        """How many bytes fit at `position`; overwriting in place is always possible."""
        assert self.capacity_bytes is not None
        return max(0, len(inode.cached) + max(0, self.capacity_bytes - self._used()) - position)

    def _used(self) -> int:
        return sum(len(file.cached) for _, file in walk_cached("/", self._root))

    def _locate(self, path: str) -> tuple[Directory, str, Node | None]:
        """The directory this name belongs in, the name, and what it means now."""
        self.check_alive()
        components = _components(path)
        if not components:
            raise _error(errno.EISDIR, path)
        directory = self._root
        for name in components[:-1]:
            node = directory.cached.get(name)
            if not isinstance(node, Directory):
                raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)
            directory = node
        return directory, components[-1], directory.cached.get(components[-1])

    def _existing(self, path: str) -> tuple[Directory, str, Node]:
        parent, name, node = self._locate(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return parent, name, node

    def _find(self, path: str) -> Node | None:
        if not _components(path):
            self.check_alive()
            return self._root
        try:
            return self._locate(path)[2]
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _directory(self, path: str) -> Directory:
        node = self._existing(path)[2] if _components(path) else self._find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return node


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _components(path: str) -> list[str]:
    names = [name for name in path.split("/") if name not in ("", ".")]
    for name in names:
        if name == "..":
            raise ValueError(f"{path}: the simulated disk has no '..'")
        if len(name) > NAME_BYTES_MAX // 4 and len(name.encode()) > NAME_BYTES_MAX:
            raise _error(errno.ENAMETOOLONG, path)
    return names


def _check_directory_rename(source: str, target: str, replaced: Node | None) -> None:
    if isinstance(replaced, Inode):
        raise _error(errno.ENOTDIR, target)
    if replaced is not None and replaced.cached:
        raise _error(errno.ENOTEMPTY, target)
    above, below = _components(source), _components(target)
    if len(below) > len(above) and below[: len(above)] == above:
        raise _error(errno.EINVAL, target)
