"""Definitions of sources: read from YAML, refused with the key that is wrong."""

from pathlib import Path
from typing import Any

import pytest

from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.sources.row_bytes import KeyFormat
from ledgerstone.pipeline.sources.shape import FileMode
from ledgerstone.pipeline.sources.source_definition import SourceType, read_source
from ledgerstone.pipeline.sources.source_files import load_source

TABLE: dict[str, Any] = {
    "name": "users",
    "bootstrap": "127.0.0.1:9092",
    "topic": "users",
    "from": {"type": "sqlite", "location": "users.db", "table": "users", "key": ["id"]},
}


def changed(**origin: Any) -> dict[str, Any]:
    return {**TABLE, "from": {**TABLE["from"], **origin}}


def test_a_table_has_sensible_defaults() -> None:
    source = read_source(TABLE)

    assert source.type is SourceType.SQLITE
    assert source.work == ".ledgerstone/users"
    assert source.shape is not None
    assert source.shape.key_format is KeyFormat.STRING
    assert source.shape.version_column is None


def test_several_key_columns_make_a_key_of_json() -> None:
    source = read_source(changed(key=["a", "b"]))

    assert source.shape is not None
    assert source.shape.key_format is KeyFormat.JSON


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({**TABLE, "topic": None}, "topic"),
        ({**TABLE, "nmae": "x"}, "nmae"),
        ({**TABLE, "from": []}, "from"),
        (changed(type="oracle"), "from.type"),
        (changed(key=[]), "from.key"),
        (changed(key=["a", "b"], key_format="string"), "from.key_format"),
        (changed(max_deletes=-1), "from.max_deletes"),
        (changed(slot="s"), "from.slot"),
        (changed(columns=[1]), "from.columns"),
        ({**TABLE, "from": {"type": "files", "location": "d", "table": "t"}}, "from.table"),
        ({**TABLE, "from": {"type": "files", "location": "d", "mode": "x"}}, "from.mode"),
        ({**TABLE, "from": {"type": "files", "location": "d", "pattern": 5}}, "from.pattern"),
        ({**TABLE, "work": 5}, "work"),
        ({**TABLE, "name": ".."}, "name"),
        ({**TABLE, "name": "a/../../b"}, "name"),
        ({**TABLE, "name": "/tmp"}, "name"),
    ],
)
def test_a_wrong_definition_is_refused_with_its_key(content: object, key: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        read_source(content)

    assert refused.value.key == key


def test_every_text_of_a_definition_may_name_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "db.yaml"
    file.write_text(
        "name: d\nbootstrap: h:1\ntopic: t\n"
        'from: {type: sqlite, location: d.db, table: t, key: ["${KEY}", b]}\n'
    )

    shape = load_source(file, {"KEY": "a"}).shape

    assert shape is not None
    assert shape.key_columns == ("a", "b")


def test_paths_are_meant_from_where_the_file_lies_and_passwords_from_the_environment(
    tmp_path: Path,
) -> None:
    files = tmp_path / "files.yaml"
    files.write_text(
        "name: f\nbootstrap: h:1\ntopic: t\nfrom: {type: files, location: inbox, mode: lines}\n"
    )
    database = tmp_path / "db.yaml"
    database.write_text(
        "name: d\nbootstrap: h:1\ntopic: t\n"
        'from: {type: postgres, location: "password=${SECRET}", table: t, key: id}\n'
    )

    read = load_source(files, {})
    secret = load_source(database, {"SECRET": "x"})

    assert (read.location, read.mode) == (str(tmp_path / "inbox"), FileMode.LINES)
    assert secret.location == "password=x"
    with pytest.raises(DefinitionError, match="no variable SECRET"):
        load_source(database, {})
