"""Aggregates over a table: what a key gave is taken back, and a repeated batch changes nothing."""

import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.erasing_files import FileVerdict
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.exact_sums import ExactSum, grouped_sums, sum_of_text
from ledgerstone.pipeline.streams.measures import Aggregate, Measure, MeasureKind, measured
from ledgerstone.pipeline.streams.ordered_values import ordered_bytes, value_of
from ledgerstone.pipeline.streams.staging import StagedRows
from ledgerstone.pipeline.streams.state_erasing import purge_state, search_state
from ledgerstone.pipeline.streams.state_query import state_get
from ledgerstone.pipeline.streams.state_shares import SLOTS, is_within, shares_of
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion
from ledgerstone.pipeline.streams.totals import GroupTotals
from ledgerstone.pipeline.tables import leaves
from ledgerstone.pipeline.tables.leaves import LeafFile, halves
from ledgerstone.pipeline.tables.target import InProcess
from ledgerstone.pipeline.verifying import PipelineVerifier
from tests.kit.aggregates import Aggregated, Change, Killed
from tests.kit.micro_batches import HeldRows
from tests.kit.sized import examples

AGGREGATES = (
    Aggregate(name="n", kind=MeasureKind.COUNT),
    Aggregate(name="total", kind=MeasureKind.SUM, column="value.amount"),
    Aggregate(name="least", kind=MeasureKind.MIN, column="value.amount"),
    Aggregate(name="most", kind=MeasureKind.MAX, column="value.amount"),
)
TYPES = ("int", "bigint", "bigint", "bigint")


@pytest.fixture
def totals(tmp_path: Path) -> Aggregated:
    return made(tmp_path)


def made(work: Path, **options: Any) -> Aggregated:
    return Aggregated(work, AGGREGATES, TYPES, **options)


def row(
    key: str, offset: int, group: str | None, amount: int = 0, *, partition: int = 0, at: int = 0
) -> Change:
    return Change(key.encode(), partition, offset, at, group, (None, amount, amount, amount))


def files_with(work: Path, word: bytes) -> list[str]:
    return [p.name for p in work.rglob("*") if p.is_file() and word in p.read_bytes()]


def test_a_changed_row_is_retracted_from_its_old_group(totals: Aggregated) -> None:
    totals.apply(0, [row("a", 0, "x", 5), row("b", 1, "x", 7), row("c", 2, "y", 1)])
    first = totals.take()

    totals.apply(1, [row("a", 3, "y", 6)])
    second = totals.take()

    assert first["x"] == {"n": 2, "total": 12, "least": 5, "most": 7}
    assert second == {
        "x": {"n": 1, "total": 7, "least": 7, "most": 7},
        "y": {"n": 2, "total": 7, "least": 1, "most": 6},
    }


def test_a_tombstone_takes_the_row_back_and_an_empty_group_is_gone(totals: Aggregated) -> None:
    totals.apply(0, [row("a", 0, "x", 5)])
    totals.take()

    totals.apply(1, [row("a", 1, None)])

    assert totals.take() == {"x": None}


def test_a_batch_that_comes_again_changes_nothing(totals: Aggregated) -> None:
    rows = [row("a", 0, "x", 5)]

    first = totals.apply(7, rows)
    again = totals.apply(7, rows)

    assert (first, again) == (True, False)
    assert totals.take()["x"]["total"] == 5


def test_a_group_whose_result_is_as_it_was_is_not_told(totals: Aggregated) -> None:
    totals.apply(0, [row("a", 0, "x", 5), row("b", 1, "x", 7)])
    totals.take()

    totals.apply(1, [row("a", 2, "x", 7), row("b", 3, "x", 5)])

    assert totals.take() == {}


def test_what_was_not_told_is_told_by_the_next_run(totals: Aggregated, tmp_path: Path) -> None:
    totals.dies = True
    with pytest.raises(Killed):
        totals.apply(0, [row("a", 0, "x", 5)])

    found = made(tmp_path).take()
    later = made(tmp_path).take()

    assert found == {"x": {"n": 1, "total": 5, "least": 5, "most": 5}}
    assert later == {}


def test_what_a_killed_run_has_left_is_removed(totals: Aggregated, tmp_path: Path) -> None:
    totals.apply(0, [row("a", 0, "x", 5)])
    stager = totals.state.stager()
    rows = HeldRows([totals.columns([row("someone@example.com", 1, "x", 5)])], alone=False)
    rows.run(StagedRows(stager=stager).stage, alone=False)
    orphan = tmp_path / "state" / "keys" / "part-00001-dead.parquet"
    orphan.write_bytes(b"someone@example.com")
    was_there = files_with(tmp_path, b"someone@example.com")

    made(tmp_path)

    assert len(was_there) == 2
    assert files_with(tmp_path, b"someone@example.com") == []


BATCHES = (
    [row("a", 0, "x", 5), row("b", 1, "y", 7)],
    [row("a", 2, "y", 6), row("b", 3, None)],
)


def test_whatever_is_killed_the_totals_are_those_of_the_table(tmp_path: Path) -> None:
    results: list[dict[str, Any]] = []
    for point in itertools.count():
        work = tmp_path / str(point)
        deaths = Deaths(point)
        told: dict[str, Any] = {}
        for batch, changes in enumerate(BATCHES):
            while True:
                with suppress(Killed):
                    totals = Mortal(work, deaths, told)
                    totals.apply(batch, changes)
                    break
        results.append({group: text for group, text in told.items() if text is not None})
        left = sorted(path.name for path in (work / "state").rglob("*.parquet"))
        assert len(left) == len(totals.files()), f"leftovers after a kill at point {point}"
        if deaths.left >= 0:
            break

    assert len(results) > 15, "too few points at which it can be killed"
    y = {"n": 1, "total": 6, "least": 6, "most": 6}
    assert all(each == {"y": y} for each in results)


class Deaths:
    """Kills once, at the given point."""

    def __init__(self, point: int) -> None:
        self.left = point

    def __call__(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise Killed


class Mortal(Aggregated):
    """May be killed before and after its commits and tellings, and after its tasks."""

    def __init__(self, work: Path, deaths: Deaths, told: dict[str, Any]) -> None:
        self.deaths = deaths
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.kit.aggregates.StateStore", self._store)
            patch.setattr("tests.kit.aggregates.InProcess", lambda: _Executors(deaths))
            self.kept = told
            super().__init__(work, AGGREGATES, TYPES)

    def _store(self, work: str) -> StateStore:
        deaths = self.deaths

        class MortalStore(StateStore):
            def commit(self, version: StateVersion) -> None:
                deaths()
                super().commit(version)
                deaths()

            def tidy(self, version: StateVersion) -> None:
                deaths()
                super().tidy(version)

        return MortalStore(work)

    def tell(self, store: StateStore, version: StateVersion) -> None:
        self.deaths()
        super().tell(store, version)
        self.kept.update(self.take())
        self.deaths()

    def files(self) -> list[str]:
        return [file.path for files in self.store.read().tables.values() for file in files]


class _Executors(InProcess):
    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths

    def run(self, work: Any, jobs: Any) -> Any:
        done = super().run(work, jobs)
        self._deaths()
        return done


def test_an_older_record_does_not_overwrite_a_newer_one(totals: Aggregated) -> None:
    totals.apply(0, [row("a", 5, "x", 5)])
    totals.apply(1, [row("a", 4, "x", 4), row("a", 5, None)])

    assert totals.take()["x"]["total"] == 5


def test_the_younger_record_counts_where_a_key_is_in_two_partitions(totals: Aggregated) -> None:
    totals.apply(0, [row("a", 900, "x", 5, partition=0, at=10)])

    totals.apply(1, [row("a", 3, "x", 6, partition=1, at=20)])
    younger = totals.take()
    totals.apply(2, [row("a", 901, "x", 7, partition=0, at=15)])
    older = totals.take()

    assert younger["x"]["total"] == 6
    assert older == {}


def test_a_tombstone_wins_over_an_older_row_of_another_partition_in_its_batch(
    totals: Aggregated,
) -> None:
    rows = [row("a", 3, None, partition=1, at=20), row("a", 900, "x", 5, partition=0, at=10)]

    totals.apply(0, rows)

    assert totals.take() == {}


def test_a_state_is_of_one_definition(totals: Aggregated, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"it was made of d, and now it is sum\(due\)"):
        made(tmp_path, definition="sum(due)")


def test_a_state_of_sqlite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "totals.sqlite").touch()

    with pytest.raises(PipelineError, match=r"earlier version.*Delete"):
        made(tmp_path)


def test_a_checkpoint_without_a_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)

    with pytest.raises(PipelineError, match="has a checkpoint and no state"):
        made(tmp_path)


def test_a_topic_that_has_heard_of_nothing_is_told_everything(
    totals: Aggregated, tmp_path: Path
) -> None:
    totals.apply(0, [row("a", 0, "x", 5), row("b", 1, "y", 7)])
    again = made(tmp_path).take()

    anew = made(tmp_path, to=("totals", "another")).take()

    assert again == {}
    assert anew == {
        "x": {"n": 1, "total": 5, "least": 5, "most": 5},
        "y": {"n": 1, "total": 7, "least": 7, "most": 7},
    }


def test_a_max_stays_known_where_only_the_sum_changes(tmp_path: Path) -> None:
    aggregates = (
        Aggregate(name="s", kind=MeasureKind.SUM, column="value.a"),
        Aggregate(name="m", kind=MeasureKind.MAX, column="value.b"),
    )
    totals = Aggregated(tmp_path, aggregates, ("bigint", "string"))
    totals.apply(0, [Change(b"k", 0, 0, 0, "x", (1, "b"))])

    totals.apply(1, [Change(b"k", 0, 1, 0, "x", (2, "b"))])

    assert totals.take() == {"x": {"s": 2, "m": "b"}}


@pytest.mark.parametrize(
    ("kind", "type_name", "values", "text"),
    [
        ("sum", "decimal(9,2)", [Decimal("0.10"), Decimal("0.20")], "0.30"),
        ("sum", "decimal(38,0)", [Decimal(10**37)] * 3, str(3 * 10**37)),
        ("sum", "decimal(38,2)", [Decimal("-0.01"), Decimal(10**35)], f"{10**35 - 1}.99"),
        ("avg", "decimal(9,2)", [Decimal("0.10"), Decimal("0.25")], "0.175000"),
        ("max", "decimal(9,2)", [Decimal("9.5"), Decimal(10)], "10.00"),
        ("min", "decimal(9,2)", [Decimal("-9.5"), Decimal(-10)], "-10.00"),
        ("sum", "bigint", [2**63 - 1, 2**63 - 1], str(2**64 - 2)),
        ("sum", "bigint", [-(2**63), -1, None], str(-(2**63) - 1)),
        ("avg", "int", [1, 2], "1.5"),
        ("min", "bigint", [3, -(2**63)], str(-(2**63))),
        ("sum", "double", [0.5, 0.25], "0.75"),
        ("sum", "double", [1e300, 1.0, -1e300], "1.0"),
        ("sum", "double", [1e308, 1e308], '"Infinity"'),
        ("sum", "double", [math.inf, -math.inf], '"NaN"'),
        ("avg", "double", [5e-324, 5e-324], "5e-324"),
        ("min", "double", [2.5, -0.5], "-0.5"),
        ("count", "string", ["a", None], "1"),
        ("max", "string", ["a", "b"], '"b"'),
        ("max", "binary", [b"\x00", b"\xff"], '"/w=="'),
        ("min", "boolean", [True, False], "false"),
        ("max", "date", [date(2026, 1, 2), date(2026, 1, 10)], '"2026-01-10"'),
        ("min", "timestamp", [datetime(2026, 1, 2, tzinfo=UTC)], '"2026-01-02 00:00:00+00:00"'),
        ("sum", "decimal(9,2)", [None], "null"),
        ("max", "string", [None], "null"),
    ],
)
def test_sums_are_exact(
    tmp_path: Path, kind: str, type_name: str, values: list[Any], text: str
) -> None:
    aggregate = Aggregate(name="r", kind=MeasureKind(kind), column="value.c")
    totals = Aggregated(tmp_path, (aggregate,), (type_name,))

    totals.apply(
        0, [Change(b"%d" % at, 0, at, 0, "g", (value,)) for at, value in enumerate(values)]
    )

    assert totals.texts == {"g": f'{{"r": {text}}}'}


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
        measured(Aggregate(name="r", kind=MeasureKind(kind), column=column), type_name)


def test_a_deleted_key_is_in_no_file_of_the_state(totals: Aggregated, tmp_path: Path) -> None:
    totals.apply(0, [row("someone@example.com", 0, "x", 1), row("other", 1, "y", 2)])
    # Parquet's zstd leaves short texts readable.
    was_there = files_with(tmp_path, b"someone@example.com")
    totals.apply(1, [row("someone@example.com", 2, None)])

    assert was_there
    assert files_with(tmp_path, b"someone@example.com") == []


def test_a_state_without_aggregates_is_refused() -> None:
    with pytest.raises(PipelineError, match="0 aggregates"):
        GroupTotals(by=("g",), measured=())


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcdefgh"), st.sampled_from(["x", "y", "z", None]), st.integers(-5, 5)
    ),
    max_size=40,
)


@given(ROWS, st.integers(1, 9), st.booleans())
@examples(15)
def test_totals_equal_those_of_the_folded_table(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, str | None, int]],
    size: int,
    alone: bool,
) -> None:
    table: dict[str, tuple[str, int]] = {}
    results: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as small:
        # So that files split, and tasks share them.
        small.setattr(leaves, "LEAF_ROWS", 1)
        small.setattr("ledgerstone.pipeline.streams.state_shares.LEAF_ROWS", 2)
        totals = made(tmp_path_factory.mktemp("totals"))
        for first in range(0, len(changes), size):
            some = changes[first : first + size]
            rows = [row(k, first + at, g, n) for at, (k, g, n) in enumerate(some)]
            totals.apply(first, rows, alone=alone)
            results |= totals.take()
            for key, group, amount in some:
                table.pop(key, None)
                if group is not None:
                    table[key] = (group, amount)

    live = {group: result for group, result in results.items() if result is not None}
    assert live == {group: _expected(table, group) for group in live}
    assert sorted(live) == sorted({group for group, _ in table.values()})


def _expected(table: dict[str, tuple[str, int]], wanted: str) -> dict[str, int]:
    amounts = [amount for group, amount in table.values() if group == wanted]
    return {"n": len(amounts), "total": sum(amounts), "least": min(amounts), "most": max(amounts)}


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, -1]), st.floats(width=64))))
def test_sums_of_floats_lose_nothing(given_: list[tuple[int, int, float]]) -> None:
    finite = [each for each in given_ if math.isfinite(each[2])]
    codes, signs, numbers = zip(*finite, strict=True) if finite else ((), (), ())

    sums = grouped_sums(
        pa.array(numbers, pa.float64()), np.array(signs, np.int64), np.array(codes, np.int64), 3
    )

    for code, found in enumerate(sums):
        exact = sum((Fraction(x) * sign for at, sign, x in finite if at == code), Fraction())
        assert Fraction(found.units, 1 << 1126) == exact
        assert sum_of_text(found.text()) == found
    assert sum_of_text(ExactSum(-5 << 200, 1, 0, 2).text()) == ExactSum(-5 << 200, 1, 0, 2)


@pytest.mark.parametrize(
    ("measure", "kind", "values"),
    [
        (Measure.WHOLE, pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1]),
        (Measure.FLOAT, pa.float64(), [-1e300, -5e-324, 0.0, 1.5, 1e300]),
        (Measure.DECIMAL, pa.decimal128(38, 2), [Decimal("-1e30"), Decimal("-0.01"), Decimal(3)]),
    ],
)
def test_bytes_sort_as_their_values(
    measure: Measure, kind: pa.DataType, values: Sequence[Any]
) -> None:
    found = ordered_bytes(pa.array(values, kind), measure).to_pylist()

    assert found == sorted(found)
    assert [value_of(each, measure, 2) for each in found] == list(values)


@given(st.sets(st.integers(0, SLOTS - 1)), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_every_slot_with_rows_is_read_by_one_task(
    slots: set[int], parallelism: int, depth: int, many: bool
) -> None:
    tops = [1]
    for _ in range(depth):
        tops = [*halves(tops[0]), *tops[1:]]
    files = [LeafFile(top, f"f{top}", 1, 1) for top in tops]
    counts = dict.fromkeys(slots, 50_000 if many else 1)

    shares = shares_of([files, []], counts, parallelism=parallelism)

    assert sorted(slot for share in shares for slot in share.slots) == sorted(slots)
    for at in (0, 1):
        tops_of = [branch.top for share in shares for branch in share.branches[at]]
        assert len(tops_of) == len(set(tops_of))
        assert not any(
            one != other and is_within(one, other) for one in tops_of for other in tops_of
        )


def test_a_state_tells_the_result_of_a_group_and_the_group_of_a_key(
    totals: Aggregated, tmp_path: Path
) -> None:
    totals.apply(0, [row("a", 0, "x", 5), row("b", 1, "x", 7)])

    by_cell = state_get(str(tmp_path), b"x")
    by_object = state_get(str(tmp_path), b'{"g": "x"}')
    by_key = state_get(str(tmp_path), b"a")

    assert by_cell == by_object == {"batch": 0, "result": totals.take()["x"]}
    assert by_key == {"batch": 0, "group": {"g": "x"}}
    assert state_get(str(tmp_path), b"nobody") is None


def test_an_erased_key_is_found_in_a_state_and_retracted(
    totals: Aggregated, tmp_path: Path
) -> None:
    totals.apply(0, [row("someone@example.com", 0, "x", 5), row("b", 1, "x", 7)])
    totals.take()
    before = search_state(str(tmp_path), b"someone@example.com")

    after = purge_state(str(tmp_path), b"someone@example.com")

    assert (before.verdict, after.verdict) == (FileVerdict.RESIDUE, FileVerdict.CLEAN)
    assert files_with(tmp_path, b"someone@example.com") == []
    assert made(tmp_path).take() == {"x": {"n": 1, "total": 7, "least": 7, "most": 7}}


def test_a_state_of_spark_that_nobody_can_read_is_not_called_clean(
    totals: Aggregated, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint" / "1.changelog").write_bytes(b"compressed")

    found = search_state(str(tmp_path), b"someone@example.com")

    assert found.verdict is FileVerdict.UNKNOWN


def test_a_broker_asks_the_state_that_reads_its_topic(tmp_path: Path) -> None:
    totals = made(tmp_path, topics=("people",))
    totals.apply(0, [row("someone@example.com", 0, "x", 5)])
    verifier = PipelineVerifier(definitions=(str(tmp_path),))

    asked = [
        verifier.verify(Question(topic=topic, key=b"someone@example.com"))[0][1]
        for topic in ("people", "others")
    ]

    assert asked == ["residue", "clean"]


class Question(NamedTuple):
    topic: str
    key: bytes | None
