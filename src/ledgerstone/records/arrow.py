"""Record columns to Arrow, with the column names and types of Kafka connectors. Pure.

The only importer of pyarrow in records/; it is an optional dependency (extra `arrow`). No Python
object is made per record: kernels copy the bytes of the requested columns, once. Control records
are left out, as they are not for applications.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import LOG_APPEND_TIME_FLAG
from ledgerstone.records.kernels.gathering import (
    Gathered,
    Views,
    gather,
    make_views,
    span_headers,
)
from ledgerstone.records.kernels.windows import Columns, Int32s, Int64s

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")

DEFAULT_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType")
ALL_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)

_MICROSECONDS: Final = 1000
_MAX_MILLISECONDS: Final = (2**63 - 1) // _MICROSECONDS


class BinaryLayout(Enum):
    """How keys and values are laid out."""

    COPIED = "binary"  # one run of bytes; `large_binary` only if it passes 2 GiB
    VIEWS = "binary_view"  # zero-copy: the array keeps the walked buffer and the arena alive


class _ArrowRows:
    """The rows of the result, and the two byte sources of their spans."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.rows: Int64s | None = None
        control = columns.batches.is_control
        if control.any():
            self.rows = np.flatnonzero(~control[columns.batch_index])

    def __len__(self) -> int:
        return len(self.columns) if self.rows is None else len(self.rows)

    def take_wide(self, column: Int64s) -> Int64s:
        return column if self.rows is None else column[self.rows]

    def take_narrow(self, column: Int32s) -> Int32s:
        return column if self.rows is None else column[self.rows]


def to_arrow(
    columns: Columns,
    names: Sequence[str] = DEFAULT_COLUMNS,
    *,
    topic: str | None = None,
    partition: int | None = None,
    layout: BinaryLayout = BinaryLayout.COPIED,
) -> pa.RecordBatch:
    """The columns in `names`, in that order. Other columns are not copied.

    `headers` is null for a record without any, as in Spark's Kafka source.
    """
    window = _ArrowRows(columns)
    arrays = [_column(window, name, topic, partition, layout) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _column(
    window: _ArrowRows, name: str, topic: str | None, partition: int | None, layout: BinaryLayout
) -> pa.Array:
    columns = window.columns
    match name:
        case "key":
            return _binary(window, columns.key_start, columns.key_length, layout)
        case "value":
            return _binary(window, columns.value_start, columns.value_length, layout)
        case "offset":
            return pa.array(window.take_wide(columns.offset))
        case "timestamp":
            return _timestamps(window)
        case "timestampType":
            kinds = np.sign(columns.batches.attributes & LOG_APPEND_TIME_FLAG).astype(np.int32)
            return pa.array(kinds[window.take_narrow(columns.batch_index)])
        case "headers":
            return _headers(window)
        case "topic":
            return pa.repeat(pa.scalar(topic, pa.string()), len(window))
        case "partition":
            return pa.repeat(pa.scalar(partition, pa.int32()), len(window))
    raise ValueError(f"column {name!r} is not one of {', '.join(ALL_COLUMNS)}")


def _timestamps(window: _ArrowRows) -> pa.Array:
    milliseconds = window.take_wide(window.columns.timestamp)
    bad = (milliseconds > _MAX_MILLISECONDS) | (milliseconds < -_MAX_MILLISECONDS)
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        offset = window.take_wide(window.columns.offset)[index]
        raise CorruptRecord(
            f"record at offset {offset}: timestamp {milliseconds[index]} ms overflows in us"
        )
    return pa.array(milliseconds * _MICROSECONDS).view(TIMESTAMP_TYPE)


def _binary(window: _ArrowRows, start: Int64s, length: Int32s, layout: BinaryLayout) -> pa.Array:
    starts, lengths = window.take_wide(start), window.take_narrow(length)
    if layout is BinaryLayout.VIEWS:
        return _viewed(window.columns, starts, lengths)
    return _gathered(window.columns, starts, lengths)


def _gathered(columns: Columns, start: Int64s, length: Int32s) -> pa.Array:
    gathered = gather(columns, start, length)
    large = gathered.offsets.dtype == np.int64
    return pa.Array.from_buffers(
        pa.large_binary() if large else pa.binary(),
        len(start),
        [_validity(gathered), pa.py_buffer(gathered.offsets), pa.py_buffer(gathered.data)],
        null_count=gathered.null_count,
    )


def _viewed(columns: Columns, start: Int64s, length: Int32s) -> pa.Array:
    views = make_views(columns, start, length)
    sources = [pa.py_buffer(columns.buffer), pa.py_buffer(columns.arena)]
    return pa.Array.from_buffers(
        pa.binary_view(),
        len(start),
        [_validity(views), pa.py_buffer(views.views), *sources],
        null_count=views.null_count,
    )


def _validity(built: Gathered | Views) -> pa.Buffer | None:
    return pa.py_buffer(built.validity) if built.null_count else None


def _headers(window: _ArrowRows) -> pa.Array:
    columns = window.columns
    counts = window.take_narrow(columns.header_count)
    spans = span_headers(
        columns,
        window.take_wide(columns.headers_start),
        window.take_narrow(columns.headers_length),
        counts,
    )
    try:
        keys = _gathered(columns, spans.key_start, spans.key_length).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptRecord(f"a header key is not UTF-8: {error}") from None
    values = _gathered(columns, spans.value_start, spans.value_length)
    entries = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(spans.lists, entries, HEADERS_TYPE, mask=pa.array(counts == 0))
