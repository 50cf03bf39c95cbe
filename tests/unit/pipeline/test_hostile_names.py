"""Names that are syntax somewhere, as keys, values and columns of every target."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.erasing import purge, search
from ledgerstone.pipeline.erasing_files import FileVerdict
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.hostile_names import NAMES
from tests.kit.table_model import (
    Record,
    changes_of,
    positions_after,
)
from tests.kit.table_targets import TARGETS, table_at


def pipeline_with(target: str, location: str, columns: dict[str, Any], **table: Any) -> Pipeline:
    return define(
        {
            "name": "hostile",
            "source": {"topic": "hostile"},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "json", "columns": columns},
            "table": table_at(target, location, **table),
        },
        directory=Path(),
    )


def is_refused(target: str, name: str) -> bool:
    try:
        pipeline_with(target, "x", {name: "string"})
    except DefinitionError:
        return True
    return False


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_keys_columns_and_values_come_back_as_they_were(target: str, location: str) -> None:
    names = [name for name in NAMES if not is_refused(target, name)]
    if target == "sql-mariadb":
        # The server refuses the first two, and we the third.
        names = [name for name in names if not name.endswith(" ") and max(name) <= "\uffff"]
        names = [name for name in names if "%" not in name]
    pipeline = pipeline_with(target, location, dict.fromkeys(names, "string"))
    value = {name: f"of {name}" for name in names}
    records = [
        Record(0, at, name.encode(), json.dumps({**value, names[0]: name}).encode(), at)
        for at, name in enumerate(NAMES)
    ]
    changes = changes_of(pipeline, records)
    table = open_target(pipeline)
    table.prepare()

    table.apply(changes, positions_after(changes))
    # Updated and deleted by key as well.
    again = [Record(0, 50 + at, each.key, None, 100) for at, each in enumerate(records[::2])]
    again += [
        Record(0, 80 + at, each.key, each.value, 100) for at, each in enumerate(records[1::2])
    ]
    table.apply(changes_of(pipeline, again), {0: 200})
    rows = [row for piece in table.rows() for row in piece.to_pylist()]
    table.close()

    assert len(names) == {"delta": 21, "sql-mariadb": 35}.get(target, 40)
    assert sorted(row["id"] for row in rows) == sorted(NAMES[1::2])
    for row in rows:
        assert {name: row[name] for name in names} == {**value, names[0]: row["id"]}


@pytest.mark.parametrize("name", NAMES)
def test_hostile_name_of_a_table_is_a_name(name: str, tmp_path: Path) -> None:
    pipeline = pipeline_with("sqlite", str(tmp_path / "db"), {"text": "string"}, name=name)
    changes = changes_of(pipeline, [Record(0, 0, name.encode(), b'{"text": "x"}', 1)])
    table = open_target(pipeline)
    table.prepare()

    table.apply(changes, {0: 1})
    rows = [row["id"] for piece in table.rows() for row in piece.to_pylist()]
    positions = table.positions()
    table.close()

    assert (rows, positions) == ([name], {0: 1})


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_key_is_purged_and_no_other(target: str, location: str, tmp_path: Path) -> None:
    pipeline = pipeline_with(target, location, {"text": "string"}, deletes="soft")
    records = [Record(0, at, each.encode(), b"{}", 1) for at, each in enumerate(NAMES)]
    table = open_target(pipeline)
    table.prepare()
    table.apply(changes_of(pipeline, records), {0: 40})
    table.close()
    hostile = NAMES[1].encode()

    purge(pipeline, hostile)
    found = search(pipeline, hostile)[0]
    table = open_target(pipeline)
    rows = [row["id"] for piece in table.rows() for row in piece.to_pylist()]
    table.close()

    # Files of a database that only SQLAlchemy knows are not looked at.
    expected = FileVerdict.UNKNOWN if target.startswith("sql-") else FileVerdict.CLEAN
    assert found.verdict is expected, found
    assert sorted(rows) == sorted(name for name in NAMES if name != NAMES[1])
