"""Rows as bytes, the same whatever table they come from; and the checksum of a table. Pure.

A cell is `n` where it is null, else `v`, the number of its bytes, `:` and its bytes: text as UTF-8,
numbers in decimal, timestamps in microseconds, dates in days. A row is its cells one after the
other, so no two different rows of the same columns are the same bytes.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledgerstone.records.kernels import Hashes, hash_keys
from ledgerstone.records.varint import encode_varint
from ledgerstone.state.content import CONTENT_KEY, sum_of

_NULL: Final = pa.scalar(b"n", pa.binary())
# A column of `binary` holds up to 2 GiB, and joined ones may pass that.
_ROWS_AT_ONCE: Final = 1 << 16
_BYTES_AT_ONCE: Final = 64 << 20


def cells_of(table: pa.Table, names: Iterable[str]) -> pa.Array:
    """One binary value per row, equal exactly where all these columns are."""
    wanted = [table.column(name) for name in names]
    if len(wanted) == 1 and pa.types.is_binary(wanted[0].type):
        return whole(wanted[0])
    encoded = [_encoded(whole(each)) for each in wanted]
    if len(encoded) == 1:
        return encoded[0]
    return pc.binary_join_element_wise(*encoded, pa.scalar(b"", pa.binary()))


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.Array):
        return column
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _encoded(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
    elif pa.types.is_date32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_floating(kind):
        # A negative zero is zero, as in databases, of which some do not keep its sign.
        array = pc.add(array, 0.0)
    text = array if pa.types.is_binary(kind) else array.cast(pa.string()).cast(pa.binary())
    length = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
    literals = [pa.scalar(each, pa.binary()) for each in (b"v", b":", b"")]
    joined = pc.binary_join_element_wise(literals[0], length, literals[1], text, literals[2])
    return pc.fill_null(joined, _NULL)


def checksum(keys: pa.Array, values: pa.Array) -> int:
    """As docs/state.md defines it, over these pairs; none of them is null."""
    total = 0
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        total += _sum(keys.slice(start, _ROWS_AT_ONCE), values.slice(start, _ROWS_AT_ONCE))
    return total % (1 << 128)


def _sum(keys: pa.Array, values: pa.Array) -> int:
    if len(keys) > 1 and keys.nbytes + values.nbytes > _BYTES_AT_ONCE:
        half = len(keys) // 2
        return _sum(keys[:half], values[:half]) + _sum(keys[half:], values[half:])
    return sum_of(pair_hashes(keys, values))


def cell_hashes(cells: pa.Array) -> NDArray[np.uint64]:
    """What decides which file of a table a row is in."""
    low: NDArray[np.uint64] = pair_hashes(cells, pc.binary_slice(cells, 0, 0)).low
    return low.view(np.uint64)


def pair_hashes(keys: pa.Array, values: pa.Array) -> Hashes:
    empty = pa.scalar(b"", pa.binary())
    content = pc.binary_join_element_wise(
        _varints(pc.binary_length(keys)), keys, _varints(pc.binary_length(values)), values, empty
    ).cast(pa.large_binary())
    _, offset_buffer, data = content.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[content.offset :][: len(content) + 1]
    lengths = np.diff(offsets).astype(np.int32)
    starts = np.ascontiguousarray(offsets[:-1])
    low, high = hash_keys(data if data is not None else b"", starts, lengths, CONTENT_KEY)
    return Hashes(low, high)


def _varints(numbers: pa.Array) -> pa.Array:
    distinct = numbers.dictionary_encode()
    encoded = []
    for number in distinct.dictionary.to_pylist():
        content = bytearray()
        encode_varint(content, number)
        encoded.append(bytes(content))
    return pa.array(encoded, pa.binary()).take(distinct.indices)
