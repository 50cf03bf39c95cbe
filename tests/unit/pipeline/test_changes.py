"""From records to changes, and what of them goes into the table."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.canonical import cells_of, checksum
from ledgerstone.pipeline.changes import one_per_key
from tests.kit.sized import examples
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


@pytest.mark.parametrize("timestamp_ms", [-(10**14), -1, 10**15])
def test_times_no_calendar_has_are_brought_into_one(timestamp_ms: int) -> None:
    changes = changes_of(PIPELINE, [Record(0, 0, b"k", b"v", timestamp_ms)])

    (at,) = changes.column("_timestamp").to_pylist()

    assert datetime(1, 1, 1, tzinfo=UTC) <= at <= datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)


_CELL = st.none() | st.text(max_size=3)


@given(st.lists(st.tuples(_CELL, _CELL), max_size=30))
@examples(100)
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
