"""`ledgerstone pipeline` where it needs neither Spark nor a broker."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerstone.cli.key_options import erased_key
from ledgerstone.pipeline.status import RunStatus, held, read_status, write_status

GOOD = {
    "name": "people",
    "source": {"topic": "people", "bootstrap": "127.0.0.1:1"},
    "key": {"format": "string", "column": "id"},
    "value": {"format": "string", "column": "said"},
    "table": {"type": "sqlite", "path": "t"},
    "work": "work",
}


def pipeline(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ledgerstone", "pipeline", *arguments],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    file = tmp_path / "people.yaml"
    file.write_text(json.dumps(GOOD), encoding="utf-8")
    return file


def test_bad_definition_is_one_line_that_names_the_key(definition: Path) -> None:
    definition.write_text(json.dumps({**GOOD, "every": 5}), encoding="utf-8")

    done = pipeline("validate", str(definition))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("ledgerstone: every: 5: expected a duration like 500ms, 10s, 5m or 7d\n")


def test_good_definition_is_explained(definition: Path) -> None:
    done = pipeline("explain", str(definition))

    assert done.returncode == 0
    assert "writes   sqlite table people" in done.stdout


def test_missing_file_is_one_line(tmp_path: Path) -> None:
    done = pipeline("validate", str(tmp_path / "no.yaml"))

    said = f"ledgerstone: {tmp_path}/no.yaml: cannot be read: No such file or directory\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_validation_says_which_table_it_is(definition: Path) -> None:
    definition.write_text(json.dumps({**GOOD, "name": "my-people"}), encoding="utf-8")

    done = pipeline("validate", str(definition))

    assert done.stdout == "my-people: sqlite table my_people, 2 columns, valid\n"


def test_status_of_a_pipeline_that_was_killed_says_so(tmp_path: Path) -> None:
    write_status(tmp_path, RunStatus(pipeline="p", pid=1, started_ms=1, updated_ms=2))

    with held(tmp_path):
        running = read_status(tmp_path)
    killed = read_status(tmp_path)

    assert running is not None
    assert killed is not None
    assert (running["state"], killed["state"]) == ("running", "killed")


@pytest.mark.parametrize("command", ["erase", "mirror"])
def test_erasure_of_a_key_that_was_not_given_is_refused(
    command: str, definition: Path, tmp_path: Path
) -> None:
    """A pipe that failed: the empty key is not the one that was erased, and would be clean."""
    what = {
        "erase": [str(definition), "--search"],
        "mirror": ["people", "--to", "127.0.0.1:1", "--work", str(tmp_path / "m"), "--once"],
    }

    done = pipeline(command, *what[command], "--key", "-", "--erasure", "ER-1")

    assert done.returncode == 2, done.stderr
    assert "the key is empty" in done.stderr


def test_key_from_a_pipe_is_its_line_without_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\r\nmore\n")))

    assert erased_key("-") == b"caf\xe9"
