"""Records of a topic to the changes of a table. Pure; runs in Spark's Python workers.

A change is a row: the columns of the definition, where the record is, and whether it deletes. A
record that the filter leaves out deletes, and nothing of its value is in the change. A record that
cannot be decoded is a change too, with the reason, and is sorted out by the task that read it.
"""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.canonical import cells_of
from ledgerstone.pipeline.codecs import Decoded, decoder
from ledgerstone.pipeline.codecs_avro import SchemaOf
from ledgerstone.pipeline.computing import Computed, Computing
from ledgerstone.pipeline.definition import Column, Pipeline
from ledgerstone.pipeline.layout import (
    BAD,
    OFFSET,
    ORIGIN_NAMES,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    layout_of,
)

# The columns to read, in this order.
RECORD_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
# The years 1 to 9999, in which the calendars of databases and of Python agree.
_FIRST_US: Final = -62_135_596_800_000_000
_LAST_US: Final = 253_402_300_799_999_999

ToChanges = Callable[[pa.RecordBatch], pa.RecordBatch]


def changes_decoder(pipeline: Pipeline, schema_of: SchemaOf | None = None) -> ToChanges:
    layout = layout_of(pipeline)
    decode_key = decoder(pipeline.key, schema_of)
    decode_value = decoder(pipeline.value, schema_of)
    computing = Computing(pipeline)

    def to_changes(records: pa.RecordBatch) -> pa.RecordBatch:
        key, value = records.column("key"), records.column("value")
        keys, values = decode_key(key), decode_value(value)
        topic = pa.repeat(pa.scalar(pipeline.source.topic), len(key))
        reasons = _reasons(pipeline.key.columns, key, keys, values)
        origin = [
            records.column("partition"),
            records.column("offset"),
            _clamped(records.column("timestamp")),
        ]
        deleted, content = value.is_null(), value
        stored = _stored(pipeline, values)
        if computing.is_needed:
            names = [each.name for each in pipeline.key.columns + pipeline.value.columns]
            rows = pa.RecordBatch.from_arrays(
                [*keys.arrays, *values.arrays, topic, *origin],
                names=[*names, TOPIC, *ORIGIN_NAMES],
            )
            found = _computed(computing, rows, deleted, reasons)
            stored = [*(pc.if_else(found.passes, each, None) for each in stored), *found.arrays]
            deleted = pc.or_(deleted, pc.invert(found.passes))
            content = pc.if_else(found.passes, value, None)
        why = _texts(reasons, len(key))
        is_bad = why.is_valid()
        kept = pc.or_(is_bad, pa.scalar(layout.keep_bytes))
        arrays = [
            *([topic] if layout.has_topic else ()),
            *keys.arrays,
            *stored,
            pc.if_else(kept, key, None),
            pc.if_else(is_bad, value, pc.if_else(kept, content, None)),
            *origin,
            deleted,
            why,
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=layout.change_schema)

    return to_changes


def _stored(pipeline: Pipeline, values: Decoded) -> list[pa.Array]:
    pairs = zip(pipeline.value.columns, values.arrays, strict=True)
    return [array for column, array in pairs if column.is_stored]


def _computed(
    computing: Computing, rows: pa.RecordBatch, deleted: pa.Array, reasons: dict[int, str]
) -> Computed:
    """Of all rows; those that have nothing to compute pass. Adds reasons of its own."""
    is_asked = ~deleted.to_numpy(zero_copy_only=False)
    is_asked[list(reasons)] = False
    places = np.flatnonzero(is_asked)
    found = computing.compute(rows if is_asked.all() else rows.take(pa.array(places)))
    for row, why in found.bad.items():
        reasons[int(places[row])] = f"value {why}"
    if is_asked.all():
        return found
    passes = np.ones(rows.num_rows, np.bool_)
    passes[places] = found.passes.to_numpy(zero_copy_only=False)
    back = pa.array(np.where(is_asked, np.cumsum(is_asked) - 1, 0), mask=~is_asked)
    return Computed(tuple(each.take(back) for each in found.arrays), pa.array(passes), found.bad)


def _reasons(
    columns: Iterable[Column], key: pa.Array, keys: Decoded, values: Decoded
) -> dict[int, str]:
    """Why rows are bad."""
    reasons: dict[int, str] = {row: f"value {why}" for row, why in values.bad.items()}
    reasons |= {row: f"key {why}" for row, why in keys.bad.items()}
    for column, array in zip(columns, keys.arrays, strict=True):
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            why = f"key column {column.name} is null" if key[row].is_valid else "there is no key"
            reasons.setdefault(row, why)
    return reasons


def _texts(reasons: dict[int, str], count: int) -> pa.Array:
    if not reasons:
        return pa.nulls(count, pa.string())
    return pa.array([reasons.get(row) for row in range(count)], pa.string())


def _clamped(timestamps: pa.Array) -> pa.Array:
    micros = timestamps.cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
    within = pc.min_element_wise(pc.max_element_wise(micros, _FIRST_US), _LAST_US)
    return within.cast(pa.int64()).view(pa.timestamp("us", tz="UTC"))


def one_per_key(changes: pa.Table, key_names: Iterable[str]) -> pa.Table:
    """Keeps one change per key.

    Within one partition it is the last. If a key is in several partitions, the newest one wins,
    because offsets of different partitions cannot be compared."""
    cells = cells_of(changes, key_names)
    if pc.count_distinct(cells).as_py() == len(cells):
        return changes
    newest = pa.table(
        {
            "cell": cells,
            "partition": changes.column(PARTITION),
            "offset": changes.column(OFFSET),
            "timestamp": changes.column(TIMESTAMP),
            "row": np.arange(len(cells)),
        }
    )
    # First the highest offset of each partition; then the newest of these.
    by_offset = newest.sort_by("offset").group_by(["cell", "partition"], use_threads=False)
    lasts = newest.take(by_offset.aggregate([("row", "last")]).column("row_last"))
    ranked = lasts.sort_by([("timestamp", "ascending"), ("partition", "ascending")])
    kept = ranked.group_by("cell", use_threads=False).aggregate([("row", "last")])
    return changes.take(kept["row_last"])


def split_bad(changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The good changes, and the bad ones."""
    is_bad = changes.column(BAD).is_valid()
    if not pc.any(is_bad).as_py():
        return changes, changes.slice(0, 0)
    return changes.filter(pc.invert(is_bad)), changes.filter(is_bad)
