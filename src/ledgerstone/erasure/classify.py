"""What a hit in plain bytes is: a mention in a record, or residue. Grade P.

Hits inside a record of the key itself belong to that record and are dropped here; the record is
counted as one. So are hits in compressed bytes that the decompressed ones explain, and hits across
two payloads that lie side by side only in memory. Contract: README.md, "Search and scan".
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledgerstone.erasure.print_table import Int64s, RawHits
from ledgerstone.records.batch import HEADER_SIZE
from ledgerstone.records.kernels import Batches, Columns

DROPPED: Final = 0
MENTION: Final = 1
RESIDUE: Final = 2
NO_ROW: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """One row per hit: what it is, its batch in the piece, and the record it lies in."""

    kind: NDArray[np.int8]
    batch: Int64s
    row: Int64s  # NO_ROW where it lies in no single record


def classify(columns: Columns, row_groups: Int64s, stored: RawHits, unpacked: RawHits) -> Labels:
    """First the hits in the walked buffer, then those in the arena (at virtual positions).

    Hits in the buffer begin inside the piece's batches."""
    hits = RawHits(
        np.concatenate([stored.position, unpacked.position]),
        np.concatenate([stored.length, unpacked.length]),
        np.concatenate([stored.group, unpacked.group]),
    )
    is_stored = np.arange(len(hits)) < len(stored)
    batches = columns.batches
    batch = _batches_of(batches, hits, is_stored, columns.split)
    row = _rows_of(columns, hits)
    is_inside = row != NO_ROW
    is_own = is_inside & (row_groups[row] == hits.group) if len(columns) else is_inside
    kind = np.where(is_inside, MENTION, RESIDUE).astype(np.int8)
    kind[is_own] = DROPPED
    end = hits.position + hits.length
    # An arena is payload after payload; on disk they are not neighbours.
    kind[~is_stored & (end > batches.payload_end[batch])] = DROPPED
    is_packed = is_stored & _is_in_packed_payload(batches, batch, hits, columns.split)
    explained = _pairs(batch[~is_stored], hits.group[~is_stored])
    owners = np.flatnonzero(row_groups >= 0)
    explained = np.union1d(explained, _pairs(columns.batch_index[owners], row_groups[owners]))
    kind[is_packed & np.isin(_pairs(batch, hits.group), explained)] = DROPPED
    return Labels(kind, batch, row)


def _batches_of(
    batches: Batches, hits: RawHits, is_stored: NDArray[np.bool_], split: int
) -> Int64s:
    batch = np.searchsorted(batches.position, hits.position, side="right") - 1
    packed = np.flatnonzero(batches.payload_start >= split)
    if len(packed):
        at = np.searchsorted(batches.payload_start[packed], hits.position, side="right") - 1
        batch = np.where(is_stored, batch, packed[np.maximum(at, 0)])
    return batch.astype(np.int64)


def _rows_of(columns: Columns, hits: RawHits) -> Int64s:
    """The record that a hit lies wholly in."""
    count = len(columns)
    if count == 0:
        return np.full(len(hits), NO_ROW, np.int64)
    ends = columns.headers_start + columns.headers_length
    # Plain records lie below the split and unpacked ones above, so all are in one order.
    order = np.argsort(ends, kind="stable")
    sorted_ends = ends[order]
    payload_start = columns.batches.payload_start[columns.batch_index[order]]
    starts = np.maximum(np.concatenate(([0], sorted_ends[:-1])), payload_start)
    at = np.searchsorted(sorted_ends, hits.position, side="right")
    found = np.minimum(at, count - 1)
    is_inside = (hits.position >= starts[found]) & (
        hits.position + hits.length <= sorted_ends[found]
    )
    return np.where((at < count) & is_inside, order[found], NO_ROW).astype(np.int64)


def _is_in_packed_payload(
    batches: Batches, batch: Int64s, hits: RawHits, split: int
) -> NDArray[np.bool_]:
    start = batches.position[batch]
    is_packed = batches.payload_start[batch] >= split
    begins_after_header = hits.position >= start + HEADER_SIZE
    ends_inside = hits.position + hits.length <= start + batches.size[batch]
    return np.asarray(is_packed & begins_after_header & ends_inside)


def _pairs(batch: NDArray[np.integer], group: NDArray[np.integer]) -> Int64s:
    """A number for each (batch, group): a window has far less than 2^31 of either."""
    return (batch.astype(np.int64) << 31) | group.astype(np.int64)
