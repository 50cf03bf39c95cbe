"""A definition with a filter and computed columns: rows that come and go, and what agrees on it."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.changes import changes_decoder, one_per_key
from ledgerstone.pipeline.definition import Deletes, Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.explaining import explain
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.state.comparing import compare
from ledgerstone.pipeline.tables.merging import merged
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.sized import examples
from tests.kit.table_model import (
    Record,
    changes_of,
    expected_rows,
    record_batch,
    table_rows,
)


def pipeline_of(deletes: str = "hard", location: str = "unused", **more: Any) -> Pipeline:
    content: dict[str, Any] = {
        "name": "people",
        "source": {"topic": "people"},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "string", "column": "said"},
        "where": "said <> 'no' AND id <> 'never'",
        "table": {"type": "sqlite", "path": location, "deletes": deletes},
    }
    return define({**content, **more}, directory=Path())


JSON_VALUE = {
    "format": "json",
    "columns": {
        "name": "string",
        "age": {"type": "int64", "stored": False},
        "loud": {"type": "string", "expression": "upper(name) || '!'"},
        "share": {"type": "int32", "expression": "div(100, age)"},
    },
}


def folded(pipeline: Pipeline, records: Iterable[Record]) -> pa.Table:
    changes = changes_of(pipeline, records)
    if pipeline.target.deletes is Deletes.HISTORY:
        return changes
    return one_per_key(changes, pipeline.key_names)


def test_computed_columns_are_stored_and_their_inputs_need_not_be() -> None:
    pipeline = pipeline_of(value=JSON_VALUE, where="age < 50 AND _offset >= 0")
    records = [
        Record(0, 0, b"a", b'{"name": "Ann", "age": 4}', 1),
        Record(0, 1, b"b", b'{"name": "Bob", "age": 0}', 1),
        Record(0, 2, b"c", b'{"name": "Cy", "age": 70}', 1),
        Record(0, 3, b"d", b'{"name": "Di"}', 1),
        Record(0, 4, b"e", None, 1),
        Record(0, 5, b"f", b"{", 1),
    ]

    found = changes_of(pipeline, records).to_pylist()

    assert layout_of(pipeline).content_names[:3] == ("name", "loud", "share")
    assert [row["loud"] for row in found] == ["ANN!", "BOB!", None, None, None, None]
    assert [row["share"] for row in found] == [25, None, None, None, None, None]
    assert [row["_deleted"] for row in found] == [False, False, True, True, True, False]
    reasons = [row["_bad"] for row in found]
    assert reasons[:5] == [None, "value column share: divide by zero", None, None, None]
    assert reasons[5].startswith("value cannot be decoded")
    assert found[1]["_value"] == records[1].value


def test_bytes_of_a_record_that_is_left_out_are_not_kept() -> None:
    table = {"type": "sqlite", "path": "unused", "keep_bytes": True}
    pipeline = pipeline_of(table=table)
    records = [Record(0, 0, b"a", b"no", 1), Record(0, 1, b"b", b"yes", 1)]

    found = changes_of(pipeline, records).to_pylist()

    assert [(row["said"], row["_value"]) for row in found] == [(None, None), ("yes", b"yes")]


_records = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"never"]), st.sampled_from([b"yes", b"maybe", b"no", None])
    ),
    max_size=12,
)


@given(said=_records, cut=st.integers(0, 12), deletes=st.sampled_from(["hard", "soft", "history"]))
@examples(150)
def test_row_that_no_longer_qualifies_goes_and_a_comparison_agrees(
    said: list[tuple[bytes, bytes | None]], cut: int, deletes: str
) -> None:
    """The model sees a tombstone wherever the filter leaves a record out."""
    pipeline = pipeline_of(deletes)
    layout = layout_of(pipeline)
    records = [Record(0, at, key, value, at) for at, (key, value) in enumerate(said)]
    plain = [
        each._replace(value=None) if each.value == b"no" or each.key == b"never" else each
        for each in records
    ]

    rows = layout.table_schema.empty_table()
    for some in (records[:cut], records[cut:]):
        rows = merged(rows, folded(pipeline, some), layout)
    latest = one_per_key(changes_of(pipeline, records), pipeline.key_names)
    found, repairs = compare(latest, rows, {0: len(records)}, layout, now_ms=1)

    assert table_rows([rows]) == expected_rows(plain, pipeline.target.deletes)
    assert (found.is_equal, repairs.num_rows) == (True, 0)
    assert all(each.is_equal for each in found.partitions)


def test_changed_filter_is_found_by_a_comparison_and_repaired(tmp_path: Path) -> None:
    path = str(tmp_path / "people.db")
    before, now = pipeline_of(location=path), pipeline_of(location=path, where="said = 'no'")
    records = [Record(0, 0, b"a", b"no", 1), Record(0, 1, b"b", b"yes", 1)]
    layout = layout_of(now)
    with closing(open_target(before)) as target:
        target.prepare()
        target.apply(changes_of(before, records), {0: 2})

    with closing(open_target(now)) as target:
        target.prepare()
        rows = pa.concat_tables([layout.table_schema.empty_table(), *target.rows()])
        found, repairs = compare(changes_of(now, records), rows, {0: 2}, layout, now_ms=1)
        target.repair(repairs)
        left = [row["id"] for piece in target.rows() for row in piece.to_pylist()]

    assert (found.missing, found.extra, left) == (1, 1, ["a"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"where": "sid = 'x'"}, "^where: \"sid = 'x'\": there is no column sid; there are id"),
        ({"where": "said"}, "^where: 'said': it is string, not boolean"),
        ({"where": 5}, "^where: 5: expected text"),
        (
            {"value": {**JSON_VALUE, "columns": {"a": {"type": "int64", "expression": "b"}}}},
            "^value.columns: .*: expected 1 to 500",
        ),
        (
            {
                "value": {
                    "format": "json",
                    "columns": {"a": "int64", "b": {"type": "string", "expression": "a"}},
                }
            },
            "^value.columns.b.expression: 'a': it is int64, not string; use CAST",
        ),
        (
            {"key": {"format": "json", "columns": {"a": {"type": "int64", "expression": "1"}}}},
            "^key.columns: ",
        ),
        (
            {
                "key": {
                    "format": "json",
                    "columns": {"k": "int64", "a": {"type": "int64", "expression": "1"}},
                }
            },
            "^key.columns.a: a key has no expressions",
        ),
        (
            {"value": {"format": "string", "column": "said", "columns": {"b": "string"}}},
            "^value.columns.b: string has one column",
        ),
        (
            {"value": {"format": "json", "columns": {"a": {"type": "int64", "stored": False}}}},
            "none is stored",
        ),
    ],
)
def test_wrong_expression_is_refused_with_the_key_to_blame(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        pipeline_of(**changes)


def test_explain_says_what_is_filtered_and_computed() -> None:
    text = "\n".join(explain(pipeline_of(value=JSON_VALUE, where="age\n  < 50")))

    assert "  where    age < 50" in text
    assert "  computes loud string as upper(name) || '!'" in text
    assert "age int64 (not stored)" in text
    assert "acts like a tombstone" in text


def test_nothing_is_computed_for_no_records() -> None:
    pipeline = pipeline_of(value=JSON_VALUE, where="age < 50")

    found = changes_decoder(pipeline)(record_batch([]))

    assert found.num_rows == 0
