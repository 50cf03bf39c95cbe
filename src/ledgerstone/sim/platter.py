"""What a disk holds and what it may have lost: inodes, directories, and who survives power loss.

Half of `sim.filesystem`, the half without faults and handles. The model is in README.md: a file's
unsynced changes survive in any mix of sectors, a directory's unsynced names as a prefix.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ledgerstone.clock import Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.fs import join

SECTOR_BYTES = 512

PowerLoss = Literal["none", "all", "random"]


class UnsyncedChange(NamedTuple):
    """A write of `data` at `position`, or a truncation to `position` where `data` is None."""

    position: int
    data: bytes | None


@dataclass(slots=True, eq=False)
class Inode:
    number: int
    mtime_ms: int
    durable_mtime_ms: int
    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[UnsyncedChange] = field(default_factory=list)
    # Set by a failed fsync that dropped its dirty pages: the cache now shows what no disk holds.
    forgotten: bool = False
    mode: int = 0o644

    def change(self, change: UnsyncedChange, now_ms: int) -> None:
        _apply(self.cached, change)
        self.pending.append(change)
        self.mtime_ms = now_ms

    def sync(self) -> None:
        size_before = len(self.durable)
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()
        # As with fdatasync: the mtime reaches the disk only along with a change of size.
        if len(self.durable) != size_before:
            self.durable_mtime_ms = self.mtime_ms

    def forget(self) -> None:
        self.forgotten = self.forgotten or bool(self.pending)
        self.pending.clear()

    def lose_power(self, mode: PowerLoss, dice: Dice) -> None:
        if self.mtime_ms != self.durable_mtime_ms:
            survives = mode == "all" or (mode == "random" and dice.below(2) == 1)
            self.mtime_ms = self.mtime_ms if survives else self.durable_mtime_ms
            self.durable_mtime_ms = self.mtime_ms
        if not self.pending and not self.forgotten:
            return
        if mode == "all":
            for change in self.pending:
                _apply(self.durable, change)
        elif mode == "random":
            self.durable = _survivor(self.durable, self.pending, dice)
        self.pending = []
        self.forgotten = False
        self.cached = bytearray(self.durable)

    def copy(self, memo: "dict[int, Node]") -> "Inode":
        twin = memo.get(self.number)
        if twin is None:
            twin = memo[self.number] = Inode(
                self.number,
                self.mtime_ms,
                self.durable_mtime_ms,
                bytearray(self.cached),
                bytearray(self.durable),
                list(self.pending),
                self.forgotten,
                self.mode,
            )
        assert isinstance(twin, Inode)
        return twin


@dataclass(slots=True, eq=False)
class Directory:
    number: int
    mtime_ms: int
    cached: "dict[str, Node]" = field(default_factory=dict)
    durable: "dict[str, Node]" = field(default_factory=dict)

    def copy(self, memo: "dict[int, Node]") -> "Directory":
        twin = memo.get(self.number)
        if twin is None:
            twin = memo[self.number] = Directory(self.number, self.mtime_ms)
            twin.cached = {name: node.copy(memo) for name, node in self.cached.items()}
            twin.durable = {name: node.copy(memo) for name, node in self.durable.items()}
        assert isinstance(twin, Directory)
        return twin


Node = Inode | Directory


class Edit(NamedTuple):
    """One name in one directory now means `node`, or nothing."""

    directory: Directory
    name: str
    node: Node | None


# The edits of one create, rename, unlink, mkdir or rmdir: they survive together or not at all.
EntryOperation = tuple[Edit, ...]


def set_entry(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def make_durable(operation: EntryOperation) -> None:
    for directory, name, node in operation:
        set_entry(directory.durable, name, node)


def split_for_fsync(
    journal: list[EntryOperation], directory: Directory
) -> tuple[list[EntryOperation], list[EntryOperation]]:
    """What a directory's fsync writes out, and what stays unsynced.

    A rename between two directories is one transaction, so syncing either directory takes along
    what the other one did before it. Walking backwards finds all of that in one go.
    """
    wanted = {directory.number}
    flushed, kept = [], []
    for operation in reversed(journal):
        touched = {edit.directory.number for edit in operation}
        if wanted & touched:
            wanted |= touched
            flushed.append(operation)
        else:
            kept.append(operation)
    return flushed[::-1], kept[::-1]


def surviving(journal: list[EntryOperation], dice: Dice) -> list[EntryOperation]:
    """For every directory a prefix of its operations, chosen by the dice; none is split."""
    counts: dict[int, int] = {}
    for operation in journal:
        for number in {edit.directory.number: None for edit in operation}:
            counts[number] = counts.get(number, 0) + 1
    left = {number: dice.below(count + 1) for number, count in counts.items()}
    survivors = []
    for operation in journal:
        touched = {edit.directory.number: None for edit in operation}
        survives = all(left[number] > 0 for number in touched)
        for number in touched:
            # An operation that is lost ends the prefix of every directory it touches.
            left[number] = left[number] - 1 if survives else 0
        if survives:
            survivors.append(operation)
    return survivors


def _apply(content: bytearray, change: UnsyncedChange) -> None:
    position, data = change
    if position > len(content):
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _sectors(change: UnsyncedChange) -> Iterator[UnsyncedChange]:
    """A write cut at sector borders; a disk writes a sector whole or not at all."""
    position, data = change
    assert data is not None
    start = 0
    while start < len(data):
        end = start + SECTOR_BYTES - (position + start) % SECTOR_BYTES
        yield UnsyncedChange(position + start, data[start:end])
        start = end


def _survivor(durable: bytearray, pending: list[UnsyncedChange], dice: Dice) -> bytearray:
    """One content the platter may hold after power loss: nothing new, all, a prefix, or a mess."""
    outcome = dice.below(4)
    if outcome == 3:
        return _scattered(durable, pending, dice)
    content = bytearray(durable)
    if outcome == 0:
        return content
    count = len(pending) if outcome == 1 else dice.below(len(pending))
    for change in pending[:count]:
        _apply(content, change)
    if count < len(pending) and pending[count].data is not None:
        sectors = list(_sectors(pending[count]))
        for sector in sectors[: dice.below(len(sectors))]:
            _apply(content, sector)
    return content


def _scattered(durable: bytearray, pending: list[UnsyncedChange], dice: Dice) -> bytearray:
    """Sizes and truncations are journaled in order up to some point; sectors arrive as they like.

    A sector that was allocated but never written reads as zeros, or as what lay there before.
    """
    committed = dice.below(len(pending) + 1)
    stale = dice.below(4) == 0
    content, size = bytearray(durable), len(durable)
    for index, change in enumerate(pending):
        position, data = change
        if data is None:
            if index >= committed:
                # Writes after a lost truncation went to blocks the old file does not have.
                break
            _grow(content, position, dice, stale=False)
            del content[position:]
            size = position
            continue
        if index < committed:
            size = max(size, position + len(data))
        for sector in _sectors(change):
            if dice.below(2) == 1:
                _grow(content, sector.position, dice, stale=stale)
                _apply(content, sector)
    _grow(content, size, dice, stale=stale)
    del content[size:]
    return content


def _grow(content: bytearray, size: int, dice: Dice, *, stale: bool) -> None:
    missing = size - len(content)
    if missing > 0:
        content.extend(dice.random_bytes(missing) if stale else bytes(missing))


def walk_cached(path: str, directory: Directory) -> Iterator[tuple[str, Inode]]:
    for name, node in sorted(directory.cached.items(), key=lambda entry: entry[0]):
        if isinstance(node, Directory):
            yield from walk_cached(join(path, name), node)
        else:
            yield join(path, name), node


def walk_durable(directory: Directory) -> Iterator[Node]:
    yield directory
    for node in directory.durable.values():
        if isinstance(node, Directory):
            yield from walk_durable(node)
        else:
            yield node
