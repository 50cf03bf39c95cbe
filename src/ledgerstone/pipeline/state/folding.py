"""Rows of a snapshot: older ones, and what came after them. Pure.

A row is the latest record of a key: key, value, offset, timestamp. A row without a value is a
tombstone, which tells a deleted key from one that never existed.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.canonical import checksum

SNAPSHOT_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    live_keys: int
    deleted_keys: int
    checksum: str


def folded(older: pa.Table, newer: pa.Table) -> pa.Table:
    """Both have each key once; of keys in both the newer row counts."""
    if not newer.num_rows:
        return older
    changed = pc.is_in(older.column("key"), value_set=newer.column("key").combine_chunks())
    return pa.concat_tables([older.filter(pc.invert(changed)), newer])


def without_older_than(rows: pa.Table, log_start_offset: int) -> pa.Table:
    """The log no longer begins there, and a consumer would not see them."""
    return rows.filter(pc.greater_equal(rows.column("offset"), log_start_offset))


def facts_of(rows: pa.Table) -> RowFacts:
    live = rows.filter(rows.column("value").is_valid())
    # Chunk by chunk: as one array, values of more than 2 GiB are more than Arrow's offsets count.
    total = sum(
        checksum(each.column("key"), each.column("value"))
        for each in live.select(["key", "value"]).to_batches()
    )
    return RowFacts(
        live_keys=live.num_rows,
        deleted_keys=rows.num_rows - live.num_rows,
        checksum=f"{total % (1 << 128):032x}",
    )
