"""The bundled sample: the same everywhere, and what git would say of it."""

import hashlib
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

from ledgerstone.demo.sample_history import sample_history, sample_worktrees
from tests.demo.repositories import Repository
from tests.demo.test_git_history import folded

DIGEST = "6c7dd99523f3dd31cde7ba519a247fffdd3aff494f397b516c3ed8d3f2c61933"

_PRINT = (
    "from ledgerstone.demo.sample_history import sample_history as h; import hashlib; "
    "print(hashlib.sha256(repr(h().commits).encode()).hexdigest())"
)


def test_sample_is_the_same_on_every_machine() -> None:
    digests = [
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]

    assert digests == [DIGEST, DIGEST]
    assert hashlib.sha256(repr(sample_history().commits).encode()).hexdigest() == DIGEST


def test_folded_changes_are_the_samples_tree_at_every_commit() -> None:
    history = sample_history()

    found = folded(history)

    assert all(tree == history.truth(commit) for commit, tree in found)


def test_sample_has_something_of_everything() -> None:
    history = sample_history()

    counts = history.counts

    assert min(counts) > 100
    assert len({commit.author for commit in history.commits}) == 4
    assert [each.time_ms for each in history.commits] == sorted(
        each.time_ms for each in history.commits
    )


def test_git_says_the_same_of_the_samples_files(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    history = sample_history()

    for commit, worktree in islice(sample_worktrees(), 0, None, 60):
        # From contents to a tree, with git alone.
        lines = []
        for path, content in worktree.items():
            blob = repository.git("hash-object", "-w", "--stdin", stdin=content.data).strip()
            lines.append(b"%s %s\t%s" % (content.mode.encode(), blob, path))
        repository.git("read-tree", "--empty")
        repository.git("update-index", "--index-info", stdin=b"\n".join(lines) + b"\n")
        tree = repository.git("write-tree").decode().strip()

        assert history.truth(commit.commit_id) == repository.git("ls-tree", "-rlz", tree)
