"""Aggregates over a table: what a key gave is taken back, and a repeated batch changes nothing."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.measures import measure_of, object_text, stored
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind, TableRow, TotalsStore

AGGREGATES = (
    Aggregate(name="n", kind=MeasureKind.COUNT),
    Aggregate(name="total", kind=MeasureKind.SUM, column="value.amount"),
    Aggregate(name="least", kind=MeasureKind.MIN, column="value.amount"),
    Aggregate(name="most", kind=MeasureKind.MAX, column="value.amount"),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TotalsStore]:
    made = TotalsStore(tmp_path / "work" / "totals.sqlite", AGGREGATES)
    yield made
    made.close()


def row(
    key: str, offset: int, group: str | None, amount: int = 0, *, partition: int = 0, at: int = 0
) -> TableRow:
    measures = (None, amount, amount, amount)
    place = None if group is None else (group,)
    return TableRow(key.encode(), partition, offset, at, place, measures)


def told(store: TotalsStore) -> dict[str, Any]:
    found = {group[0]: result for group, result in store.untold()}
    store.told()
    return found


def test_a_changed_row_is_retracted_from_its_old_group(store: TotalsStore) -> None:
    store.apply(0, [row("a", 0, "x", 5), row("b", 1, "x", 7), row("c", 2, "y", 1)])
    first = told(store)

    store.apply(1, [row("a", 3, "y", 6)])
    second = told(store)

    assert first["x"] == {"n": 2, "total": 12, "least": 5, "most": 7}
    assert second == {
        "x": {"n": 1, "total": 7, "least": 7, "most": 7},
        "y": {"n": 2, "total": 7, "least": 1, "most": 6},
    }


def test_a_tombstone_takes_the_row_back_and_an_empty_group_is_gone(store: TotalsStore) -> None:
    store.apply(0, [row("a", 0, "x", 5)])
    told(store)

    store.apply(1, [row("a", 1, None)])

    assert told(store) == {"x": None}


def test_a_batch_that_comes_again_changes_nothing(store: TotalsStore) -> None:
    rows = [row("a", 0, "x", 5)]

    first = store.apply(7, rows)
    again = store.apply(7, rows)

    assert (first, again) == (True, False)
    assert told(store)["x"]["total"] == 5


def test_what_was_not_told_is_told_by_the_next_run(tmp_path: Path) -> None:
    store = TotalsStore(tmp_path / "totals.sqlite", AGGREGATES)
    store.apply(0, [row("a", 0, "x", 5)])
    store.close()

    reopened = TotalsStore(tmp_path / "totals.sqlite", AGGREGATES)
    found = told(reopened)
    later = told(reopened)
    reopened.close()

    assert found == {"x": {"n": 1, "total": 5, "least": 5, "most": 5}}
    assert later == {}


def test_an_older_record_does_not_overwrite_a_newer_one(store: TotalsStore) -> None:
    store.apply(0, [row("a", 5, "x", 5)])
    store.apply(1, [row("a", 4, "x", 4), row("a", 5, None)])

    assert told(store)["x"]["total"] == 5


def test_the_younger_record_counts_where_a_key_is_in_two_partitions(store: TotalsStore) -> None:
    store.apply(0, [row("a", 900, "x", 5, partition=0, at=10)])

    store.apply(1, [row("a", 3, "x", 6, partition=1, at=20)])
    younger = told(store)
    store.apply(2, [row("a", 901, "x", 7, partition=0, at=15)])
    older = told(store)

    assert younger["x"]["total"] == 6
    assert older == {}


def test_a_tombstone_wins_over_an_older_row_of_another_partition_in_its_batch(
    store: TotalsStore,
) -> None:
    rows = [row("a", 3, None, partition=1, at=20), row("a", 900, "x", 5, partition=0, at=10)]

    store.apply(0, rows)

    assert told(store) == {"x": None}


def test_the_state_of_other_aggregates_is_refused(tmp_path: Path) -> None:
    TotalsStore(tmp_path / "totals.sqlite", AGGREGATES[:1]).close()

    with pytest.raises(PipelineError, match="other aggregates"):
        TotalsStore(tmp_path / "totals.sqlite", AGGREGATES)


def test_a_state_is_of_one_definition(tmp_path: Path) -> None:
    path = tmp_path / "work" / "totals.sqlite"
    paid, due = (
        (Aggregate(name="sum", kind=MeasureKind.SUM, column=f"value.{column}"),)
        for column in ("paid", "due")
    )
    TotalsStore(path, paid, definition="sum(paid)").close()

    with pytest.raises(PipelineError, match=r"made of sum\(paid\), and now it is sum\(due\)"):
        TotalsStore(path, due, definition="sum(due)")
    TotalsStore(path, paid, definition="sum(paid)").close()


def test_a_state_that_does_not_say_what_it_is_of_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "totals.sqlite"
    store = TotalsStore(path, AGGREGATES)
    store.apply(0, [row("a", 0, "x", 5)])
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE made_of")  # as versions before left it

    with pytest.raises(PipelineError, match="an older version"):
        TotalsStore(path, AGGREGATES)


def test_a_topic_that_has_heard_of_nothing_is_told_everything(store: TotalsStore) -> None:
    store.tells("totals", "one")
    store.apply(0, [row("a", 0, "x", 5), row("b", 1, "y", 7)])
    told(store)
    store.tells("totals", "one")
    again = told(store)

    store.tells("totals", "another")

    assert (again, sorted(told(store))) == ({}, ["x", "y"])


def aggregated(
    tmp_path: Path, kind: MeasureKind, type_name: str, values: Sequence[Any]
) -> tuple[Any, str]:
    """One aggregate over the values, and the record it becomes."""
    aggregate = Aggregate(name="r", kind=kind, column="value.c")
    measure = measure_of("r", kind, "value.c", type_name)
    store = TotalsStore(tmp_path / "totals.sqlite", (aggregate,), measures=[measure])
    rows = [
        TableRow(b"%d" % at, 0, at, 0, ("g",), (stored(value, kind, measure),))
        for at, value in enumerate(values)
    ]
    store.apply(0, rows)
    ((_, result),) = store.untold()
    store.close()
    assert result is not None
    return result["r"], object_text(result)


@pytest.mark.parametrize(
    ("kind", "type_name", "values", "expected", "text"),
    [
        ("sum", "decimal(9,2)", [Decimal("0.10"), Decimal("0.20")], Decimal("0.30"), "0.30"),
        ("sum", "decimal(38,0)", [Decimal(10**37)] * 3, Decimal(3 * 10**37), str(3 * 10**37)),
        ("avg", "decimal(9,2)", [Decimal("0.10"), Decimal("0.25")], Decimal("0.175"), "0.175000"),
        ("max", "decimal(9,2)", [Decimal("9.5"), Decimal("10")], Decimal(10), "10"),
        ("min", "decimal(9,2)", [Decimal("-9.5"), Decimal("-10")], Decimal(-10), "-10"),
        ("sum", "bigint", [2**63 - 1, 2**63 - 1], 2**64 - 2, str(2**64 - 2)),
        ("sum", "bigint", [-(2**63), -1, None], -(2**63) - 1, str(-(2**63) - 1)),
        ("avg", "int", [1, 2], 1.5, "1.5"),
        ("sum", "double", [0.5, 0.25], 0.75, "0.75"),
        ("count", "string", ["a", None], 1, "1"),
        ("max", "string", ["a", "b"], "b", '"b"'),
        ("max", "binary", [b"\x00", b"\xff"], "/w==", '"/w=="'),
        ("min", "boolean", [True, False], False, "false"),
        ("sum", "decimal(9,2)", [None], None, "null"),
    ],
)
def test_sums_are_exact(
    tmp_path: Path, kind: str, type_name: str, values: list[Any], expected: Any, text: str
) -> None:
    assert aggregated(tmp_path, MeasureKind(kind), type_name, values) == (
        expected,
        f'{{"r": {text}}}',
    )


@pytest.mark.parametrize(
    ("kind", "column", "type_name", "message"),
    [
        ("sum", "value.name", "string", r"CAST\(value.name AS decimal\(18,2\)\)"),
        ("avg", "value.born", "date", "numbers are added up"),
        ("sum", "value.ok", "boolean", "numbers are added up"),
        ("max", "value.all", "array<int>", "has no max here"),
        ("sum", None, "int", "sum needs a column"),
    ],
)
def test_what_cannot_be_added_up_is_refused(
    kind: str, column: str | None, type_name: str, message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        measure_of("r", MeasureKind(kind), column, type_name)


def test_a_deleted_key_is_not_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "totals.sqlite"
    store = TotalsStore(path, AGGREGATES)

    store.apply(0, [row("someone@example.com", 0, "x")])
    was_there = b"someone@example.com" in path.read_bytes()
    store.apply(1, [row("someone@example.com", 1, None)])
    store.close()

    assert was_there
    assert b"someone@example.com" not in path.read_bytes()


def test_a_store_without_aggregates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="0 aggregates"):
        TotalsStore(tmp_path / "totals.sqlite", ())


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", None]), st.integers(-5, 5)),
    max_size=30,
)


@given(ROWS, st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_totals_equal_those_of_the_folded_table(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, str | None, int]],
    size: int,
) -> None:
    store = TotalsStore(tmp_path_factory.mktemp("totals") / "totals.sqlite", AGGREGATES)
    table: dict[str, tuple[str, int]] = {}
    results: dict[str, Any] = {}

    for first in range(0, len(changes), size):
        some = changes[first : first + size]
        store.apply(first, [row(k, first + at, g, n) for at, (k, g, n) in enumerate(some)])
        results |= told(store)
        for key, group, amount in some:
            table.pop(key, None)
            if group is not None:
                table[key] = (group, amount)
    store.close()

    live = {group: result for group, result in results.items() if result is not None}
    assert live == {group: _expected(table, group) for group in live}
    assert sorted(live) == sorted({group for group, _ in table.values()})


def _expected(table: dict[str, tuple[str, int]], wanted: str) -> dict[str, int]:
    amounts = [amount for group, amount in table.values() if group == wanted]
    return {"n": len(amounts), "total": sum(amounts), "least": min(amounts), "most": max(amounts)}
