"""A built-in history: made by a fixed recipe, the same on every machine. Pure.

Files have contents here, and the truth is computed from those, as git would: it never uses the
changes that are streamed. `sample_worktrees` gives the contents, so that a test can feed them to
git itself.
"""

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from ledgerstone.demo.history import Commit, FileChange, FileEntry, History

COMMITS: Final = 240
_SEED: Final = 20_240_229
_START_MS: Final = 1_704_067_200_000  # 2024-01-01T00:00:00Z
_LONGEST_PAUSE_MS: Final = 36 * 3_600_000
_AUTHORS: Final = (b"Juno Farrow", b"Mats Okafor", b"Ines Calloway", b"Teo Lindqvist")
_PLACES: Final = ("docs", "src/river", "src/river/gates", "src/bridge", "tests", "tools", "assets")
_WORDS: Final = (
    "anchor", "basin", "canal", "delta", "ebb", "ferry", "gauge", "harbour", "inlet", "jetty",
    "keel", "lock", "mooring", "narrows", "oar", "pier", "quay", "reach", "sluice", "tide",
)  # fmt: skip
_SUFFIXES: Final = (".py", ".md", ".txt", ".json")
_PLAIN: Final = "100644"
_EXECUTABLE: Final = "100755"

Worktree = dict[bytes, "Content"]


class Content(NamedTuple):
    mode: str
    data: bytes


class _Dice:
    """Our own random numbers: the library's may change with its version."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % bound


def sample_history() -> History:
    trees: dict[str, Worktree] = {}
    commits = []
    for commit, worktree in sample_worktrees():
        commits.append(commit)
        trees[commit.commit_id] = worktree
    return History(
        origin="the bundled sample history",
        commits=tuple(commits),
        truth=lambda commit_id: _listing(trees[commit_id]),
        truth_name="the sample's own model at {commit}",
    )


def sample_worktrees() -> Iterator[tuple[Commit, Worktree]]:
    """Each commit, and every file after it."""
    dice = _Dice(_SEED)
    worktree: Worktree = {}
    time_ms = _START_MS
    for number in range(COMMITS):
        before = dict(worktree)
        for _ in range(12 if number == 0 else 1 + dice.below(4)):
            _work(dice, worktree)
        time_ms += 60_000 + dice.below(_LONGEST_PAUSE_MS)
        changes = tuple(_changes(before, worktree))
        # Later authors have fewer commits.
        author = _AUTHORS[min(dice.below(len(_AUTHORS)), number // 40)]
        commit_id = hashlib.sha1(f"{number} {time_ms} {changes}".encode()).hexdigest()
        yield (
            Commit(commit_id=commit_id, author=author, time_ms=time_ms, changes=changes),
            dict(worktree),
        )


def _work(dice: _Dice, worktree: Worktree) -> None:
    """One change to one file."""
    kind = dice.below(20)
    paths = sorted(worktree)
    if len(paths) < 12 or kind < 6:
        worktree[_new_path(dice, worktree)] = Content(_PLAIN, _text(dice))
        return
    path = paths[dice.below(len(paths))]
    mode, data = worktree[path]
    if kind < 14:
        worktree[path] = Content(mode, data + _text(dice))
    elif kind < 17:
        del worktree[path]
    elif kind < 19:
        worktree[_new_path(dice, worktree)] = worktree.pop(path)
    else:
        worktree[path] = Content(_PLAIN if mode == _EXECUTABLE else _EXECUTABLE, data)


def _new_path(dice: _Dice, worktree: Worktree) -> bytes:
    while True:
        place = _PLACES[dice.below(len(_PLACES))]
        words = [_WORDS[dice.below(len(_WORDS))] for _ in range(2)]
        path = f"{place}/{'_'.join(words)}{_SUFFIXES[dice.below(len(_SUFFIXES))]}".encode()
        if path not in worktree:
            return path


def _text(dice: _Dice) -> bytes:
    words = (_WORDS[dice.below(len(_WORDS))] for _ in range(5 + dice.below(40)))
    return " ".join(words).encode() + b"\n"


def _changes(before: Worktree, after: Worktree) -> Iterator[FileChange]:
    for path in sorted({**before, **after}):
        if path not in after:
            yield FileChange(path, None)
        elif before.get(path) != after[path]:
            mode, data = after[path]
            yield FileChange(path, FileEntry(mode, _blob(data), len(data)))


def _blob(data: bytes) -> str:
    """The git blob id of a file's contents."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _listing(worktree: Worktree) -> bytes:
    lines = []
    for path in sorted(worktree):
        mode, data = worktree[path]
        lines.append(
            b"%s blob %s %7d\t%s\0" % (mode.encode(), _blob(data).encode(), len(data), path)
        )
    return b"".join(lines)
