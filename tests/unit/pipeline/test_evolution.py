"""Definitions that change while their table stays: columns that come, types that become wider."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ledgerstone.pipeline.column_types import named_type
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.state.comparing import compare
from ledgerstone.pipeline.tables.evolution import is_wider
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.target import TableTarget
from tests.kit.table_model import Record, changes_of
from tests.kit.table_targets import TARGETS, table_at

BEFORE = {"n": "int32", "price": "decimal(5,2)", "share": "int32", "total": "int64"}
AFTER = {
    "n": "int64",
    "price": "decimal(12,4)",
    "share": "float64",
    "total": "decimal(22,1)",
    "added": "string",
    "when": "timestamp",
}
RECORDS = [
    Record(0, 0, b'{"id": 1}', b'{"n": 1, "price": "1.50", "share": 3, "total": 7}', 1),
    Record(0, 1, b'{"id": 2}', b'{"n": null, "price": null, "share": null, "added": "x"}', 2),
]
# Iceberg's specification allows no more.
AFTER_IN_ICEBERG = {**BEFORE, "n": "int64", "price": "decimal(12,2)", "added": "string"}
LATER = Record(
    0,
    2,
    b'{"id": 5000000000}',
    json.dumps({"n": 2**40, "price": "10000000.0001", "share": 0.5, "total": "0.1"}).encode(),
    3,
)


def pipeline_of(
    target: str, location: str, columns: dict[str, str], key: str = "int64", **table: Any
) -> Pipeline:
    return define(
        {
            "name": "evolved",
            "source": {"topic": "evolved"},
            "key": {"format": "json", "columns": {"id": key}},
            "value": {"format": "json", "columns": columns},
            "table": table_at(target, location, **table),
        },
        directory=Path(),
    )


@contextmanager
def opened(pipeline: Pipeline) -> Iterator[TableTarget]:
    table = open_target(pipeline)
    try:
        table.prepare()
        yield table
    finally:
        table.close()


def rows_of(table: TableTarget) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for piece in table.rows() for row in piece.to_pylist()}


@pytest.mark.parametrize("deletes", ["hard", "history"])
@pytest.mark.parametrize("target", TARGETS)
def test_table_goes_on_with_more_columns_and_wider_types(
    target: str, location: str, deletes: str
) -> None:
    before = pipeline_of(target, location, BEFORE, "int32", deletes=deletes)
    columns = AFTER_IN_ICEBERG if target == "iceberg" else AFTER
    after = pipeline_of(target, location, columns, deletes=deletes)
    later = LATER
    if target == "iceberg":
        value = {"n": 2**40, "price": "10000000.01", "share": 5, "total": 1}
        later = later._replace(value=json.dumps(value).encode())
    with opened(before) as table:
        table.apply(changes_of(before, RECORDS), {0: 2})

    with opened(after) as table:
        old, positions = rows_of(table), table.positions()
        table.apply(changes_of(after, [later]), {0: 3})
    with opened(after) as table:
        rows = pa.concat_tables(table.rows())
        found = rows_of(table)

    assert positions == {0: 2}
    assert (old[1]["n"], old[1]["share"], old[1]["added"]) == (1, 3.0, None)
    assert (old[1]["price"], old[1]["total"]) == (Decimal("1.5"), Decimal(7))
    assert (old[2]["n"], old[2]["price"], old[2]["added"]) == (None, None, None)
    late = found[5000000000]
    if target == "iceberg":
        assert (late["n"], late["price"]) == (2**40, Decimal("10000000.01"))
    else:
        assert (late["n"], late["share"], late["total"]) == (2**40, 0.5, Decimal("0.1"))
        assert late["price"] == Decimal("10000000.0001")
    assert rows.schema == layout_of(after).table_schema


@pytest.mark.parametrize("target", TARGETS)
def test_repair_fills_a_column_that_came_later(target: str, location: str) -> None:
    before = pipeline_of(target, location, {"n": "int32"})
    after = pipeline_of(target, location, {"n": "int32", "added": "string"})
    with opened(before) as table:
        table.apply(changes_of(before, RECORDS), {0: 2})

    changes = changes_of(after, RECORDS)
    with opened(after) as table:
        rows = pa.concat_tables(table.rows())
        found, repairs = compare(changes, rows, {0: 2}, layout_of(after), now_ms=0)
        table.repair(repairs)
        repaired = rows_of(table)

    assert (found.stale, found.missing, found.extra) == (1, 0, 0)
    assert {at: row["added"] for at, row in repaired.items()} == {1: None, 2: "x"}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"n": "string"}, "column n is int64 in the table and string in the definition"),
        ({"n": "int32"}, "column n is int64 in the table and int32 in the definition"),
        ({"m": "int64"}, "column n \\(int64\\) is in the table and not in the definition"),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_other_change_is_refused_with_the_column_and_both_types(
    target: str, location: str, columns: dict[str, str], said: str
) -> None:
    with opened(pipeline_of(target, location, {"n": "int64"})):
        pass

    with pytest.raises(PipelineError, match=said), opened(pipeline_of(target, location, columns)):
        pass


def test_key_of_another_type_is_refused(tmp_path: Path) -> None:
    with opened(pipeline_of("sqlite", str(tmp_path / "t"), {"n": "int64"}, "int32")):
        pass

    with (
        pytest.raises(PipelineError, match=r"key column id is int32 .* and decimal\(12,0\)"),
        opened(pipeline_of("sqlite", str(tmp_path / "t"), {"n": "int64"}, "decimal(12)")),
    ):
        pass


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int32", "int64", True),
        ("int64", "int32", False),
        ("int32", "float64", True),
        ("int64", "float64", False),
        ("int32", "decimal(10)", True),
        ("int32", "decimal(10,1)", False),
        ("int64", "decimal(19)", True),
        ("decimal(5,2)", "decimal(7,4)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("decimal(5,2)", "decimal(9,1)", False),
        ("date", "timestamp", False),
        ("string", "json", False),
    ],
)
def test_type_is_wider_only_if_it_holds_every_value(old: str, new: str, expected: bool) -> None:
    assert is_wider(named_type(old), named_type(new)) is expected
