"""Compares the history read from git with `git ls-tree` at every commit."""

import subprocess
from pathlib import Path

import pytest

from ledgerstone.demo.encoding import FILES, HistoryEncoder, TreeRow, listing, tree_row
from ledgerstone.demo.errors import NoRepository, TooLittleHistory
from ledgerstone.demo.git_history import Limits, read_git_history
from ledgerstone.demo.history import History
from tests.demo.repositories import (
    START_S,
    Repository,
    merged_repository,
    odd_repository,
    plain_repository,
)

NOW_MS = (START_S + 10**8) * 1000


def read(path: Path, *, now_ms: int = NOW_MS, **limits: int) -> History:
    return read_git_history(path, Limits(**limits), now_ms=now_ms)


def folded(history: History) -> list[tuple[str, bytes]]:
    """The tree that each commit's records fold to, without a broker."""
    encoder, live, found = HistoryEncoder(), dict[bytes, TreeRow](), []
    for commit in history.commits:
        for topic, key, value, _ in encoder.records_of(commit):
            if topic != FILES:
                continue
            if value is None:
                del live[key]
            else:
                live[key] = tree_row(key, value)
        found.append((commit.commit_id, listing(live.values())))
    return found


def trees(repository: Repository, history: History) -> list[tuple[str, bytes]]:
    return [
        (each.commit_id, repository.git("ls-tree", "-rlz", "--full-tree", each.commit_id))
        for each in history.commits
    ]


@pytest.mark.parametrize("make", [plain_repository, odd_repository, merged_repository])
def test_folded_changes_are_the_tree_at_every_commit(
    make: type[Repository], tmp_path: Path
) -> None:
    repository = make(tmp_path)

    history = read(tmp_path)

    assert folded(history) == trees(repository, history)
    assert history.last.commit_id == repository.head()
    assert all(history.truth(commit) == tree for commit, tree in trees(repository, history))


def test_history_with_sha256_names_is_read_as_well(tmp_path: Path) -> None:
    repository = plain_repository(tmp_path, "--object-format=sha256")

    history = read(tmp_path)

    assert folded(history) == trees(repository, history)
    assert len(history.last.commit_id) == 64


def test_rename_is_a_tombstone_and_a_new_key(tmp_path: Path) -> None:
    plain_repository(tmp_path)

    renamed = read(tmp_path).commits[2]

    changes = {change.path: change.entry is None for change in renamed.changes}
    assert changes == {b"docs/a.md": True, b"src/two.py": True, b"src/three.py": False}


def test_merge_counts_along_first_parents(tmp_path: Path) -> None:
    merged_repository(tmp_path)

    history = read(tmp_path)

    assert len(history.commits) == 6
    assert b"Cyd Thirdly" not in {commit.author for commit in history.commits}
    assert {change.path for change in history.commits[4].changes} == {b"side/only.txt", b"empty"}


@pytest.mark.parametrize("count", [3, 4, 7])
def test_bounded_history_begins_with_a_whole_tree(count: int, tmp_path: Path) -> None:
    repository = odd_repository(tmp_path)

    history = read(tmp_path, max_commits=count)

    assert len(history.commits) == count
    assert folded(history) == trees(repository, history)
    assert history.note == f"the last {count} commits of a longer history"


def test_history_is_bounded_by_changes_too(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    for number in range(10):
        for name in range(20):
            repository.write(f"file-{name}", f"{number}\n")
        if number == 8:
            (tmp_path / "file-7").unlink()
        repository.commit()

    history = read(tmp_path, max_changes=70)

    assert [len(commit.changes) for commit in history.commits] == [20, 20, 20, 20]
    assert folded(history) == trees(repository, history)


def test_shallow_clone_begins_where_it_is_cut(tmp_path: Path) -> None:
    odd_repository(tmp_path / "whole")
    command = ["git", "clone", "--quiet", "--depth", "4", "--no-checkout"]
    subprocess.run([*command, f"file://{tmp_path}/whole", tmp_path / "cut"], check=True)

    history = read(tmp_path / "cut")

    assert len(history.commits) == 4
    assert history.origin == "the git history of cut"
    assert all(tree == history.truth(commit) for commit, tree in folded(history))


def test_clone_whose_files_are_elsewhere_is_told_so(tmp_path: Path) -> None:
    plain_repository(tmp_path / "whole").git("config", "uploadpack.allowFilter", "true")
    command = ["git", "clone", "--quiet", "--filter=blob:none", "--no-checkout"]
    subprocess.run([*command, f"file://{tmp_path}/whole", tmp_path / "part"], check=True)

    with pytest.raises(TooLittleHistory, match="part is a partial clone"):
        read(tmp_path / "part")


def test_lost_file_has_no_size(tmp_path: Path) -> None:
    repository = plain_repository(tmp_path)
    blob = repository.git("rev-parse", "HEAD:README.md").decode().strip()
    (tmp_path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    history = read(tmp_path)

    entries = {change.path: change.entry for change in history.commits[0].changes}
    assert entries[b"README.md"] == ("100644", blob, None)
    assert b"     BAD\tREADME.md\0" in history.truth(repository.head())
    assert all(tree == history.truth(commit) for commit, tree in folded(history))


def test_directory_inside_a_work_tree_and_a_bare_repository_give_the_same(tmp_path: Path) -> None:
    repository = plain_repository(tmp_path / "work")
    repository.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))

    inside, bare = read(tmp_path / "work" / "src"), read(tmp_path / "bare.git")

    assert inside.commits == bare.commits == read(tmp_path / "work").commits
    assert inside.truth(repository.head()) == bare.truth(repository.head())
    assert (inside.origin, bare.origin) == (
        "the git history of work",
        "the git history of bare.git",
    )


def test_settings_of_the_user_change_nothing(tmp_path: Path) -> None:
    repository = odd_repository(tmp_path)
    before = read(tmp_path).commits

    for key, value in (
        ("diff.renames", "copies"), ("diff.relative", "true"), ("log.showSignature", "true"),
        ("core.quotePath", "true"), ("diff.ignoreSubmodules", "all"), ("core.abbrev", "5"),
        ("i18n.logOutputEncoding", "latin-1"), ("color.ui", "always"), ("log.date", "relative"),
    ):  # fmt: skip
        repository.git("config", key, value)

    assert read(tmp_path / "docs" if (tmp_path / "docs").is_dir() else tmp_path).commits == before


def test_repository_named_by_the_environment_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_repository(tmp_path / "here")
    odd_repository(tmp_path / "there")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "there" / ".git"))

    history = read(tmp_path / "here")

    assert history.origin == "the git history of here"
    assert len(history.commits) == 4


def test_commit_from_the_future_is_dated_now(tmp_path: Path) -> None:
    plain_repository(tmp_path)

    history = read(tmp_path, now_ms=(START_S + 150) * 1000)

    seconds = [commit.time_ms // 1000 - START_S for commit in history.commits]
    assert seconds == [60, 120, 150, 150]


def test_without_any_delete_the_last_step_is_a_checkout(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    commits = []
    for number in range(4):
        repository.write("always", f"{number}\n")
        for name in range(3):
            repository.write(f"since-{number}-{name}", "new\n")
        commits.append(repository.commit())

    history = read(tmp_path)

    assert [commit.commit_id for commit in history.commits] == [*commits, commits[1]]
    assert history.counts.deletes == 6
    assert f"git checkout {commits[1][:10]}" in history.note
    assert folded(history) == trees(repository, history)


def test_directory_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRepository, match="is not in a git repository with a commit"):
        read(tmp_path)
    with pytest.raises(NoRepository, match=r"there is no .*nowhere"):
        read(tmp_path / "nowhere")


def test_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    Repository(tmp_path)

    with pytest.raises(NoRepository, match="with a commit"):
        read(tmp_path)


def test_machine_without_git_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoRepository, match="git is not installed"):
        read(tmp_path)


def test_history_with_nothing_to_show_is_told_so(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    for name in ("a", "b", "c", "d"):
        repository.write(name, "1\n")
    repository.commit()
    with pytest.raises(TooLittleHistory, match="1 commits"):
        read(tmp_path)

    for number in range(3):
        repository.write("a", f"{number + 2}\n")
        repository.commit()

    with pytest.raises(TooLittleHistory, match="nothing was ever deleted"):
        read(tmp_path)
