"""The history of a git repository, bounded, and `git ls-tree` as its truth. Shell.

Commits are taken along first parents, newest first, until there are enough commits or changes. Each
is the difference to the one before it, so a merge brings in its branch's changes. The oldest one is
taken as a whole tree. Renames are not detected: they are a delete and an add.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.demo.errors import DemoFailed, TooLittleHistory
from ledgerstone.demo.git_calls import Git
from ledgerstone.demo.history import (
    SUBMODULE_MODE,
    Commit,
    FileChange,
    FileEntry,
    History,
    count_changes,
    short,
)

DEFAULT_MAX_COMMITS: Final = 2_000
# Some commits change everything: the waiting time depends on changes.
MAX_CHANGES: Final = 30_000
MIN_COMMITS: Final = 3
MIN_FILES: Final = 3
# This many deletes are worth showing; searched in this many commits before the last.
WANTED_DELETES: Final = 5
LONGEST_WAY_BACK: Final = 30

_DIFFERENCES: Final = (
    "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames",
    # Settings would change these two even here.
    "--no-relative", "--ignore-submodules=none",
)  # fmt: skip
_ABSENT_MODE: Final = b"000000"
_FORMAT: Final = "--format=tformat:%H%x09%ct%x09%an"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_commits: int = DEFAULT_MAX_COMMITS
    max_changes: int = MAX_CHANGES


class _Head(NamedTuple):
    """A commit's own data."""

    commit_id: str
    author: bytes
    time_ms: int


def read_git_history(directory: Path, limits: Limits, *, now_ms: int) -> History:
    """Raises NoRepository, or TooLittleHistory if nothing was ever changed or deleted."""
    git = Git(directory)
    git.check()
    if _is_partial(git):
        raise TooLittleHistory(f"{_name(git)} is a partial clone without its files")
    # Commits before this one are not taken.
    heads = _heads(git, limits.max_commits + 1, now_ms)
    differences = _differences(git, heads, limits)
    taken = heads[: len(differences) + 1][: limits.max_commits]
    first = Commit(
        commit_id=taken[-1].commit_id,
        author=taken[-1].author,
        time_ms=taken[-1].time_ms,
        changes=_between(git, _empty_tree(git), taken[-1].commit_id),
    )
    later = [
        Commit(commit_id=head.commit_id, author=head.author, time_ms=head.time_ms, changes=changes)
        for head, changes in zip(taken[:-1], differences, strict=False)
    ]
    commits = _with_sizes(git, (first, *reversed(later)))
    history = History(
        origin=f"the git history of {_name(git)}",
        commits=commits,
        truth=lambda commit: git.ask("ls-tree", "-r", "-l", "-z", "--full-tree", commit),
        truth_name="git ls-tree -rlz --full-tree {commit}",
        note=""
        if len(taken) == len(heads)
        else f"the last {len(taken)} commits of a longer history",
    )
    return _with_deletes(git, _worth_showing(history))


def _name(git: Git) -> str:
    top = git.ask("rev-parse", "--path-format=absolute", "--git-common-dir").decode(
        "utf-8", "replace"
    )
    place = Path(top.rstrip("\n"))
    return place.parent.name if place.name == ".git" else place.name


def _is_partial(git: Git) -> bool:
    """In a partial clone git would fetch file by file, or fail."""
    names = git.ask("config", "--list", "--local", "--name-only", "-z").lower().split(b"\0")
    return any(
        name == b"extensions.partialclone"
        or (name.startswith(b"remote.") and name.endswith(b".promisor"))
        for name in names
    )


def _heads(git: Git, count: int, now_ms: int) -> list[_Head]:
    """Newest first."""
    words = ("rev-list", "--first-parent", f"--max-count={count}", "--encoding=UTF-8", _FORMAT)
    found = []
    for line in git.ask(*words, "HEAD", "--").split(b"\n"):
        if not line or line.startswith(b"commit "):
            continue
        commit_id, seconds, author = line.split(b"\t", 2)
        # A broker refuses records from the future, and some commits claim to be from there.
        time_ms = min(max(int(seconds), 0) * 1000, now_ms)
        found.append(_Head(commit_id.decode(), author or b"nobody", time_ms))
    return found


def _differences(git: Git, heads: list[_Head], limits: Limits) -> list[tuple[FileChange, ...]]:
    """The changes of each commit, newest first, up to the limit."""
    pairs = [f"{new.commit_id} {old.commit_id}" for new, old in pairwise(heads)]
    found: list[tuple[FileChange, ...]] = []
    room = limits.max_changes
    with git.stream(*_DIFFERENCES, "--stdin", "--always", lines=pairs) as chunks:
        for changes in _by_commit(_tokens(chunks)):
            room -= len(changes)
            if room < 0 and found:
                break
            found.append(changes)
    return found


def _between(git: Git, old: str, new: str) -> tuple[FileChange, ...]:
    with git.stream(*_DIFFERENCES, old, new) as chunks:
        return tuple(_changes(_tokens(chunks)))


def _empty_tree(git: Git) -> str:
    """Its id depends on the repository's hash function; git knows it without storing it."""
    return git.ask("hash-object", "-t", "tree", "--stdin").decode().strip()


# -- what diff-tree prints ----------------------------------------------------------------------


def _tokens(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
    if rest:
        raise DemoFailed(f"git diff-tree ended in the middle of {rest[:80]!r}")


def _by_commit(tokens: Iterator[bytes]) -> Iterator[tuple[FileChange, ...]]:
    """The name of each commit, then its changes."""
    changes: list[FileChange] | None = None
    for token in tokens:
        if token.startswith(b":"):
            assert changes is not None, f"a change before any commit: {token!r}"
            changes.append(_change(token, next(tokens)))
            continue
        if changes is not None:
            yield tuple(changes)
        changes = []
    if changes is not None:
        yield tuple(changes)


def _changes(tokens: Iterator[bytes]) -> Iterator[FileChange]:
    for token in tokens:
        yield _change(token, next(tokens))


def _change(facts: bytes, path: bytes) -> FileChange:
    """`:100644 100755 <blob> <blob> M`: modes and blobs before and after."""
    _, mode, _, blob, _ = facts.split(b" ")
    if mode == _ABSENT_MODE:
        return FileChange(path, None)
    return FileChange(path, FileEntry(mode.decode(), blob.decode(), None))


# -- sizes --------------------------------------------------------------------------------------


def _with_sizes(git: Git, commits: tuple[Commit, ...]) -> tuple[Commit, ...]:
    entries = [change.entry for commit in commits for change in commit.changes]
    blobs = dict.fromkeys(
        each.blob for each in entries if each is not None and each.mode != SUBMODULE_MODE
    )
    answer = git.ask(
        "cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", lines=blobs
    )
    sizes: dict[str, int] = {}
    for line in answer.decode().splitlines():
        blob, _, size = line.partition(" ")
        if size.isdecimal():
            sizes[blob] = int(size)
    return tuple(_sized(commit, sizes) for commit in commits)


def _sized(commit: Commit, sizes: dict[str, int]) -> Commit:
    changes = tuple(
        FileChange(path, entry and entry._replace(size_bytes=sizes.get(entry.blob)))
        for path, entry in commit.changes
    )
    return replace(commit, changes=changes)


# -- is there enough to show? -----------------------------------------------------------------


def _worth_showing(history: History) -> History:
    counts = history.counts
    if len(history.commits) < MIN_COMMITS:
        raise TooLittleHistory(f"{history.origin} gives {len(history.commits)} commits")
    if counts.adds < MIN_FILES or counts.updates + counts.deletes == 0:
        raise TooLittleHistory(
            f"{history.origin} has {counts.adds} adds, {counts.updates} updates, "
            f"{counts.deletes} deletes"
        )
    return history


def _with_deletes(git: Git, history: History) -> History:
    """If no file was ever deleted, the last step is a checkout of an earlier commit, which deletes
    the files that it does not have."""
    if history.counts.deletes:
        return history
    last = history.last
    best: tuple[int, Commit] | None = None
    for earlier in reversed(history.commits[-LONGEST_WAY_BACK:-1]):
        changes = _between(git, last.commit_id, earlier.commit_id)
        deletes = sum(1 for change in changes if change.entry is None)
        if deletes <= (best[0] if best else 0):
            continue
        best = deletes, replace(last, commit_id=earlier.commit_id, changes=changes)
        if deletes >= WANTED_DELETES:
            break
    if best is None:
        raise TooLittleHistory(f"in {history.origin} nothing was ever deleted")
    note = (
        f"no file was ever deleted here, so the last step is `git checkout "
        f"{short(best[1].commit_id)}`"
    )
    commits = (*history.commits, *_with_sizes(git, (best[1],)))
    assert count_changes(commits).deletes == best[0], "a checkout deletes what is there"
    return replace(history, commits=commits, note="; ".join(filter(None, (history.note, note))))
