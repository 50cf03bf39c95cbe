"""A topic against a table, without either: what is judged, what is found, what would repair it."""

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from ledgerstone.pipeline.changes import one_per_key
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.state.comparing import Comparison, compare, total
from ledgerstone.pipeline.state.spilling import PARTS, Spill, own_directory
from ledgerstone.pipeline.tables.merging import merged
from tests.kit.table_model import Record, changes_of, expected_rows, table_rows, text_pipeline

NOW_MS = 50_000


def table_of(deletes: str, records: list[Record]) -> pa.Table:
    pipeline = text_pipeline("sqlite", "unused", deletes)
    changes = changes_of(pipeline, records)
    if deletes != "history":
        changes = one_per_key(changes, ("id",))
    layout = layout_of(pipeline)
    return merged(layout.table_schema.empty_table(), changes, layout)


def compared(
    deletes: str, topic: list[Record], table: pa.Table, positions: dict[int, int]
) -> Comparison:
    return compared_and_repairs(deletes, topic, table, positions)[0]


def compared_and_repairs(
    deletes: str, topic: list[Record], table: pa.Table, positions: dict[int, int]
) -> tuple[Comparison, pa.Table]:
    pipeline = text_pipeline("sqlite", "unused", deletes)
    latest = one_per_key(changes_of(pipeline, topic), ("id",))
    return compare(latest, table, positions, layout_of(pipeline), now_ms=NOW_MS)


@pytest.mark.parametrize("deletes", ["hard", "soft", "history"])
def test_table_that_followed_its_topic_is_equal(deletes: str) -> None:
    records = [
        Record(0, 0, b"a", b"1", 1),
        Record(0, 1, b"b", b"1", 2),
        Record(0, 2, b"a", None, 3),
        Record(0, 3, b"b", b"2", 4),
    ]

    found = compared(deletes, records, table_of(deletes, records), {0: 4})

    assert found.is_equal
    assert (found.live, found.deleted, found.pending) == (1, 1, 0)
    assert found.partitions[0].is_equal


def test_key_behind_the_position_is_pending_whatever_the_table_says() -> None:
    seen = [Record(0, 0, b"changed", b"1", 1), Record(0, 1, b"deleted", b"1", 1)]
    later = [
        Record(0, 2, b"changed", b"2", 2),
        Record(0, 3, b"deleted", None, 2),
        Record(0, 4, b"new", b"1", 2),
    ]

    found = compared("hard", later, table_of("hard", seen), {0: 2})

    assert found.is_equal
    assert (found.pending, found.live) == (3, 0)


def test_partition_that_was_never_read_is_pending() -> None:
    found = compared("hard", [Record(7, 0, b"a", b"1", 1)], table_of("hard", []), {})

    assert (found.is_equal, found.pending) == (True, 1)


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_repairs_make_any_table_what_it_has_to_be(deletes: str) -> None:
    dice = random.Random(2)
    for _ in range(15):
        topic = [
            Record(0, n, f"k{n}".encode(), b"v" if dice.random() < 0.7 else None, n + 1)
            for n in range(12)
        ]
        wrong = [
            Record(0, each.offset - dice.randrange(3), each.key, b"w", each.timestamp_ms)
            for each in topic
            if each.offset > 2 and dice.random() < 0.5
        ] + [Record(0, 1, b"ghost", b"w", 1)]
        pipeline = text_pipeline("sqlite", "unused", deletes)
        table = table_of(deletes, wrong)

        found, repairs = compared_and_repairs(deletes, topic, table, {0: 12})
        repaired = merged(table, repairs, layout_of(pipeline), forced=True)

        assert not found.is_equal
        assert compared(deletes, topic, repaired, {0: 12}).is_equal
        live = [row for row in table_rows([repaired]) if deletes == "hard" or row[-1] is None]
        expected = expected_rows(topic, Deletes(deletes))
        assert live == [row for row in expected if deletes == "hard" or row[-1] is None]


@pytest.mark.parametrize(("deletes", "end"), [("soft", "_deleted_at"), ("history", "_valid_to")])
def test_row_whose_tombstone_is_gone_ends_now(deletes: str, end: str) -> None:
    pipeline = text_pipeline("sqlite", "unused", deletes)
    table = table_of(deletes, [Record(0, 4, b"ghost", b"1", 1)])

    found, repairs = compared_and_repairs(deletes, [], table, {0: 9})
    repaired = merged(table, repairs, layout_of(pipeline), forced=True)

    assert (found.extra, found.missing, found.stale) == (1, 0, 0)
    (at,) = repaired.column(end).to_pylist()
    assert at.timestamp() * 1000 == NOW_MS


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_parts_add_up_to_the_whole(deletes: str, tmp_path: Path) -> None:
    pipeline = text_pipeline("sqlite", "unused", deletes)
    layout = layout_of(pipeline)
    dice = random.Random(3)
    topic = [
        Record(n % 2, n, f"k{n}".encode(), b"v" if dice.random() < 0.7 else None, n + 1)
        for n in range(500)
    ]
    table = table_of(deletes, [each for each in topic if dice.random() < 0.9])
    latest = one_per_key(changes_of(pipeline, topic), ("id",))

    with (
        Spill(tmp_path / "topic", layout, layout.change_schema) as one,
        Spill(tmp_path / "table", layout, layout.table_schema) as other,
    ):
        one.add([latest.slice(0, 77), latest.slice(77), latest.slice(0, 0)])
        other.add([table])
        sides = list(zip(one.parts(), other.parts(), strict=True))
        again = [part.num_rows for part in one.parts()]
    found = [compare(*each, {0: 400, 1: 400}, layout, now_ms=NOW_MS) for each in sides]

    whole, repairs = compare(latest, table, {0: 400, 1: 400}, layout, now_ms=NOW_MS)
    added = total((each for each, _ in found), layout)
    assert replace(added, examples=()) == replace(whole, examples=())
    assert len(added.examples) == len(whole.examples)
    assert sum(each.num_rows for _, each in found) == repairs.num_rows > 0
    assert (len(again), sum(again), max(again) < 50) == (PARTS, 500, True)
    assert not list(tmp_path.iterdir())


def test_leftovers_of_a_comparison_that_was_killed_are_dropped(tmp_path: Path) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    dead, alive = (tmp_path / f"comparing-{pid}" for pid in (int(gone.stdout), os.getppid()))
    for path in (dead, alive):
        (path / "table").mkdir(parents=True)
        (path / "table" / "07.arrow").write_bytes(b"rows")

    mine = own_directory(tmp_path)

    assert mine.name == f"comparing-{os.getpid()}"
    assert list(tmp_path.iterdir()) == [alive]
