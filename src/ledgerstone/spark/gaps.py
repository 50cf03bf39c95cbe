"""Offsets in a range that have no row, and why. Pure.

A consumer of a compacted or transactional topic skips offsets all the time. `rows=gaps` shows them:
one row for each range of offsets with the same reason, so that users can tell gaps from data loss.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.records.kernels import scan
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import (
    RowOptions,
)
from ledgerstone.spark.schema import Projection
from ledgerstone.spark.windows import MAX_ROWS, FetchWindow
from ledgerstone.state.visibility import hidden_batches, walk_pieces
from ledgerstone.types import TopicPartition


class GapReason(Enum):
    COMPACTED = "compacted"  # a later record has the key, or a tombstone has run out
    CONTROL = "control"  # the marker of a transaction
    ABORTED = "aborted"  # written by a transaction that was aborted
    DELETED = "deleted"  # below the start of the log: retention, or DeleteRecords


class Gap(NamedTuple):
    """The offsets in [start_offset, end_offset)."""

    start_offset: int
    end_offset: int
    reason: GapReason


def gaps_in(windows: Iterable[FetchWindow], wanted: OffsetRange, rows: RowOptions) -> Iterator[Gap]:
    """In log order; adjacent offsets with the same reason are one gap."""
    current: Gap | None = None
    for gap in _pieces(windows, wanted, rows):
        if current and current.end_offset == gap.start_offset and current.reason is gap.reason:
            current = current._replace(end_offset=gap.end_offset)
            continue
        if current:
            yield current
        current = gap
    if current:
        yield current


def _pieces(windows: Iterable[FetchWindow], wanted: OffsetRange, rows: RowOptions) -> Iterator[Gap]:
    position = wanted.start_offset
    committed = rows.isolation is IsolationLevel.READ_COMMITTED
    for window in windows:
        if window.fetch_offset > position:
            # Fetching continued at the log start, because failOnDataLoss=false allows it.
            yield from _clipped(position, window.fetch_offset, GapReason.DELETED, wanted)
            position = window.fetch_offset
        found = scan(window.data)
        control = found.is_control
        hidden = hidden_batches(window.data, found, window.aborted if committed else ())
        offsets = [c.offset for c in walk_pieces(window.data, found, hidden)]
        held = np.concatenate(offsets) if offsets else np.empty(0, np.int64)
        for index in range(len(found)):
            base, last = int(found.base_offset[index]), int(found.last_offset[index])
            yield from _clipped(position, base, GapReason.COMPACTED, wanted)
            if hidden[index]:
                reason = GapReason.CONTROL if control[index] else GapReason.ABORTED
                yield from _clipped(max(base, position), last + 1, reason, wanted)
            else:
                yield from _inside(held, max(base, position), last + 1, wanted)
            position = max(position, last + 1)
    yield from _clipped(position, wanted.end_offset, GapReason.COMPACTED, wanted)


def _inside(
    held: np.ndarray[tuple[int], np.dtype[np.int64]], start: int, end: int, wanted: OffsetRange
) -> Iterator[Gap]:
    first, stop = np.searchsorted(held, [start, end])
    own = held[first:stop]
    edges = np.concatenate([[start - 1], own, [end]])
    for index in np.flatnonzero(np.diff(edges) > 1).tolist():
        yield from _clipped(
            int(edges[index]) + 1, int(edges[index + 1]), GapReason.COMPACTED, wanted
        )


def _clipped(start: int, end: int, reason: GapReason, wanted: OffsetRange) -> Iterator[Gap]:
    start, end = max(start, wanted.start_offset), min(end, wanted.end_offset)
    if start < end:
        yield Gap(start, end, reason)


def gap_batches(
    windows: Iterable[FetchWindow], wanted: OffsetRange, rows: RowOptions, shape: Projection
) -> Iterator[pa.RecordBatch]:
    found = gaps_in(windows, wanted, rows)
    # A long compacted log has more gaps than fit into memory at once.
    while gaps := list(islice(found, MAX_ROWS)):
        columns = [_column(name, gaps, wanted.partition) for name in shape.names]
        yield shape.batch(columns)


def _column(name: str, gaps: list[Gap], partition: TopicPartition) -> pa.Array:
    match name:
        case "topic":
            return pa.array([partition.topic] * len(gaps), pa.string())
        case "partition":
            return pa.array([partition.partition] * len(gaps), pa.int32())
        case "startOffset":
            return pa.array([gap.start_offset for gap in gaps], pa.int64())
        case "endOffset":
            return pa.array([gap.end_offset for gap in gaps], pa.int64())
        case _:
            return pa.array([gap.reason.value for gap in gaps], pa.string())
