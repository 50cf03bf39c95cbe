"""The commands of sources, mirrors, bulk compaction and erasure, as far as they need no Spark."""

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledgerstone.cli.pipeline import app
from ledgerstone.cli.pipeline_flows import FAILED_EXIT
from ledgerstone.pipeline.errors import DefinitionError

KEY = "someone@example.com"


def pipeline_in(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "users.db") as db:
        db.execute("CREATE TABLE users(id TEXT PRIMARY KEY, text TEXT)")
        db.execute("INSERT INTO users VALUES (?, 'x')", (KEY,))
    db.close()
    path = tmp_path / "users.yaml"
    path.write_text(
        "name: users\nsource: {topic: users}\nkey: {format: string, column: id}\n"
        "value: {format: string, column: text}\ntable: {type: sqlite, path: users.db}\n"
    )
    return path


def test_a_search_tells_where_the_key_is_and_never_the_key(tmp_path: Path) -> None:
    definition = pipeline_in(tmp_path)

    done = CliRunner().invoke(app, ["erase", str(definition), "--key", KEY, "--search", "--json"])

    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == FAILED_EXIT
    assert [each["verdict"] for each in found] == ["residue", "clean"]
    assert KEY not in done.stdout


def test_an_erase_takes_the_key_from_standard_input_and_leaves_nothing(tmp_path: Path) -> None:
    definition = pipeline_in(tmp_path)

    done = CliRunner().invoke(app, ["erase", str(definition), "--key", "-"], input=f"{KEY}\n")

    assert done.exit_code == 0, done.stdout
    assert KEY.encode() not in (tmp_path / "users.db").read_bytes()


def test_a_wrong_definition_of_a_source_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "source.yaml"
    path.write_text("name: x\n")

    done = CliRunner().invoke(app, ["source", str(path), "--once"])

    assert isinstance(done.exception, DefinitionError)


@pytest.mark.parametrize("command", ["compact", "source", "mirror", "erase"])
def test_every_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"])

    assert done.exit_code == 0
    assert "Usage" in done.stdout
