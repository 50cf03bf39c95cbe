"""Expressions: what they give, what is refused with the definition, which records are bad."""

import sqlite3
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.column_types import arrow_type, named_type
from ledgerstone.pipeline.expressions.evaluating import Evaluated, Expression
from ledgerstone.pipeline.expressions.parsing import MAX_DEPTH, ExpressionError, parse

COLUMNS = {
    name: named_type(kind)
    for name, kind in {
        "age": "int64",
        "small": "int32",
        "city": "string",
        "price": "decimal(9,2)",
        "x": "float64",
        "ok": "boolean",
        "born": "date",
        "at": "timestamp",
        "t": "time",
        "j": "json",
        "b": "binary",
    }.items()
}
SCHEMA = pa.schema([(name, arrow_type(kind)) for name, kind in COLUMNS.items()])
FULL = {
    "age": 20,
    "small": 3,
    "city": "Oslo",
    "price": Decimal("1.50"),
    "x": 1.5,
    "ok": True,
    "born": date(2000, 2, 29),
    "at": datetime(2026, 11, 16, 5, tzinfo=UTC),
    "t": "06:30:00.000000",
    "j": '{"a":1}',
    "b": b"\0",
}


def evaluated(text: str, kind: str, rows: list[dict[str, Any]]) -> Evaluated:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    return Expression(text, COLUMNS, named_type(kind)).evaluate(batch)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("age >= 18 AND city <> 'Oslo'", "boolean", False),
        ("NOT (age < 18 OR city = 'Bergen')", "boolean", True),
        ("age NOT BETWEEN 1 AND 19", "boolean", True),
        ("city IN ('Bergen', 'Oslo')", "boolean", True),
        ("city NOT LIKE '%s_o'", "boolean", False),
        ("city || '''s'", "string", "Oslo's"),
        ("upper(city)", "string", "OSLO"),
        ("substring(city, 2, 2) || lower(substring('ABC', 2))", "string", "slbc"),
        ("replace(trim('  a-b '), '-', '')", "string", "ab"),
        ("length(city) + small", "int64", 7),
        ("-age - 2 * 3", "int64", -26),
        ("div(age, 3)", "int64", 6),
        ("price * 3 + 1", "decimal(12,2)", Decimal("5.50")),
        ("round(price * 1.005, 2)", "decimal(9,2)", Decimal("1.51")),
        ("price", "float64", 1.5),
        ("age", "decimal(5,2)", Decimal("20.00")),
        ("x / 2", "float64", 0.75),
        ("CASE WHEN age = 0 THEN 'none' WHEN ok THEN 'some' END", "string", "some"),
        ("coalesce(nullif(city, 'Oslo'), 'x')", "string", "x"),
        ("born < '2000-03-01' AND year(born) = 2000", "boolean", True),
        ("at >= TIMESTAMP '2026-11-16T06:00:00+01:00'", "boolean", True),
        ("t = '06:30'", "boolean", True),
        ("CAST(at AS date)", "date", date(2026, 11, 16)),
        ("CAST('12.5' AS decimal(5,2))", "decimal(5,2)", Decimal("12.50")),
        ("CAST(j AS string)", "string", '{"a":1}'),
        ("price > 1 AND x > 1 AND price = x", "boolean", True),
        ("NULL", "date", None),
    ],
)
def test_expression_has_the_value_of_sql(text: str, kind: str, value: object) -> None:
    found = evaluated(text, kind, [FULL])

    assert (found.values.to_pylist(), found.bad) == ([value], {})


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("age +", "int64", "character 6: expected a value, found the end"),
        ("age ? 1", "int64", r"character 5: unexpected '\?'"),
        ("age = 1 1", "boolean", "character 9: expected an operator, found '1'"),
        ("nope = 1", "boolean", "there is no column nope"),
        ("sqrt(x)", "float64", "there is no function sqrt"),
        ("upper(city, city)", "string", "does not take 2 arguments"),
        ("upper(age)", "string", "takes string, not int64"),
        ("age = '5'", "boolean", "int64 and string do not go together"),
        ("born = at", "boolean", "date and timestamp do not go together"),
        ("born = 'soon'", "boolean", "Invalid isoformat"),
        ("j = j", "boolean", "json is not compared"),
        ("age", "string", "it is int64, not string"),
        ("x", "int64", "it is float64, not int64"),
        ("age", "boolean", "it is int64, not boolean"),
        ("age / 2", "int64", "div"),
        ("div(1, 0)", "int64", "divide by zero"),
        ("city LIKE city", "boolean", "a literal"),
        ("CAST(b AS string)", "string", "is not possible"),
        ("CAST(age AS money)", "string", "money"),
        ("99999999999999999999 = age", "boolean", "does not fit int64"),
        ("price * price * price * price * price", "decimal(38,2)", "use CAST"),
        ("(" * 100, "boolean", "nested too deeply"),
        ("x" * 20_000, "boolean", "longer than"),
    ],
)
def test_expression_is_refused_with_the_reason(text: str, kind: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        evaluated(text, kind, [])


def test_only_the_rows_that_cannot_be_evaluated_are_bad() -> None:
    rows = [{**FULL, "age": age} for age in (5, 0, 2, None, 0)]

    found = evaluated("div(10, age)", "int64", rows)

    assert found.values.to_pylist() == [2, None, 5, None, None]
    assert found.bad == {1: "divide by zero", 4: "divide by zero"}


def test_branch_that_does_not_count_makes_no_record_bad() -> None:
    rows = [{**FULL, "age": age} for age in (5, 0)]

    guarded = evaluated("age <> 0 AND div(10, age) = 2", "boolean", rows)
    chosen = evaluated("CASE WHEN age = 0 THEN 0 ELSE div(10, age) END", "int64", rows)

    assert (guarded.values.to_pylist(), guarded.bad) == ([True, False], {})
    assert (chosen.values.to_pylist(), chosen.bad) == ([2, 0], {})


def test_number_that_does_not_fit_its_column_is_bad() -> None:
    found = evaluated("age * 1000000000", "int32", [FULL, {**FULL, "age": 1}])

    assert found.values.to_pylist() == [None, 1_000_000_000]
    assert list(found.bad) == [0]


_small = st.one_of(st.none(), st.integers(-3, 3))
_operands = st.sampled_from(["age", "small", "0", "2", "NULL", "(age + small)"])
_comparisons = st.builds(
    " ".join, st.tuples(_operands, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), _operands)
)
_conditions = st.recursive(
    st.one_of(_comparisons, _operands.map(lambda each: f"{each} IS NULL")),
    lambda some: st.one_of(
        st.builds("({} AND {})".format, some, some),
        st.builds("({} OR {})".format, some, some),
        st.builds("(NOT {})".format, some),
        st.builds("({} IN (1, {}))".format, _operands, _operands),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, some, some, some),
    ),
    max_leaves=6,
)


@given(text=_conditions, pairs=st.lists(st.tuples(_small, _small), min_size=1, max_size=4))
def test_conditions_have_sqlites_answer(
    text: str, pairs: list[tuple[int | None, int | None]]
) -> None:
    """Three values of logic, by another implementation."""
    rows = [{**FULL, "age": age, "small": small} for age, small in pairs]
    with sqlite3.connect(":memory:") as database:
        answers = [
            database.execute(f"SELECT {text} FROM (SELECT ? AS age, ? AS small)", pair).fetchone()
            for pair in pairs
        ]
    database.close()

    found = evaluated(text, "boolean", rows)

    assert found.bad == {}
    expected = [None if answer is None else bool(answer) for (answer,) in answers]
    assert found.values.to_pylist() == expected


@given(st.text(max_size=60) | st.text(alphabet="()'\"a1+-<>= ,|NOT", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(ExpressionError):
        parse(text)


@pytest.mark.parametrize("text", ["1" + " + 1" * (MAX_DEPTH + 1), "1" + " * 1" * 2000])
def test_long_chain_is_refused_before_it_is_deep(text: str) -> None:
    with pytest.raises(ExpressionError, match="nested too deeply"):
        parse(text)
