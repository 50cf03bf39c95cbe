"""A change history: commits in order, what each did to which path, and a truth to check by. Pure.

Folding the changes of the first n commits gives the tree of commit n. The source of the history
also provides that tree (`truth`), in the format of `git ls-tree -r -l -z`, independently of the
changes. The log and the table are compared with it, byte by byte.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass

SUBMODULE_MODE: Final = "160000"


class FileEntry(NamedTuple):
    """A path in a tree, as git has it."""

    mode: str
    blob: str
    size_bytes: int | None  # None: a submodule, or a blob that is lost


class FileChange(NamedTuple):
    path: bytes
    entry: FileEntry | None  # None: deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    commit_id: str
    author: bytes
    time_ms: int
    changes: tuple[FileChange, ...]


class ChangeCounts(NamedTuple):
    """For a whole history; a rename is a delete and an add."""

    adds: int
    updates: int
    deletes: int

    @property
    def total(self) -> int:
        return self.adds + self.updates + self.deletes


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    origin: str  # where it is from, in words
    commits: tuple[Commit, ...]
    truth: Callable[[str], bytes]
    truth_name: str  # the command that prints it; {commit} stands for the commit
    note: str = ""  # what a viewer should know about the choice of commits

    @property
    def last(self) -> Commit:
        return self.commits[-1]

    @property
    def counts(self) -> ChangeCounts:
        return count_changes(self.commits)

    def middle(self) -> int:
        """The number of commits before the earlier point in time: about half of the changes, never
        all."""
        wanted = self.counts.total // 2
        seen = 0
        for index, commit in enumerate(self.commits[:-1]):
            seen += len(commit.changes)
            if seen >= wanted:
                return index + 1
        return max(len(self.commits) - 1, 1)


def count_changes(commits: tuple[Commit, ...]) -> ChangeCounts:
    live: dict[bytes, None] = {}
    adds = updates = deletes = 0
    for path, entry in _changes(commits):
        if entry is None:
            deletes += 1
            live.pop(path, None)
        elif path in live:
            updates += 1
        else:
            adds += 1
            live[path] = None
    return ChangeCounts(adds, updates, deletes)


def _changes(commits: tuple[Commit, ...]) -> Iterator[FileChange]:
    for commit in commits:
        yield from commit.changes


def short(commit_id: str) -> str:
    return commit_id[:10]
