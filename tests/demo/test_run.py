"""The whole demo, without Spark and with it, and what it leaves when it fails."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ledgerstone.demo import running, table_side
from ledgerstone.demo.errors import DemoFailed, NoRepository
from ledgerstone.demo.git_history import Limits, read_git_history
from ledgerstone.demo.history import History
from tests.demo.repositories import odd_repository, plain_repository

TIMEOUT_S = 300


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_side, "missing_for_spark", lambda: ["pyspark"])


def run(wishes: running.Wishes) -> str:
    output = StringIO()
    running.run_demo(wishes, Console(file=output, width=200))
    return output.getvalue()


@pytest.mark.usefixtures("no_spark")
def test_without_spark_everything_but_the_table_is_shown(tmp_path: Path) -> None:
    repository = plain_repository(tmp_path / "repository")
    kept = tmp_path / "kept"

    told = run(running.Wishes(repository=repository.path, keep=kept, wait=False))

    assert "no table: pyspark missing" in told
    assert told.count(repository.head()[:10]) == 4
    assert "'author:Bea Nother' is erased, with a receipt" in told
    assert (kept / "receipt.json").exists()
    assert not (kept / "ready.json").exists(), "the broker was not stopped in order"


@pytest.mark.usefixtures("no_spark")
def test_where_there_is_no_repository_the_sample_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    told = run(running.Wishes(wait=False))

    assert "using the sample instead" in told
    assert "240 commits" in told
    assert "the sample's own model at COMMIT" in told


@pytest.mark.usefixtures("no_spark")
def test_tree_that_is_not_the_truth_ends_it_and_everything_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = plain_repository(tmp_path / "repository")
    kept = tmp_path / "kept"

    def read_wrong(directory: Path, limits: Limits, *, now_ms: int) -> History:
        history = read_git_history(directory, limits, now_ms=now_ms)
        return replace(history, truth=lambda commit: history.truth(commit)[:-1] + b"?\0")

    monkeypatch.setattr(running, "read_git_history", read_wrong)

    with pytest.raises(DemoFailed, match="the topic, folded is not the tree of commit"):
        run(running.Wishes(repository=repository.path, keep=kept, wait=False))
    assert (kept / "broker.log").exists()
    assert not (kept / "ready.json").exists(), "the broker was not stopped in order"


def test_repository_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    kept = tmp_path / "kept"

    with pytest.raises(NoRepository, match="is not in a git repository"):
        run(running.Wishes(repository=tmp_path, keep=kept, wait=False))
    assert not kept.exists()


def test_directory_that_holds_something_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(DemoFailed, match="is not empty"):
        run(running.Wishes(keep=tmp_path, wait=False))
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ledgerstone", "demo", *words]


def environment(temporary: Path) -> dict[str, str]:
    temporary.mkdir()
    return {**os.environ, "TMPDIR": str(temporary), "COLUMNS": "200"}


@pytest.mark.spark
def test_demo_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    repository = odd_repository(tmp_path / "repository")
    temporary = tmp_path / "temporary"

    done = subprocess.run(
        command("--repository", str(repository.path)),
        env=environment(temporary),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.count(repository.head()[:10]) == 5
    assert "the SQLite table" in done.stdout
    assert "none holds the key" in done.stdout
    assert list(temporary.iterdir()) == []


@pytest.mark.spark
def test_demo_that_is_told_to_end_leaves_nothing(tmp_path: Path) -> None:
    repository = plain_repository(tmp_path / "repository")
    temporary = tmp_path / "temporary"
    process = subprocess.Popen(
        command("--repository", str(repository.path)),
        env=environment(temporary),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    # Wait until there is something to stop: a broker, and a Spark that is still starting.
    assert process.stdout is not None
    told = next(line for line in process.stdout if "a broker starts" in line)
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    process.stdout.close()

    assert process.wait(TIMEOUT_S) == 128 + signal.SIGTERM, told
    assert list(temporary.iterdir()) == []
