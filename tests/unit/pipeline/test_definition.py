"""Definitions: what is taken, what is refused and with which words."""

from pathlib import Path
from typing import Any

import pytest

from ledgerstone.pipeline.column_types import ColumnType
from ledgerstone.pipeline.definition import Deletes, Format, TargetType
from ledgerstone.pipeline.definition_files import define, definitions_in, load_definition, read_yaml
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.explaining import explain
from ledgerstone.pipeline.sources.source_files import load_source


def content(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "people",
        "source": {"topic": "people"},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "json", "columns": {"name": "string"}},
        "table": {"type": "sqlite", "path": "people.db"},
    }
    for place, value in changes.items():
        here, names = made, place.split("__")
        for name in names[:-1]:
            here = here[name]
        here[names[-1]] = value
    return made


def test_yaml_definition_is_read_with_defaults_and_paths_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "people.yaml"
    file.write_text(
        """
name: people
source: {topic: people, bootstrap: "${BROKER}"}
key: {format: string, column: id}
value:
  format: json
  columns:
    name: string
    city: {type: string, path: address.city}
table: {type: sqlite, path: data/people.db, deletes: soft}
""",
        encoding="utf-8",
    )

    pipeline = load_definition(file, {"BROKER": "10.0.0.1:9092"})

    assert pipeline.source.bootstrap == "10.0.0.1:9092"
    assert pipeline.source.group == "ledgerstone-pipeline-people"
    assert [(each.name, each.path) for each in pipeline.value.columns] == [
        ("name", ("name",)),
        ("city", ("address", "city")),
    ]
    assert (pipeline.target.type, pipeline.target.deletes) == (TargetType.SQLITE, Deletes.SOFT)
    assert pipeline.target.location == str(tmp_path / "data/people.db")
    assert pipeline.work == str(tmp_path / ".ledgerstone/people")


def test_settings_of_spark_are_taken_by_their_own_names() -> None:
    said = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": 4,
        "spark.ui.enabled": True,
    }

    pipeline = define(content(spark=said), directory=Path())

    assert pipeline.spark == {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "true",
    }


def test_python_definition_is_a_mapping_named_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "people.py"
    file.write_text(f"pipeline = {content()!r}", encoding="utf-8")

    assert load_definition(file).name == "people"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a/b"}, "name: 'a/b'"),
        ({"extra": 1}, "extra: 1: unknown key; known keys are name"),
        ({"source__topic": "no topic"}, "source.topic: 'no topic'"),
        ({"source__max_offsets_per_batch": "10"}, "source.max_offsets_per_batch: '10'"),
        ({"key__format": "xml"}, "key.format: 'xml': expected one of string, raw, json, avro"),
        (
            {"value__columns": {"a": "int"}},
            "value.columns.a.type: 'int': expected one of string, int32",
        ),
        ({"value__columns": {}}, "value.columns: {}: expected 1 to 500"),
        ({"value__columns": {"_a": "string"}}, "'_a': names that begin with _"),
        ({"value__columns": {"ID": "string"}}, "'ID': the name collides with 'id'"),
        ({"value__columns": {"a\0": "string"}}, "none of them zero"),
        ({"value__columns": {"\ud800": "string"}}, "lone surrogate"),
        ({"table__type": "oracle"}, "table.type: 'oracle'"),
        (
            {"table__deletes": "maybe"},
            "table.deletes: 'maybe': expected one of hard, soft, history",
        ),
        ({"table__buckets": 0}, "table.buckets: 0"),
        ({"on_bad_record": "dead_letter"}, "^dead_letter_topic: goes with"),
        (
            {"source": {"topik": "people"}},
            r"^source.topik: 'people': unknown key; .* did you mean topic\?",
        ),
        ({"source": {}}, "^source.topic: is missing"),
        ({"table": None}, "^table: is missing"),
        ({"key": {"format": "string", "columns": {}}}, "did you mean column"),
        ({"table__connection": "x"}, "^table.connection: 'x': unknown key; known keys are path"),
        ({"dead_letter_topic": "x"}, "goes with on_bad_record: dead_letter"),
        ({"every": "soon"}, "every: 'soon': expected a duration"),
        ({"source": []}, r"source: \[\]: expected a mapping"),
        ({"spark": "2g"}, "spark: '2g': expected settings like spark.driver.memory: 2g"),
        ({"spark": {"driver.memory": "2g"}}, "spark: 'driver.memory': names of Spark's settings"),
        ({"spark": {"spark.master": "x"}}, "spark.spark.master: 'x': use the key master"),
        ({"spark": {"spark.x": [1]}}, "text, a number, true or false"),
        ({"source__max_bytes_per_batch": 5}, "source.max_bytes_per_batch: 5"),
        ({"table__catalog": {"type": "rest"}}, "table.catalog: .*: is for iceberg"),
        ({"table__retention": "1d"}, "is for delta and iceberg"),
        ({"table": {"type": "iceberg", "path": "t", "catalog": "x"}}, "table.catalog: 'x'"),
        ({"table": {"type": "sql", "path": "t"}}, "table.path: 't': unknown key"),
        ({"name": ".."}, "^name: '..': up to 100 letters"),
        ({"name": "."}, "^name: '.': up to 100 letters"),
        ({"work": "a\0b"}, "^work: .*: contains a zero character"),
        ({"table__path": "a\0b"}, "^table.path: .*: contains a zero character"),
        ({"value": {"format": "avro", "schema": "a\0b"}}, "^value.schema: .*zero character"),
        ({"name": "sqlite-people"}, "table.name: 'sqlite_people': SQLite reserves names"),
        (
            {"table": {"type": "sql", "connection": "sqlite:///t", "name": "SQLite_t"}},
            "table.name: 'SQLite_t': SQLite reserves names",
        ),
    ],
)
def test_definition_is_refused_with_the_key_to_blame(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        define(content(**changes), directory=Path())


def test_delta_refuses_names_that_delta_readers_refuse() -> None:
    table = {"type": "delta", "path": "t"}
    columns = {"a b": "string"}

    with pytest.raises(DefinitionError, match="Delta allows none"):
        define(content(table=table, value__columns=columns), directory=Path())


def test_missing_variable_is_named(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("name: ${NOBODY}", encoding="utf-8")

    with pytest.raises(DefinitionError, match=r"name: .*there is no variable NOBODY"):
        load_definition(file, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("name: [1\nsource: 2", "not YAML: line 2, column 7: while parsing a flow sequence, "),
        ("name: \tx: y", "not YAML: line 1, column 7"),
        ("name: a\nwork: w\nname: b", "not YAML: line 3, column 1: name is there twice"),
    ],
)
def test_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "people.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    for load in (load_definition, load_source):
        with pytest.raises(DefinitionError) as refused:
            load(file)
        assert str(refused.value).startswith(f"{file}: {message}")
        assert "\n" not in str(refused.value)


def test_a_definition_that_contains_itself_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "people.yaml"
    file.write_text("name: &it [*it]", encoding="utf-8")

    with pytest.raises(DefinitionError, match="contains itself"):
        load_definition(file)


def test_keys_that_are_merged_may_be_replaced() -> None:
    found = read_yaml("a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: *b, y: 4}")

    assert found == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 3, "y": 4}}


def test_a_file_that_may_not_be_read_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("name: x", encoding="utf-8")
    read_bytes = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path.name == "a.yaml":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refused)

    found = definitions_in(tmp_path)

    assert [Path(each).name for each in found] == ["a.yaml", "b.yaml"]


def test_columns_come_from_the_avro_schema(tmp_path: Path) -> None:
    (tmp_path / "s.avsc").write_text(
        """{"type": "record", "name": "P", "fields": [
            {"name": "age", "type": ["null", "int"]},
            {"name": "home", "type": {"type": "record", "name": "H", "fields": [
                {"name": "since", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "tags", "type": {"type": "array", "items": "string"}}]}}]}""",
        encoding="utf-8",
    )

    pipeline = define(content(value={"format": "avro", "schema": "s.avsc"}), directory=tmp_path)

    assert pipeline.value.format is Format.AVRO
    assert [(each.name, each.type) for each in pipeline.value.columns] == [
        ("age", ColumnType.INT32),
        ("home_since", ColumnType.TIMESTAMP),
        ("home_tags", ColumnType.JSON),
    ]


def test_explanation_never_shows_a_connection_string() -> None:
    table = {"type": "postgres", "connection": "postgresql://u:secret@db/x"}

    text = "\n".join(explain(define(content(table=table), directory=Path())))

    assert "secret" not in text
    assert "id string (key)" in text
    assert "A tombstone deletes its row." in text
