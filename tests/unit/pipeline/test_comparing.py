"""A topic against a table, without either: what is judged, what is found, what would repair it."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pytest

from ledgerstone.pipeline.canonical import cells_of
from ledgerstone.pipeline.changes import one_per_key
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import DELETED, Layout, layout_of
from ledgerstone.pipeline.state.comparing import Comparison, compare, total
from ledgerstone.pipeline.state.comparing_tasks import (
    PARTS,
    Compared,
    ComparePart,
    KeySlice,
    SplitByKey,
)
from ledgerstone.pipeline.tables.merging import merged
from ledgerstone.pipeline.tables.target import Staged
from ledgerstone.pipeline.task_failures import TaskFailure
from tests.kit.table_model import Record, changes_of, expected_rows, table_rows, text_pipeline

NOW_MS = 50_000


class MemoryStage:
    """Where parts put repairs down."""

    def __init__(self) -> None:
        self.changes: list[pa.Table] = []

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        return {}

    def open(self) -> "MemoryStage":
        return self

    def add(self, changes: pa.Table) -> None:
        self.changes.append(changes)

    def finish(self) -> Staged:
        return Staged("here", (), 0, 0)

    def abandon(self) -> None:
        raise AssertionError("nothing fails here")


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


def test_row_of_a_key_whose_latest_record_is_bad_is_not_checked_and_stays() -> None:
    table = table_of("hard", [Record(0, 0, b"a", b"1", 1), Record(0, 1, b"b", b"1", 1)])
    latest = [Record(0, 1, b"b", b"1", 1), Record(0, 2, b"a", b"\xff is no text", 2)]

    found, repairs = compared_and_repairs("hard", latest, table, {0: 3})

    assert found.is_equal
    assert (found.undecodable, found.live, repairs.num_rows) == (1, 1, 0)
    assert found.partitions[0].is_equal


def test_a_negative_zero_is_the_same_cell_as_zero() -> None:
    floats = pa.table({"x": [0.0, -0.0, -1.5], "y": [1, 1, 1]})

    one, other, less = cells_of(floats, ["x", "y"]).to_pylist()

    assert one == other == b"v1:0v1:1"
    assert less == b"v4:-1.5v1:1"


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


class Rows(NamedTuple):
    """One side, in pieces as a task reads them."""

    is_topic: bool
    some: list[pa.Table]

    def pieces(self) -> Iterator[pa.Table]:
        return iter(self.some)


class Unreadable(NamedTuple):
    is_topic: bool = True

    def pieces(self) -> Iterator[pa.Table]:
        raise OSError("the disk is gone")


def exchanged(layout: Layout, *sides: Rows | Unreadable) -> list[list[KeySlice | TaskFailure]]:
    """What every part was given, as Spark would bring it together."""
    given: dict[int, list[KeySlice | TaskFailure]] = {}
    for side in sides:
        for part, each in SplitByKey(layout=layout)(side):
            given.setdefault(part, []).append(each)
    return list(given.values())


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_parts_add_up_to_the_whole(deletes: str) -> None:
    pipeline = text_pipeline("sqlite", "unused", deletes)
    layout = layout_of(pipeline)
    dice = random.Random(3)
    topic = [
        Record(n % 2, n, f"k{n}".encode(), b"v" if dice.random() < 0.7 else None, n + 1)
        for n in range(500)
    ]
    table = table_of(deletes, [each for each in topic if dice.random() < 0.9])
    latest = one_per_key(changes_of(pipeline, topic), ("id",))
    work = ComparePart(layout=layout, positions={0: 400, 1: 400}, now_ms=NOW_MS)

    given = exchanged(
        layout,
        Rows(is_topic=True, some=[latest.slice(0, 77), latest.slice(77), latest.slice(0, 0)]),
        Rows(is_topic=False, some=[table]),
    )
    found = [work(each) for each in given]

    whole, _ = compare(latest, table, {0: 400, 1: 400}, layout, now_ms=NOW_MS)
    added = total([each.found for each in found if isinstance(each, Compared)], layout)
    assert len(given) == PARTS
    assert replace(added, examples=()) == replace(whole, examples=())
    assert len(added.examples) == len(whole.examples)


@pytest.mark.parametrize("only_deletes", [False, True])
def test_repairs_are_put_down_by_the_part_that_found_them(only_deletes: bool) -> None:
    pipeline = text_pipeline("sqlite", "unused", "hard")
    layout = layout_of(pipeline)
    table = table_of("hard", [Record(0, n, f"k{n}".encode(), b"old", 1) for n in range(40)])
    latest = changes_of(pipeline, [Record(0, 50, b"new", b"1", 2), Record(0, 51, b"k7", b"2", 3)])
    stage = MemoryStage()
    work = ComparePart(
        layout=layout, positions={0: 60}, now_ms=NOW_MS, stage=stage, only_deletes=only_deletes
    )

    sides = (Rows(is_topic=True, some=[latest]), Rows(is_topic=False, some=[table]))
    for each in exchanged(layout, *sides):
        work(each)

    repairs = pa.concat_tables(stage.changes)
    deleted = repairs.column(DELETED).to_pylist()
    assert (deleted.count(True), deleted.count(False)) == (39, 0 if only_deletes else 2)


def test_side_that_cannot_be_read_fails_its_comparison() -> None:
    layout = layout_of(text_pipeline("sqlite", "unused", "hard"))
    work = ComparePart(layout=layout, positions={}, now_ms=NOW_MS)

    (found,) = [work(each) for each in exchanged(layout, Unreadable())]

    assert isinstance(found, TaskFailure)
    assert found.retriable
    assert "the disk is gone" in str(found.error())
