"""What a hit in plain bytes is: a mention in a record, or residue. Grade P.

Hits inside a record of the key itself belong to that record and are dropped here; the record is
counted as one. So are hits in compressed bytes that the decompressed ones explain. Contract:
README.md, "Search and scan".
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass
from ledgerstone.erasure.print_table import NO_HITS, Int64s, PrintTable, RawHits
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

    Hits in the buffer begin inside the piece's batches, hits in the arena lie in one payload."""
    hits = RawHits(
        np.concatenate([stored.position, unpacked.position]),
        np.concatenate([stored.length, unpacked.length]),
        np.concatenate([stored.group, unpacked.group]),
    )
    is_stored = np.arange(len(hits)) < len(stored)
    is_unpacked = columns.is_unpacked
    batch = _batches_of(columns.batches, hits, is_stored, is_unpacked)
    row = _rows_of(columns, hits)
    is_inside = row != NO_ROW
    is_own = is_inside & (row_groups[row] == hits.group) if len(columns) else is_inside
    kind = np.where(is_inside, MENTION, RESIDUE).astype(np.int8)
    kind[is_own] = DROPPED
    is_packed = is_stored & is_unpacked[batch] & _is_in_payload(columns.batches, batch, hits)
    explained = _pairs(batch[~is_stored], hits.group[~is_stored])
    owners = np.flatnonzero(row_groups >= 0)
    explained = np.union1d(explained, _pairs(columns.batch_index[owners], row_groups[owners]))
    kind[is_packed & np.isin(_pairs(batch, hits.group), explained)] = DROPPED
    return Labels(kind, batch, row)


def hits_in_arena(columns: Columns, table: PrintTable) -> RawHits:
    """Keys in the decompressed payloads, at virtual positions; none across two of them.

    An arena is payload after payload, but on disk they are not neighbours. A string that is there
    only because they lie side by side may hide one that is there in truth, since of hits that
    overlap the first counts: then each payload is looked at alone."""
    if len(columns.arena) == 0:
        return NO_HITS
    found = table.find_raw(columns.arena).moved(columns.split)
    if len(found) == 0:
        return found
    packed = np.flatnonzero(columns.is_unpacked)
    starts, ends = columns.batches.payload_start[packed], columns.batches.payload_end[packed]
    at = np.searchsorted(starts, found.position, side="right") - 1
    if (found.position + found.length <= ends[at]).all():
        return found
    view = memoryview(columns.arena).cast("B")
    alone = [
        table.find_raw(view[start - columns.split : end - columns.split]).moved(start)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return RawHits(
        np.concatenate([each.position for each in alone]),
        np.concatenate([each.length for each in alone]),
        np.concatenate([each.group for each in alone]),
    )


def _batches_of(
    batches: Batches, hits: RawHits, is_stored: NDArray[np.bool_], is_unpacked: NDArray[np.bool_]
) -> Int64s:
    batch = np.searchsorted(batches.position, hits.position, side="right") - 1
    packed = np.flatnonzero(is_unpacked)
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


def _is_in_payload(batches: Batches, batch: Int64s, hits: RawHits) -> NDArray[np.bool_]:
    """As the payload lies in the file, behind the batch's header."""
    start = batches.position[batch]
    begins_after_header = hits.position >= start + HEADER_SIZE
    ends_inside = hits.position + hits.length <= start + batches.size[batch]
    return np.asarray(begins_after_header & ends_inside)


def _pairs(batch: NDArray[np.integer], group: NDArray[np.integer]) -> Int64s:
    """A number for each (batch, group): a window has far less than 2^31 of either."""
    return (batch.astype(np.int64) << 31) | group.astype(np.int64)
