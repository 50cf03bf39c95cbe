"""Spans of a window as the buffers of Arrow's layouts, in numpy arrays. Pure.

Knows nothing of pyarrow: records/arrow.py puts the buffers together. Each kernel checks every span
against the window, so a wrong one is an InvariantViolation and never a wild read.
"""

import ctypes
from typing import NamedTuple

import numpy as np

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels.descriptors import (
    HeadersCall,
    LargeGatherCall,
    SmallGatherCall,
    SpansCall,
    ViewsCall,
)
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.records.kernels.windows import Bytes, Columns, Int32s, Int64s
from ledgerstone.types import INT32_MAX


class Gathered(NamedTuple):
    """Variable-size binary: `offsets` are int64 only where `data` passes 2 GiB."""

    offsets: Int32s | Int64s
    data: Bytes
    validity: Bytes
    null_count: int


class Views(NamedTuple):
    """Binary views: sixteen bytes each, into data buffer 0 (`buffer`) or 1 (`arena`)."""

    views: Bytes
    validity: Bytes
    null_count: int


class HeaderSpans(NamedTuple):
    """Every header of the rows, one after the other; row i has those of [lists[i], lists[i+1])."""

    lists: Int32s
    key_start: Int64s
    key_length: Int32s
    value_start: Int64s
    value_length: Int32s


def gather(columns: Columns, start: Int64s, length: Int32s) -> Gathered:
    """The spans copied one after the other, once."""
    count = len(start)
    measure = (ctypes.c_int64 * 2)()
    address, pin = borrow(length.data)
    kernel("measure_bytes")(address, count, measure)
    del pin
    total, null_count = measure
    large = total > INT32_MAX
    offsets: Int32s | Int64s = (
        np.empty(count + 1, np.int64) if large else np.empty(count + 1, np.int32)
    )
    validity = np.zeros((count + 7) // 8, np.uint8)
    data = np.empty(total, np.uint8)
    symbol = "gather_large_bytes" if large else "gather_bytes"
    declaration = LargeGatherCall if large else SmallGatherCall
    outputs = {"offsets": offsets, "validity": validity, "data": data}
    _call_over_spans(symbol, declaration, columns, start, length, **outputs, room=total)
    return Gathered(offsets, data, validity, null_count)


def make_views(columns: Columns, start: Int64s, length: Int32s) -> Views:
    """The spans as views into the window itself: only values of up to twelve bytes are copied."""
    if max(columns.split, columns.end - columns.split) > INT32_MAX:
        raise ValueError(f"views reach 2 GiB, the window has {columns.end} bytes")
    count = len(start)
    views = np.zeros(16 * count, np.uint8)
    validity = np.zeros((count + 7) // 8, np.uint8)
    _call_over_spans(
        "make_views", ViewsCall, columns, start, length, views=views, validity=validity
    )
    return Views(views, validity, int(np.count_nonzero(length < 0)))


def span_headers(
    columns: Columns, headers_start: Int64s, headers_length: Int32s, header_count: Int32s
) -> HeaderSpans:
    """The keys and values of all headers of the rows given."""
    rows, total = len(headers_start), int(header_count.sum(dtype=np.int64))
    if total > INT32_MAX:
        raise ValueError(f"{total} headers in one window")
    spans = HeaderSpans(
        lists=np.empty(rows + 1, np.int32),
        key_start=np.empty(total, np.int64),
        key_length=np.empty(total, np.int32),
        value_start=np.empty(total, np.int64),
        value_length=np.empty(total, np.int32),
    )
    _call_over_spans(
        "span_headers",
        HeadersCall,
        columns,
        headers_start,
        headers_length,
        header_count=header_count,
        **spans._asdict(),
        room=total,
    )
    return spans


def _call_over_spans(
    symbol: str,
    declaration: type[SpansCall],
    columns: Columns,
    start: Int64s,
    length: Int32s,
    **outputs: Bytes | Int32s | Int64s | int,
) -> None:
    report = (ctypes.c_int64 * 1)()
    call = filled(
        declaration,
        buffer=columns.buffer,
        split=columns.split,
        arena=columns.arena,
        end=columns.end,
        start=start,
        length=length,
        count=len(start),
        report=report,
        **outputs,
    )
    status = kernel(symbol)(call)
    if status != 0:
        index = report[0]
        raise InvariantViolation(
            f"{symbol}: span {index} at {start[index]} of {length[index]} bytes, status {status}"
        )
