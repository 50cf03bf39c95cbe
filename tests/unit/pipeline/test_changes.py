"""From records to changes, and what of them goes into the table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.pipeline.applying import ChangeApplier
from ledgerstone.pipeline.bad_records import Letter
from ledgerstone.pipeline.canonical import cells_of, checksum
from ledgerstone.pipeline.changes import not_yet_applied, one_per_key, positions_after
from ledgerstone.pipeline.definition import OnBadRecord, Pipeline
from ledgerstone.pipeline.errors import RecordRefused
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.merging import merged
from ledgerstone.pipeline.tables.target import (
    Applied,
    BatchStage,
    Followed,
    Staged,
    TableTarget,
)
from tests.kit.table_model import Record, changes_of, text_pipeline

PIPELINE = text_pipeline("sqlite", "unused")


def test_key_that_went_astray_has_one_change_and_the_youngest_counts() -> None:
    records = [
        Record(1, 7, b"a", b"old of 1", 10),
        Record(1, 8, b"a", b"last of 1", 20),
        Record(0, 99, b"a", b"of 0", 15),
        Record(0, 3, b"b", b"alone", 1),
    ]

    kept = one_per_key(changes_of(PIPELINE, records), ("id",))

    assert sorted(kept.column("said").to_pylist()) == ["alone", "last of 1"]


def test_last_of_a_partition_counts_even_if_its_clock_went_back() -> None:
    records = [Record(0, 1, b"a", b"first", 900), Record(0, 2, b"a", b"second", 5)]

    kept = one_per_key(changes_of(PIPELINE, records), ("id",))

    assert kept.column("said").to_pylist() == ["second"]


def test_what_the_table_has_already_is_left_out() -> None:
    records = [Record(p, o, b"k", b"v", 1) for p in (0, 1) for o in (4, 5)]
    changes = changes_of(PIPELINE, records)

    fresh = not_yet_applied(changes, {0: 5})

    assert positions_after(fresh) == {0: 6, 1: 6}
    assert fresh.num_rows == 3


@pytest.mark.parametrize("timestamp_ms", [-(10**14), -1, 10**15])
def test_times_no_calendar_has_are_brought_into_one(timestamp_ms: int) -> None:
    changes = changes_of(PIPELINE, [Record(0, 0, b"k", b"v", timestamp_ms)])

    (at,) = changes.column("_timestamp").to_pylist()

    assert datetime(1, 1, 1, tzinfo=UTC) <= at <= datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)


_CELL = st.none() | st.text(max_size=3)


@given(st.lists(st.tuples(_CELL, _CELL), max_size=30))
@settings(max_examples=100, deadline=None)
def test_rows_have_the_same_bytes_exactly_where_they_are_equal(
    rows: list[tuple[str | None, str | None]],
) -> None:
    table = pa.table(
        {
            "a": pa.array([row[0] for row in rows], pa.string()),
            "b": pa.array([row[1] for row in rows], pa.string()),
        }
    )

    cells = cells_of(table, ["a", "b"]).to_pylist()

    assert [cells.index(cell) for cell in cells] == [rows.index(row) for row in rows]


def test_checksum_is_that_of_the_documentation() -> None:
    keys, values = pa.array([b"alice", b"bob"]), pa.array([b"1", b""])

    assert f"{checksum(keys, values):032x}" == "41ea4945fd45a2507effd121ebcfcae2"


class MemoryStage:
    """Is its own sink."""

    def __init__(self) -> None:
        self.changes: list[pa.Table] = []

    def unfit(self, changes: pa.Table) -> dict[int, str]:
        said = changes.column("said").to_pylist()
        return {row: "unfit" for row, each in enumerate(said) if each == "refused"}

    def open(self) -> "MemoryStage":
        return self

    def add(self, changes: pa.Table) -> None:
        self.changes.append(changes)

    def finish(self) -> Staged:
        return Staged("", (), sum(each.num_rows for each in self.changes), 0)

    def abandon(self) -> None:
        raise NotImplementedError


class MemoryTable(TableTarget):
    """A target that keeps its rows in memory, and refuses a value."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._layout = layout_of(pipeline)
        self.table = self._layout.table_schema.empty_table()
        self.at: dict[int, int] = {}
        self.writes = 0

    def prepare(self) -> None:
        """Nothing to make."""

    def followed(self) -> Followed | None:
        return None

    def follow(self, followed: Followed) -> None:
        del followed

    def positions(self) -> dict[int, int]:
        return dict(self.at)

    def stage(self, incoming: Incoming) -> "MemoryStage":
        del incoming
        return MemoryStage()

    def apply_staged(
        self,
        stage: BatchStage,
        staged: Sequence[Staged],
        positions: Mapping[int, int],
        *,
        forced: bool = False,
    ) -> Applied:
        assert isinstance(stage, MemoryStage)
        for changes in stage.changes:
            self.table = merged(self.table, changes, self._layout, forced=forced)
        self.at |= positions
        self.writes += 1
        return Applied(upserts=sum(each.upserts for each in staged), deletes=0)

    def drop_staged(self) -> None:
        """Nothing is left behind."""

    def tidy(self) -> None:
        """There are no past versions."""

    def rows(self) -> Iterator[pa.Table]:
        return iter([self.table])

    def close(self) -> None:
        """Nothing to close."""


def test_bad_and_unfit_records_are_sent_before_the_table_moves() -> None:
    policy = {"on_bad_record": OnBadRecord.DEAD_LETTER, "dead_letter_topic": "dead"}
    pipeline = replace(PIPELINE, **policy)  # type: ignore[arg-type]
    table = MemoryTable(pipeline)
    sent: list[tuple[Letter, int]] = []

    def send(letters: list[Letter]) -> None:
        sent.extend((each, table.writes) for each in letters)

    applier = ChangeApplier(pipeline, table, send)
    records = [
        Record(0, 0, b"\xff", b"key", 1),
        Record(0, 1, b"k", b"refused", 1),
        Record(0, 2, b"good", b"v", 1),
    ]

    report = applier.apply(changes_of(pipeline, records), {0: 9})

    assert [(letter.topic, writes) for letter, writes in sent] == [("dead", 0), ("dead", 0)]
    assert [dict(letter.headers)["ledgerstone.dead-letter.offset"] for letter, _ in sent] == [
        b"0",
        b"1",
    ]
    assert (report.bad, table.table.column("id").to_pylist(), table.at) == (2, ["good"], {0: 9})


def test_many_bad_records_are_named_and_the_table_does_not_move() -> None:
    table = MemoryTable(PIPELINE)
    applier = ChangeApplier(PIPELINE, table, lambda _: None)
    records = [Record(2, offset, b"\xff", b"v", 1) for offset in range(7)]

    with pytest.raises(RecordRefused, match=r"people-topic-2 offset 0: .*and 2 more"):
        applier.apply(changes_of(PIPELINE, records), {})

    assert (table.writes, applier.positions) == (0, {})


def test_batch_that_comes_again_is_not_written() -> None:
    table = MemoryTable(PIPELINE)
    changes = changes_of(PIPELINE, [Record(0, 0, b"a", b"v", 1)])
    ChangeApplier(PIPELINE, table, lambda _: None).apply(changes, {0: 1})

    report = ChangeApplier(PIPELINE, table, lambda _: None).apply(changes, {0: 1})

    assert (table.writes, report.already_applied, report.changes) == (1, 1, 0)
