"""Turns windows of raw batches into rows: visible, latest, and filtered ones. Pure.

A window is a buffer of whole batches with the aborted transactions that touch it, whether it came
over the wire or from a file.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.errors import CorruptRecord
from ledgerstone.records.arrow import to_arrow
from ledgerstone.records.kernels import Columns, scan
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import (
    FoldMode,
    RowOptions,
)
from ledgerstone.spark.schema import Projection
from ledgerstone.state.fold import Fold as LatestPerKey
from ledgerstone.state.visibility import hidden_batches, taken, walk_pieces
from ledgerstone.types import AbortedTxn, Buffer

# Spark keeps a whole batch in memory on both sides of the socket.
MAX_ROWS: Final = 1 << 16
# Windows kept from the first pass of a fold, so that the second need not fetch them again.
KEPT_BYTES: Final = 128 << 20


class FetchWindow(NamedTuple):
    fetch_offset: int
    data: Buffer
    aborted: tuple[AbortedTxn, ...]


# Reads a range from the offset given on; a fold reads some of it twice.
ReadFrom = Callable[[int], Iterator[FetchWindow]]


class CompactedMeanwhile(CorruptRecord):
    """The log was cleaned between the two passes of a fold; a retry can succeed."""


def record_batches(
    read_from: ReadFrom,
    wanted: OffsetRange,
    rows: RowOptions,
    pruning: Pruning,
    shape: Projection,
    *,
    seed: bytes,
) -> Iterator[pa.RecordBatch]:
    if rows.fold is FoldMode.LATEST:
        found = latest_per_key(read_from, wanted, rows, seed=seed)
    else:
        found = chain.from_iterable(
            visible(each, wanted, rows) for each in read_from(wanted.start_offset)
        )
    for columns in found:
        yield from _as_rows(columns, wanted, rows, pruning, shape)


def visible(window: FetchWindow, wanted: OffsetRange, rows: RowOptions) -> Iterator[Columns]:
    """The visible records of a window that lie in the range."""
    found = scan(window.data)
    hidden = hidden_batches(window.data, found, _aborted(window, rows))
    # A batch may hold records below the start of the log, which are deleted: where fetching had to
    # begin later than the range does, so do the rows.
    start, end = max(wanted.start_offset, window.fetch_offset), wanted.end_offset
    outside = (found.last_offset < start) | (found.base_offset >= end)
    for columns in walk_pieces(window.data, found, hidden | outside):
        inside = (columns.offset >= start) & (columns.offset < end)
        yield columns if inside.all() else taken(columns, inside)


def latest_per_key(
    read_from: ReadFrom, wanted: OffsetRange, rows: RowOptions, *, seed: bytes
) -> Iterator[Columns]:
    """The latest record of each key of the range, tombstones included; no record without a key."""
    fold = LatestPerKey(seed=seed, start_offset=wanted.start_offset, with_contents=False)
    kept: list[FetchWindow] = []
    kept_bytes, resume_at = 0, wanted.end_offset
    for window in read_from(wanted.start_offset):
        fold.next_offset = max(fold.next_offset, window.fetch_offset)
        fold.feed(window.data, end_offset=wanted.end_offset, aborted=_aborted(window, rows))
        size = memoryview(window.data).nbytes
        if resume_at == wanted.end_offset and kept_bytes + size <= KEPT_BYTES:
            kept.append(window)
            kept_bytes += size
        else:
            resume_at = min(resume_at, window.fetch_offset)
    left = fold.live_keys + fold.deleted_keys
    again = read_from(resume_at) if resume_at < wanted.end_offset else iter(())
    for window in chain(kept, again):
        for columns in fold.survivors(window.data, tombstones=True):
            left -= len(columns)
            yield columns
    if left:
        raise CompactedMeanwhile(
            f"{wanted} was compacted while it was folded: the records of {left} keys are gone"
        )


def _aborted(window: FetchWindow, rows: RowOptions) -> tuple[AbortedTxn, ...]:
    return window.aborted if rows.isolation is IsolationLevel.READ_COMMITTED else ()


def _as_rows(
    columns: Columns, wanted: OffsetRange, rows: RowOptions, pruning: Pruning, shape: Projection
) -> Iterator[pa.RecordBatch]:
    keep = pruning.mask(columns)
    if not rows.include_tombstones:
        has_value = columns.value_length >= 0
        keep = has_value if keep is None else keep & has_value
    if keep is not None and not keep.all():
        columns = taken(columns, np.flatnonzero(keep))
    if not len(columns):
        return
    topic, partition = wanted.partition
    batch = to_arrow(columns, shape.names, topic=topic, partition=partition)
    shaped = shape.batch(batch.columns)
    for start in range(0, shaped.num_rows, MAX_ROWS):
        yield shaped.slice(start, MAX_ROWS)
