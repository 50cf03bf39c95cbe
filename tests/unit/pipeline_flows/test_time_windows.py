"""Windows over a table: rows move between them, leave them, and come late to them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams import time_windows
from ledgerstone.pipeline.streams.measures import Aggregate, MeasureKind
from ledgerstone.pipeline.streams.state_query import state_get
from ledgerstone.pipeline.streams.time_windows import TimeWindows
from ledgerstone.pipeline.tables import leaves
from tests.kit.aggregates import Aggregated, Change

AGGREGATES = (
    Aggregate(name="n", kind=MeasureKind.COUNT),
    Aggregate(name="most", kind=MeasureKind.MAX, column="value.amount"),
)
TUMBLING = TimeWindows(size="10 minutes")
HOPPING = TimeWindows(size="10 minutes", slide="5 minutes")
UNEVEN = TimeWindows(size="10 minutes", slide="4 minutes")
MINUTE_US = 60_000_000


def made(work: Path, windows: TimeWindows) -> Aggregated:
    return Aggregated(work, AGGREGATES, ("int", "bigint"), windows=windows)


def row(key: str, offset: int, minute: int | None, amount: int = 0, group: str = "x") -> Change:
    time_us = None if minute is None else minute * MINUTE_US
    return Change(key.encode(), 0, offset, offset, group, (None, amount), time_us)


def gone(key: str, offset: int) -> Change:
    return Change(key.encode(), 0, offset, offset, None, (None, None))


def window(start: int, end: int, group: str = "x") -> str:
    first, last = (f"1970-01-01T{at // 60:02d}:{at % 60:02d}:00.000Z" for at in (start, end))
    return f"{group}@{first}@{last}"


def test_a_row_whose_time_changes_moves_to_another_window(tmp_path: Path) -> None:
    totals = made(tmp_path, TUMBLING)
    totals.apply(0, [row("a", 0, 12, 5), row("b", 1, 19, 7)])
    first = totals.take()

    totals.apply(1, [row("b", 2, 20, 7)])

    assert first == {window(10, 20): {"n": 2, "most": 7}}
    assert totals.take() == {
        window(10, 20): {"n": 1, "most": 5},
        window(20, 30): {"n": 1, "most": 7},
    }


def test_a_row_is_in_every_window_that_overlaps_and_a_delete_leaves_all(tmp_path: Path) -> None:
    totals = made(tmp_path, HOPPING)
    totals.apply(0, [row("a", 0, 12, 5)])
    first = totals.take()

    totals.apply(1, [gone("a", 1)])

    one = {"n": 1, "most": 5}
    assert first == {window(5, 15): one, window(10, 20): one}
    assert totals.take() == {window(5, 15): None, window(10, 20): None}


def test_a_late_row_counts_in_its_old_window_and_one_without_a_time_in_none(
    tmp_path: Path,
) -> None:
    totals = made(tmp_path, TUMBLING)
    totals.apply(0, [row("a", 0, 500, 5), row("b", 1, None, 6)])
    first = totals.take()

    totals.apply(1, [row("late", 2, 3, 7)])

    assert first == {window(500, 510): {"n": 1, "most": 5}}
    assert totals.take() == {window(0, 10): {"n": 1, "most": 7}}


def test_a_state_is_asked_for_a_window_by_the_key_of_its_result(tmp_path: Path) -> None:
    totals = made(tmp_path, TUMBLING)
    totals.apply(0, [row("a", 0, 12, 5)])
    _, start, end = window(10, 20).split("@")
    wanted = {"g": "x", "window.start": start, "window.end": end}

    found = state_get(str(tmp_path), json.dumps(wanted).encode())

    assert found == {"batch": 0, "result": {"n": 1, "most": 5}}


def test_a_task_never_holds_all_rows_in_all_of_their_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    spread = TimeWindows.spread

    def seen(windows: TimeWindows, rows: pa.Table, signs: Any) -> tuple[pa.Table, Any]:
        found = spread(windows, rows, signs)
        sizes.append(found[0].num_rows)
        return found

    monkeypatch.setattr(TimeWindows, "spread", seen)
    totals = made(tmp_path, TimeWindows(size="1000 minutes", slide="1 minute"))

    totals.apply(0, [row(f"k{number}", number, 5000, number) for number in range(300)])

    assert sum(sizes) == 300_000
    assert max(sizes) <= 1 << 18
    assert list(totals.take().values()) == [{"n": 300, "most": 299}] * 1000


def test_windows_shorter_than_a_millisecond_stay_apart(tmp_path: Path) -> None:
    totals = made(tmp_path, TimeWindows(size="500 microseconds", slide="250 microseconds"))

    totals.apply(0, [Change(b"a", 0, 0, 0, "x", (None, 5), 600)])

    at = "1970-01-01T00:00:00.000"
    assert sorted(totals.take()) == [f"x@{at}250Z@{at}750Z", f"x@{at}500Z@{at[:-3]}001000Z"]


@pytest.mark.parametrize(
    ("size", "slide", "message"),
    [
        ("1 month", None, "no length of a window"),
        ("0 seconds", None, "no length of a window"),
        ("soon", None, "no length of a window"),
        ("1 minute", "2 minutes", "count nowhere"),
        ("1 day", "1 second", "86400 of them, at most 1000"),
    ],
)
def test_windows_that_make_no_sense_are_refused(size: str, slide: str | None, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        TimeWindows(size=size, slide=slide)


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["x", "y", None]),
        st.one_of(st.none(), st.integers(-12, 40)),
        st.integers(0, 3),
    ),
    max_size=20,
)


@given(ROWS, st.integers(1, 5), st.sampled_from([TUMBLING, HOPPING, UNEVEN]), st.booleans())
@settings(max_examples=15, deadline=None)
def test_windows_hold_what_the_folded_table_holds(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, str | None, int | None, int]],
    size: int,
    windows: TimeWindows,
    alone: bool,
) -> None:
    table: dict[str, tuple[str, int | None, int]] = {}
    results: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as small:
        small.setattr(leaves, "LEAF_ROWS", 1)
        small.setattr(time_windows, "SPREAD_ROWS", 3)
        totals = made(tmp_path_factory.mktemp("windows"), windows)
        for first in range(0, len(changes), size):
            rows = []
            for at, (key, group, minute, amount) in enumerate(changes[first : first + size]):
                table.pop(key, None)
                if group is None:
                    rows.append(gone(key, first + at))
                    continue
                rows.append(row(key, first + at, minute, amount, group))
                table[key] = (group, minute, amount)
            totals.apply(first, rows, alone=alone)
            results |= totals.take()

    live = {name: result for name, result in results.items() if result is not None}
    assert live == _expected(table, windows)


def _expected(table: dict[str, tuple[str, int | None, int]], windows: TimeWindows) -> Any:
    """By trying every window that there could be."""
    size, slide = windows.size_us // MINUTE_US, windows.slide_us // MINUTE_US
    found: dict[str, list[int]] = {}
    for start in range(-60 * slide, 60 * slide, slide):
        for group, minute, amount in table.values():
            if minute is not None and start <= minute < start + size:
                found.setdefault(_named(group, start, size), []).append(amount)
    return {name: {"n": len(some), "most": max(some)} for name, some in found.items()}


def _named(group: str, start: int, size: int) -> str:
    if start >= 0:
        return window(start, start + size, group)
    first = f"1969-12-31T{23 + (start // 60 + 1):02d}:{start % 60:02d}:00.000Z"
    if start + size >= 0:
        return f"{group}@{first}@{window(0, start + size).split('@')[2]}"
    end = start + size
    return f"{group}@{first}@1969-12-31T{23 + (end // 60 + 1):02d}:{end % 60:02d}:00.000Z"
