"""Decimals, dates, times and timestamps: exact or refused, and the same in every table."""

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.codecs import decoder
from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType, named_type
from ledgerstone.pipeline.converting import Unfit, convert
from ledgerstone.pipeline.definition import Column, ColumnCodec, Format, Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.erasing import purge
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.state.comparing import compare
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.sized import examples
from tests.kit.table_model import (
    Record,
    changes_of,
    positions_after,
)
from tests.kit.table_targets import TARGETS, table_at

COLUMNS = {
    "paid": "decimal(38,10)",
    "born": "date",
    "wakes": "time",
    "seen": "timestamp",
    "whole": "decimal(5)",
}
VALUES = [
    {
        "paid": "1234567890123456789012345678.0123456789",
        "born": "2000-02-29",
        "wakes": "06:30",
        "seen": "2026-11-16T05:00:00.000001+02:00",
        "whole": -12345,
    },
    {"paid": 0.1, "born": "0001-01-01", "wakes": "23:59:59.999999", "seen": 0, "whole": "0"},
    {"paid": "-0.0000000001", "born": "9999-12-31", "wakes": "00:00:00", "seen": -1, "whole": 7},
    dict.fromkeys(COLUMNS),
]


def pipeline_of(target: str, location: str, key: dict[str, Any] | None = None) -> Pipeline:
    return define(
        {
            "name": "typed",
            "source": {"topic": "typed"},
            "key": key or {"format": "string", "column": "id"},
            "value": {"format": "json", "columns": COLUMNS},
            "table": table_at(target, location),
        },
        directory=Path(),
    )


@pytest.mark.parametrize("target", TARGETS)
def test_every_type_comes_back_from_every_table_as_it_went_in(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location)
    records = [
        Record(0, at, b"k%d" % at, json.dumps(value).encode(), at)
        for at, value in enumerate(VALUES)
    ]
    changes = changes_of(pipeline, records)
    table = open_target(pipeline)
    table.prepare()

    table.apply(changes, positions_after(changes))
    table.apply(changes.slice(0, 2), {})
    rows = pa.concat_tables(table.rows())
    table.close()

    found = {row["id"]: row for row in rows.to_pylist()}
    assert found["k0"]["paid"] == Decimal("1234567890123456789012345678.0123456789")
    assert (found["k0"]["born"], found["k0"]["wakes"]) == (date(2000, 2, 29), "06:30:00.000000")
    assert found["k0"]["seen"] == datetime(2026, 11, 16, 3, 0, 0, 1, tzinfo=UTC)
    assert (found["k1"]["paid"], found["k2"]["paid"]) == (Decimal("0.1"), Decimal("-1e-10"))
    assert [found[f"k{at}"]["whole"] for at in range(4)] == [-12345, 0, 7, None]
    assert found["k1"]["wakes"] == "23:59:59.999999"
    assert (found["k1"]["born"], found["k2"]["born"]) == (date.min, date.max)
    compared, _ = compare(changes, rows, {0: 4}, layout_of(pipeline), now_ms=0)
    assert compared.is_equal, compared.examples


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("decimal(10,2)", "1.50", "-1.50"),
        ("date", "2026-01-01", "1026-01-01"),
        ("time", "01:02:03", "01:02:03.5"),
        ("timestamp", "2026-01-01T00:00:00Z", "0926-01-01T00:00:00Z"),
        ("boolean", True, False),
    ],
)
def test_key_of_any_type_is_updated_deleted_and_purged(
    target: str, location: str, kind: str, one: object, other: object, tmp_path: Path
) -> None:
    key = {"format": "json", "columns": {"id": kind}}
    pipeline = pipeline_of(target, location, key)
    first, second = (json.dumps({"id": each}).encode() for each in (one, other))
    table = open_target(pipeline)
    table.prepare()

    table.apply(changes_of(pipeline, [Record(0, 0, first, b"{}", 1)]), {0: 1})
    again = [Record(0, 1, first, b'{"whole": 5}', 1), Record(0, 2, second, b"{}", 1)]
    table.apply(changes_of(pipeline, again), {0: 3})
    updated = [row["whole"] for piece in table.rows() for row in piece.to_pylist()]
    table.apply(changes_of(pipeline, [Record(0, 3, second, None, 1)]), {0: 4})
    left = [row["whole"] for piece in table.rows() for row in piece.to_pylist()]
    table.close()
    purge(pipeline, first)
    table = open_target(pipeline)
    table.prepare()
    gone = [row for piece in table.rows() for row in piece.to_pylist()]
    table.close()

    assert sorted(updated, key=str) == [5, None]
    assert (left, gone) == ([5], [])


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (DecimalType(4, 2), "100", "too large for decimal(4,2)"),
        (DecimalType(4, 2), "1e2", "too large"),
        (DecimalType(4, 2), "1.234", "more than 2 digits after the point"),
        (DecimalType(38, 18), 0.1234567890123456, "may have lost digits"),
        (DecimalType(4, 2), "NaN", "is not a number"),
        (DecimalType(4, 2), "Infinity", "is not a number"),
        (DecimalType(4, 2), True, "is not a number"),
        (DecimalType(4, 2), "one", "'one' is not a number"),
        (DecimalType(4, 2), "9" * 200, "too long"),
        (DecimalType(4, 2), "1e999999999", "too large"),
        (DecimalType(4, 2), "1e-999999999", "digits after the point"),
        (ColumnType.TIME, "25:00", "hour must be in 0..23"),
        (ColumnType.TIME, "10:00+02:00", "no time zone"),
        (ColumnType.TIME, 5, "5 is not text"),
    ],
)
def test_value_that_does_not_fit_is_refused(kind: AnyType, value: object, reason: str) -> None:
    with pytest.raises(Unfit, match=reason.replace("(", r"\(").replace(")", r"\)")):
        convert(Column(name="c", type=kind, path=("c",)), value)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(1, 38), st.data())
@examples(100)
def test_decimal_is_the_same_number_or_refused(
    number: Decimal, precision: int, data: st.DataObject
) -> None:
    kind = DecimalType(precision, data.draw(st.integers(0, precision)))
    column = Column(name="c", type=kind, path=("c",))

    try:
        found = convert(column, number)
    except Unfit:
        return

    assert found == number
    assert pa.array([found], pa.decimal128(kind.precision, kind.scale))[0].as_py() == number


@pytest.mark.parametrize("name", ["decimal", "decimal(39)", "decimal(2,3)", "decimal(0)", "int", 5])
def test_name_that_is_no_type_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match=r"decimal"):
        named_type(name)


def test_logical_types_of_avro_become_columns_of_their_type() -> None:
    logical = {
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "fixed": {
            "type": "fixed",
            "name": "f",
            "size": 8,
            "logicalType": "decimal",
            "precision": 12,
            "scale": 4,
        },
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "int", "logicalType": "time-millis"},
        "exactly": {"type": "long", "logicalType": "time-micros"},
        "seen": {"type": "long", "logicalType": "timestamp-micros"},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
        "name": {"type": "string", "logicalType": "uuid"},
    }
    fields = [{"name": name, "type": ["null", kind]} for name, kind in logical.items()]
    schema = {"type": "record", "name": "R", "fields": fields}
    values = {
        "price": Decimal("12.50"),
        "fixed": Decimal("-0.0001"),
        "day": date(2026, 11, 16),
        "at": time(1, 2, 3, 4000),
        "exactly": time(1, 2, 3, 4),
        "seen": datetime(2026, 1, 1, tzinfo=UTC),
        "local": datetime(2026, 1, 1),
        "name": UUID(int=7),
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), values)
    columns = columns_from(schema)

    codec = ColumnCodec(format=Format.AVRO, columns=columns, schema=json.dumps(schema))
    decoded = decoder(codec)(pa.array([out.getvalue()], pa.binary()))

    assert not decoded.bad
    assert [array[0].as_py() for array in decoded.arrays] == [
        Decimal("12.50"),
        Decimal("-0.0001"),
        date(2026, 11, 16),
        "01:02:03.004000",
        "01:02:03.000004",
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
        str(UUID(int=7)),
    ]


def columns_from(schema: dict[str, Any]) -> tuple[Column, ...]:
    from ledgerstone.pipeline.avro_schema import columns_of_schema

    return columns_of_schema(json.dumps(schema))
