"""Encodes rows as record batches without an object per row: hashes keys, encodes records. Pure.

The columnar twin of `client.partitioner` and `records.builder`; tests compare them. Rows with
headers take the slow path through the builder.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_SIGN: Final = np.uint32(0x7FFFFFFF)
_NULL_LENGTH: Final = -1
# Bytes hashed at a time: each needs eight more for its index.
_MAX_CELLS: Final = 1 << 20


class Spans(NamedTuple):
    """A column of bytes: where each row's begin in `data`, and how many; -1 is null."""

    data: Bytes
    start: Int64s
    length: Int64s

    def take(self, rows: Int64s) -> "Spans":
        return Spans(self.data, self.start[rows], self.length[rows])

    def bytes_at(self, row: int) -> bytes | None:
        start, length = int(self.start[row]), int(self.length[row])
        return None if length < 0 else self.data[start : start + length].tobytes()


def spans_of(column: pa.Array) -> Spans:
    """Of a column of strings or binaries, without a copy."""
    array = column.cast(pa.binary())
    validity, offsets, data = array.buffers()
    count = len(array)
    if count == 0 or offsets is None:
        return Spans(np.empty(0, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64))
    edges = np.frombuffer(offsets, np.int32)[array.offset : array.offset + count + 1]
    start = edges[:-1].astype(np.int64)
    length = np.diff(edges).astype(np.int64)
    if validity is not None and array.null_count:
        length[array.is_null().to_numpy(zero_copy_only=False)] = _NULL_LENGTH
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Spans(content, start, length)


def null_spans(count: int) -> Spans:
    return Spans(np.empty(0, np.uint8), np.zeros(count, np.int64), np.full(count, _NULL_LENGTH))


def murmur2_of(keys: Spans) -> NDArray[np.uint32]:
    """Of each key; meaningless where the key is null."""
    found = np.zeros(len(keys.start), np.uint32)
    for length in np.unique(keys.length[keys.length >= 0]).tolist():
        rows = np.flatnonzero(keys.length == length)
        step = max(_MAX_CELLS // max(length, 1), 1)
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            cells = keys.data[keys.start[some][:, None] + np.arange(length)]
            found[some] = _murmur2_of_equal_lengths(cells, length)
    return found


def _murmur2_of_equal_lengths(cells: Bytes, length: int) -> NDArray[np.uint32]:
    with np.errstate(over="ignore"):
        hashes = np.full(len(cells), np.uint32(_SEED ^ length), np.uint32)
        tail_at = length & ~3
        words = np.ascontiguousarray(cells[:, :tail_at]).view("<u4")
        for index in range(words.shape[1]):
            k = words[:, index].astype(np.uint32) * _M
            k = (k ^ (k >> np.uint32(24))) * _M
            hashes = (hashes * _M) ^ k
        if tail_at < length:
            for place in range(length - tail_at):
                hashes ^= cells[:, tail_at + place].astype(np.uint32) << np.uint32(8 * place)
            hashes = hashes * _M
        hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
        return hashes ^ (hashes >> np.uint32(15))


def partitions_by_key(keys: Spans, partition_count: int) -> Int64s:
    """-1 for a row without a key."""
    numbers = ((murmur2_of(keys) & _SIGN) % np.uint32(partition_count)).astype(np.int64)
    return np.where(keys.length >= 0, numbers, -1)


def record_sizes(keys: Spans, values: Spans) -> Int64s:
    """An upper bound of what each record takes."""
    return np.maximum(keys.length, 0) + np.maximum(values.length, 0) + 30


def encode_records(keys: Spans, values: Spans, timestamp_delta: Int64s) -> bytearray:
    """The payload of a batch: records with offset deltas 0, 1, 2, … and no headers."""
    count = len(keys.start)
    deltas = _zigzag(timestamp_delta)
    numbers = _zigzag(np.arange(count, dtype=np.int64))
    key_words, value_words = _zigzag(keys.length), _zigzag(values.length)
    sizes = [_varint_sizes(each) for each in (deltas, numbers, key_words, value_words)]
    key_bytes, value_bytes = np.maximum(keys.length, 0), np.maximum(values.length, 0)
    # Attributes and the count of headers take a byte each, both 0.
    body = 2 + sum(sizes) + key_bytes + value_bytes
    lengths = _zigzag(body)
    length_sizes = _varint_sizes(lengths)
    ends = np.cumsum(length_sizes + body)
    out = np.zeros(int(ends[-1]) if count else 0, np.uint8)
    at = ends - body - length_sizes
    at = _put_varints(out, at, lengths, length_sizes) + 1
    at = _put_varints(out, at, deltas, sizes[0])
    at = _put_varints(out, at, numbers, sizes[1])
    at = _put_varints(out, at, key_words, sizes[2])
    at = _put_bytes(out, at, keys, key_bytes)
    at = _put_varints(out, at, value_words, sizes[3])
    _put_bytes(out, at, values, value_bytes)
    return bytearray(out)


def _zigzag(values: Int64s) -> NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _varint_sizes(words: NDArray[np.uint64]) -> Int64s:
    sizes = np.ones(len(words), np.int64)
    rest = words >> np.uint64(7)
    while rest.any():
        sizes += rest > 0
        rest = rest >> np.uint64(7)
    return sizes


def _put_varints(out: Bytes, at: Int64s, words: NDArray[np.uint64], sizes: Int64s) -> Int64s:
    for place in range(int(sizes.max()) if len(sizes) else 0):
        rows = np.flatnonzero(sizes > place)
        low = (words[rows] >> np.uint64(7 * place)) & np.uint64(0x7F)
        more = np.where(sizes[rows] > place + 1, 0x80, 0).astype(np.uint8)
        out[at[rows] + place] = low.astype(np.uint8) | more
    return at + sizes


def _put_bytes(out: Bytes, at: Int64s, spans: Spans, lengths: Int64s) -> Int64s:
    total = int(lengths.sum())
    if total:
        ends = np.cumsum(lengths)
        within = np.arange(total) - np.repeat(ends - lengths, lengths)
        out[np.repeat(at, lengths) + within] = spans.data[np.repeat(spans.start, lengths) + within]
    return at + lengths
