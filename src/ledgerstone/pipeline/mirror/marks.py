"""Tombstones with a meaning of their own: of erasures, and of a mirror's repairs. Pure.

The mirror is the copy's only writer, but for two kinds of tombstones: those of erasures on the
target cluster, and those that the mirror itself writes for deletes it never saw.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.mirror.offsets import Int64s

# As erasures write it: erasure/README.md, "Tombstone headers".
ERASURE_ID: Final = "ledgerstone.erasure.id"
# Its value is the id of the copy's topic: a mirror of the copy copies the record.
REPAIRED: Final = "ledgerstone.mirror.repaired"
_MAX_ID_BYTES: Final = 1024


class MarkedTombstone(NamedTuple):
    row: int
    headers: dict[str, bytes]

    @property
    def erasure_id(self) -> str | None:
        value = self.headers.get(ERASURE_ID)
        return None if value is None else value.decode(errors="replace")


class CarriedErasure(NamedTuple):
    """The tombstone of an erasure at the source, and where its copy is."""

    erasure_id: str
    source_offset: int
    target_offset: int


def marked(rows: pa.RecordBatch | pa.Table) -> Iterator[MarkedTombstone]:
    """The tombstones with one of the headers above; the first header of a name counts."""
    headers = rows.column("headers")
    is_candidate = pc.and_(pc.is_null(rows.column("value")), pc.is_valid(headers))
    if isinstance(is_candidate, pa.ChunkedArray):
        is_candidate = is_candidate.combine_chunks()
    places = np.flatnonzero(is_candidate.to_numpy(zero_copy_only=False))
    for row in places.tolist():
        cells: list[dict[str, Any]] = headers[row].as_py() or []
        found: dict[str, bytes] = {}
        for cell in cells:
            name, value = cell["key"], cell["value"]
            is_ours = name in (ERASURE_ID, REPAIRED) and value is not None
            if is_ours and len(value) <= _MAX_ID_BYTES:
                found.setdefault(name, value)
        if found:
            yield MarkedTombstone(row, found)


def carried(rows: pa.RecordBatch | pa.Table, target_offsets: Int64s) -> list[CarriedErasure]:
    """The erasures among rows of the original that are now at these offsets of the copy."""
    offsets = rows.column("offset")
    return [
        CarriedErasure(each.erasure_id, offsets[each.row].as_py(), int(target_offsets[each.row]))
        for each in marked(rows)
        if each.erasure_id is not None
    ]


def erasure_ids(rows: pa.RecordBatch | pa.Table) -> set[str]:
    return {each.erasure_id for each in marked(rows) if each.erasure_id is not None}


def is_copied(rows: pa.Table, from_source: Collection[str], copy_id: str) -> pa.Array:
    """Of rows of the copy: not those that were never in the original. `from_source` are ids of
    erasures whose tombstones are among the records to copy."""
    found = np.ones(len(rows), np.bool_)
    for each in marked(rows):
        is_repair = each.headers.get(REPAIRED) == copy_id.encode()
        is_foreign = each.erasure_id is not None and each.erasure_id not in from_source
        found[each.row] = not (is_repair or is_foreign)
    return pa.array(found)
