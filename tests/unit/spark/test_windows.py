"""Raw batches to rows: ranges, transactions, fold, filters and gaps, against plain lists."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    StringStartsWith,
)

from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.spark import gaps as gaps_module
from ledgerstone.spark import windows as windows_module
from ledgerstone.spark.filters import Pruning, pruning_of
from ledgerstone.spark.gaps import Gap, GapReason, gap_batches, gaps_in
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import (
    FoldMode,
    RowOptions,
    Rows,
)
from ledgerstone.spark.schema import projection, schema_of
from ledgerstone.spark.windows import CompactedMeanwhile, FetchWindow, ReadFrom, record_batches
from ledgerstone.types import AbortedTxn, TopicPartition

_T = TopicPartition("t", 3)
_SHAPE = projection(schema_of(Rows.RECORDS, include_headers=True), Rows.RECORDS)
_SEED = bytes(range(16))

# offset, key, value
Entry = tuple[int, bytes | None, bytes | None]


def batch_of(
    entries: Sequence[Entry], *, codec: Codec = Codec.NONE, last: int | None = None
) -> bytes:
    base = entries[0][0]
    built = build_batch(
        [(1_000 + offset, key, value, ()) for offset, key, value in entries],
        base_offset=base,
        offsets=[offset for offset, _, _ in entries],
        last_offset_delta=None if last is None else last - base,
        codec=codec,
    )
    return bytes(built)


def reader_of(windows: Sequence[FetchWindow]) -> ReadFrom:
    def read_from(offset: int) -> Iterator[FetchWindow]:
        return (each for each in windows if each.fetch_offset >= offset)

    return read_from


def rows_in(
    windows: Sequence[FetchWindow],
    *,
    start: int = 0,
    end: int = 1_000,
    pruning: Pruning | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    wanted = OffsetRange(_T, start, end)
    found = record_batches(
        reader_of(windows), wanted, RowOptions(**options), pruning or Pruning(), _SHAPE, seed=_SEED
    )
    return [row for batch in found for row in batch.to_pylist()]


def entries_in(windows: Sequence[FetchWindow], **options: Any) -> list[Entry]:
    return [(row["offset"], row["key"], row["value"]) for row in rows_in(windows, **options)]


_ENTRIES = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.none() | st.sampled_from([b"a", b"b", b"c", b""]),
        st.none() | st.binary(max_size=3),
    ),
    min_size=1,
    max_size=25,
)


def _windows(
    steps: list[tuple[int, bytes | None, bytes | None]], sizes: int, codec: Codec
) -> tuple[list[FetchWindow], list[Entry]]:
    offset, entries = 0, []
    for step, key, value in steps:
        offset += step
        entries.append((offset, key, value))
    chunks = [entries[at : at + sizes] for at in range(0, len(entries), sizes)]
    found = [FetchWindow(chunk[0][0], batch_of(chunk, codec=codec), ()) for chunk in chunks]
    return found, entries


@given(
    _ENTRIES,
    st.integers(1, 5),
    st.sampled_from(list(Codec)),
    st.integers(0, 30),
    st.integers(0, 40),
)
def test_rows_are_the_records_of_the_range(
    steps: list[tuple[int, bytes | None, bytes | None]],
    sizes: int,
    codec: Codec,
    start: int,
    length: int,
) -> None:
    windows, entries = _windows(steps, sizes, codec)

    found = rows_in(windows, start=0, end=start + length)

    assert [(r["offset"], r["key"], r["value"]) for r in found] == [
        entry for entry in entries if entry[0] < start + length
    ]
    assert {(r["topic"], r["partition"], r["timestampType"]) for r in found} <= {("t", 3, 0)}


@given(_ENTRIES, st.integers(1, 5), st.integers(0, 60), st.booleans())
def test_a_fold_keeps_the_last_record_of_each_key_below_the_end(
    steps: list[tuple[int, bytes | None, bytes | None]], sizes: int, end: int, tombstones: bool
) -> None:
    windows, entries = _windows(steps, sizes, Codec.NONE)
    latest = {key: (o, key, value) for o, key, value in entries if o < end and key is not None}

    found = entries_in(windows, end=end, fold=FoldMode.LATEST, include_tombstones=tombstones)

    expected = sorted(entry for entry in latest.values() if tombstones or entry[2] is not None)
    assert sorted(found) == expected


def test_a_fold_reads_again_what_it_could_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, entries = _windows([(1, b"k%d" % (n % 5), b"v") for n in range(40)], 4, Codec.LZ4)
    monkeypatch.setattr(windows_module, "KEPT_BYTES", 300)

    found = entries_in(windows, fold=FoldMode.LATEST)

    assert sorted(found) == entries[-5:]


def test_a_fold_of_a_log_that_is_compacted_meanwhile_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows_module, "KEPT_BYTES", 0)
    windows, _ = _windows([(1, b"a", b"1"), (1, b"b", b"2")], 1, Codec.NONE)
    reads = iter([windows, []])

    def read_from(_: int) -> Iterator[FetchWindow]:
        return iter(next(reads))

    wanted = OffsetRange(_T, 0, 10)
    rows = RowOptions(fold=FoldMode.LATEST)
    with pytest.raises(CompactedMeanwhile, match="2 keys"):
        list(record_batches(read_from, wanted, rows, Pruning(), _SHAPE, seed=_SEED))


def _transactional(offset: int, producer_id: int, value: bytes) -> bytes:
    return bytes(
        build_batch(
            [(0, b"k", value, ())],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )


def _aborted_window() -> FetchWindow:
    marker = end_txn_marker(
        commit=False,
        base_offset=2,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
    )
    data = _transactional(0, 7, b"no") + batch_of([(1, b"x", b"yes")]) + bytes(marker)
    return FetchWindow(0, data + batch_of([(3, b"y", b"yes")]), (AbortedTxn(7, 0),))


def test_aborted_records_and_markers_are_no_rows() -> None:
    committed = entries_in([_aborted_window()])
    uncommitted = entries_in([_aborted_window()], isolation=IsolationLevel.READ_UNCOMMITTED)

    assert committed == [(1, b"x", b"yes"), (3, b"y", b"yes")]
    assert uncommitted == [(0, b"k", b"no"), *committed]


@pytest.mark.parametrize("fold", list(FoldMode))
def test_records_of_a_batch_below_where_fetching_began_are_deleted(fold: FoldMode) -> None:
    windows = [FetchWindow(2, batch_of([(1, b"a", b"gone"), (2, b"b", b"here")]), ())]

    assert entries_in(windows, fold=fold) == [(2, b"b", b"here")]


# -- filters -----------------------------------------------------------------------------------


def _ten() -> list[FetchWindow]:
    entries: list[Entry] = [(n, b"k%d" % n, None if n % 3 == 0 else b"v") for n in range(10)]
    return [FetchWindow(0, batch_of(entries), ())]


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@pytest.mark.parametrize(
    ("filters", "offsets"),
    [
        ([EqualTo(("key",), b"k4")], [4]),
        ([In(("key",), (b"k4", b"k7", b"nobody"))], [4, 7]),
        ([EqualTo(("key",), b"k4"), EqualTo(("key",), b"k5")], []),
        ([GreaterThan(("offset",), 7)], [8, 9]),
        ([GreaterThanOrEqual(("offset",), 2), LessThan(("offset",), 4)], [2, 3]),
        ([GreaterThanOrEqual(("timestamp",), _at(1_008))], [8, 9]),
        ([LessThan(("timestamp",), _at(1_001))], [0, 1]),
        ([IsNotNull(("value",))], [1, 2, 4, 5, 7, 8]),
        ([StringStartsWith(("topic",), "t")], list(range(10))),
        ([EqualTo(("key",), None)], list(range(10))),
    ],
)
def test_filters_spare_rows_and_never_drop_one_that_spark_would_keep(
    filters: list[Any], offsets: list[int]
) -> None:
    found = rows_in(_ten(), pruning=pruning_of(filters))

    assert [row["offset"] for row in found] == offsets


def test_filters_on_offsets_narrow_a_range_but_not_that_of_a_fold() -> None:
    pruning = pruning_of([GreaterThan(("offset",), 4), LessThan(("offset",), 9)])
    wanted = OffsetRange(_T, 0, 100)

    assert pruning.narrowed(wanted, folds=False) == OffsetRange(_T, 5, 9)
    assert pruning.narrowed(wanted, folds=True) == wanted


def test_filters_on_topic_and_partition_spare_whole_tasks() -> None:
    wanted = OffsetRange(_T, 0, 100)

    for filters in ([EqualTo(("topic",), "u")], [EqualTo(("partition",), 2)]):
        assert pruning_of(filters).narrowed(wanted, folds=True) is None
    assert pruning_of([In(("partition",), (1, 3))]).narrowed(wanted, folds=True) == wanted


def test_a_filter_on_offsets_comes_after_the_fold() -> None:
    windows = [FetchWindow(0, batch_of([(0, b"a", b"old"), (1, b"a", b"new")]), ())]
    pruning = pruning_of([LessThan(("offset",), 1)])

    assert entries_in(windows, pruning=pruning, fold=FoldMode.LATEST) == []


# -- gaps --------------------------------------------------------------------------------------


def test_gaps_are_explained() -> None:
    compacted = batch_of([(6, b"a", b"1"), (8, b"b", b"1")], last=10)
    window = _aborted_window()
    windows = [window._replace(data=bytes(window.data) + compacted)]
    wanted = OffsetRange(_T, 0, 13)

    found = list(gaps_in(windows, wanted, RowOptions()))

    assert found == [
        Gap(0, 1, GapReason.ABORTED),
        Gap(2, 3, GapReason.CONTROL),
        Gap(4, 6, GapReason.COMPACTED),
        Gap(7, 8, GapReason.COMPACTED),
        Gap(9, 13, GapReason.COMPACTED),
    ]


def test_gaps_are_handed_on_while_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps_module, "MAX_ROWS", 2)
    taken = []

    def each_with_a_gap_before_it() -> Iterator[FetchWindow]:
        for offset in range(1, 11, 2):
            taken.append(offset)
            yield FetchWindow(offset - 1, batch_of([(offset, b"a", b"1")]), ())

    shape = projection(schema_of(Rows.GAPS, include_headers=False), Rows.GAPS)
    windows, wanted = each_with_a_gap_before_it(), OffsetRange(_T, 0, 10)
    batches = gap_batches(windows, wanted, RowOptions(), shape)

    first = next(batches)

    assert (first.num_rows, len(taken)) == (2, 3)
    assert [each.num_rows for each in batches] == [2, 1]


def test_what_lies_below_the_start_of_the_log_is_deleted() -> None:
    windows = [FetchWindow(5, batch_of([(5, b"a", b"1")]), ())]

    found = list(gaps_in(windows, OffsetRange(_T, 0, 6), RowOptions()))

    assert found == [Gap(0, 5, GapReason.DELETED)]


@given(_ENTRIES, st.integers(1, 5), st.integers(0, 50))
def test_rows_and_gaps_together_are_the_whole_range(
    steps: list[tuple[int, bytes | None, bytes | None]], sizes: int, end: int
) -> None:
    windows, _ = _windows(steps, sizes, Codec.NONE)
    wanted = OffsetRange(_T, 0, end)

    gaps = gaps_in([w._replace(fetch_offset=0) for w in windows], wanted, RowOptions())
    missing = [offset for gap in gaps for offset in range(gap.start_offset, gap.end_offset)]

    assert sorted([*missing, *(o for o, _, _ in entries_in(windows, end=end))]) == list(range(end))


def test_batches_have_the_very_schema_that_spark_asks_for() -> None:
    found = record_batches(
        reader_of(_ten()), OffsetRange(_T, 0, 5), RowOptions(), Pruning(), _SHAPE, seed=_SEED
    )

    assert all(batch.schema.equals(_SHAPE.schema) for batch in found)
    assert _SHAPE.schema.field("timestamp").type == pa.timestamp("us", "UTC")
