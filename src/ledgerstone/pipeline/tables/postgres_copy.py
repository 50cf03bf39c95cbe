"""Arrow columns as the bytes of PostgreSQL's binary COPY, without a Python object per cell. Pure.

A row is the number of its fields and, for each, the length and the bytes; -1 is the length of a
null. What lies between two texts is written as one matrix of bytes for all rows.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType, postgres_type

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
_NULL: Final = pa.scalar(b"\xff\xff\xff\xff", pa.binary())
_NOTHING: Final = pa.scalar(b"", pa.binary())
# PostgreSQL counts days and microseconds from 2000.
_EPOCH_DAYS: Final = 10_957
_EPOCH_US: Final = _EPOCH_DAYS * 86_400 * 1_000_000
# Joined cells are one array, which holds up to 2 GiB.
_ROWS_AT_ONCE: Final = 1 << 14

Bytes = NDArray[np.uint8]


def staged_type(kind: AnyType) -> str:
    """Of a column on its way. Numbers and times with a format of their own travel as text, and
    become what they are in the database."""
    if isinstance(kind, DecimalType) or kind is ColumnType.TIME:
        return "text"
    return postgres_type(kind)


def copy_rows(table: pa.Table) -> Iterator[bytes]:
    """The rows, without header and trailer."""
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        yield _joined(table.slice(start, _ROWS_AT_ONCE))


def _joined(table: pa.Table) -> bytes:
    count = table.num_rows
    parts: list[pa.Array] = []
    run = [_repeated(table.num_columns, 2, count)]
    for column in table.columns:
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
        if pa.types.is_decimal(array.type):
            array = array.cast(pa.string())
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            payload = array.cast(pa.binary())
            lengths = pc.fill_null(pc.binary_length(payload), -1)
            run.append(_big_endian(lengths.to_numpy(zero_copy_only=False), ">i4"))
            parts += [_as_array(run), pc.fill_null(payload, b"")]
            run = []
            continue
        cell = np.hstack(_fixed(array, count))
        if array.null_count:
            valid = array.is_valid()
            some = [_as_array(run)] if run else []
            parts += [*some, pc.if_else(valid, _as_array([cell]), _NULL)]
            run = []
        else:
            run.append(cell)
    if run:
        parts.append(_as_array(run))
    joined = pc.binary_join_element_wise(*parts, _NOTHING)
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset :][: count + 1]
    content = joined.buffers()[2]
    return bytes(memoryview(content)[int(offsets[0]) : int(offsets[-1])])


def _fixed(array: pa.Array, count: int) -> list[Bytes]:
    """Length and bytes of cells that are all as long; a null is any value."""
    kind: Any = array.type
    if pa.types.is_boolean(kind):
        values = pc.fill_null(array, False).cast(pa.uint8()).to_numpy(zero_copy_only=False)
        return [_repeated(1, 4, count), values.reshape(-1, 1)]
    if pa.types.is_timestamp(kind):
        numbers = array.cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
        return _number(numbers, ">i8", -_EPOCH_US, count)
    if pa.types.is_date32(kind):
        return _number(array.view(pa.int32()), ">i4", -_EPOCH_DAYS, count)
    if pa.types.is_float64(kind):
        return _number(array, ">f8", 0, count)
    if pa.types.is_int32(kind):
        return _number(array, ">i4", 0, count)
    assert pa.types.is_int64(kind), f"no way to copy {kind}"
    return _number(array, ">i8", 0, count)


def _number(array: pa.Array, form: str, shift: int, count: int) -> list[Bytes]:
    values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    if shift:
        values = values + np.array(shift, values.dtype)
    return [_repeated(np.dtype(form).itemsize, 4, count), _big_endian(values, form)]


def _big_endian(values: NDArray[Any], form: str) -> Bytes:
    found = values.astype(form)
    return found.view(np.uint8).reshape(len(values), found.dtype.itemsize)


def _repeated(number: int, size: int, count: int) -> Bytes:
    one = np.frombuffer(number.to_bytes(size, "big"), np.uint8)
    return np.broadcast_to(one, (count, size))


def _as_array(run: list[Bytes]) -> pa.Array:
    """Rows of a matrix as binary values."""
    matrix = np.ascontiguousarray(np.hstack(run) if len(run) > 1 else run[0])
    count, width = matrix.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(matrix)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
