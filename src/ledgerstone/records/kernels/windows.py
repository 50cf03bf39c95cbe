"""A window of record batches as numpy columns. Pure.

`scan` reads headers only; `walk` also decompresses and parses, and gives one row per record with
spans in place of bytes. Spans are virtual positions: below `Columns.split` they lie in the buffer
that was walked, from `split` on in `Columns.arena`, which holds the decompressed payloads.
"""

import ctypes
from typing import Final, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptRecord, MessageTooLarge
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    Codec,
    read_header,
)
from ledgerstone.records.compression import STORED_LIMIT, Codecs
from ledgerstone.records.crc import crc32c
from ledgerstone.records.kernels.descriptors import WalkCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.records.record import MalformedRecord, RecordFault
from ledgerstone.types import Buffer

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]

# Every field of a record takes a byte, and a record has seven of them.
MIN_RECORD_SIZE: Final = 7

ROW_FIELDS: Final = 16
_FIRST_CAPACITY: Final = 256
_NO_MINIMUM: Final = -(2**63)
_Report: Final = ctypes.c_int64 * 4


class _Line:
    """One field of all batches: a line of their matrix, made when somebody asks for it."""

    __slots__ = ("_index",)

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, batches: "Batches", owner: object = None) -> Int64s:
        line: Int64s = batches.rows[self._index]
        return line


class Batches:
    """One row per complete batch; every array is a line of `rows`, the matrix kernels share."""

    __slots__ = ("consumed", "memory", "rows")

    position = _Line(0)
    size = _Line(1)
    base_offset = _Line(2)
    last_offset = _Line(3)
    leader_epoch = _Line(4)
    attributes = _Line(5)
    base_timestamp = _Line(6)
    max_timestamp = _Line(7)
    producer_id = _Line(8)
    producer_epoch = _Line(9)
    base_sequence = _Line(10)
    record_count = _Line(11)
    crc = _Line(12)
    payload_start = _Line(13)  # virtual
    payload_end = _Line(14)  # virtual; below `payload_start`: the batch was passed over
    record_start = _Line(15)  # index of the batch's first row in the columns, once walked

    def __init__(self, rows: Int64s, consumed: int, memory: Int64s | None = None) -> None:
        # Fields by batches. Its lines are contiguous; one need not follow directly on the other.
        self.rows: Final = rows
        self.consumed: Final = consumed  # the position after the last of them
        # What `rows` are the beginning of.
        self.memory: Final = rows if memory is None else memory

    def __len__(self) -> int:
        count: int = self.rows.shape[1]
        return count

    @property
    def capacity(self) -> int:
        """Numbers from a field of a batch to its next field."""
        return self.rows.strides[0] // self.rows.itemsize

    def first(self, count: int) -> Self:
        """The batches before the one at index `count`, which is where a reader goes on."""
        kept = np.ascontiguousarray(self.rows[:, :count])
        return type(self)(kept, int(self.position[count]))

    @property
    def is_control(self) -> NDArray[np.bool_]:
        return (self.attributes & CONTROL_FLAG).astype(np.bool_)

    @property
    def delete_horizon_ms(self) -> Int64s:
        """-1 where no cleaning has set one."""
        return np.where((self.attributes & DELETE_HORIZON_FLAG) != 0, self.base_timestamp, -1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """One row per record, control records included; lengths of -1 mean null."""

    buffer: Buffer
    arena: Buffer
    split: int  # = bytes of `buffer`; virtual positions from here on are in `arena`
    batches: Batches
    consumed: int  # where a reader goes on: the position after the last walked batch
    offset: Int64s
    timestamp: Int64s
    key_start: Int64s
    value_start: Int64s
    headers_start: Int64s
    key_length: Int32s
    value_length: Int32s
    headers_length: Int32s  # bytes from `headers_start` to the end of the record
    header_count: Int32s
    batch_index: Int32s

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def end(self) -> int:
        """The first virtual position that is in neither source."""
        return self.split + memoryview(self.arena).nbytes

    @property
    def is_unpacked(self) -> NDArray[np.bool_]:
        """Of each batch: whether its payload is in the arena, decompressed.

        Said by the batch, not by where its payload begins: an empty batch at the end of the
        buffer begins its payload at `split` too, and has none."""
        batches = self.batches
        is_compressed = (batches.attributes & CODEC_MASK) != 0
        is_walked = batches.payload_end >= batches.payload_start
        return np.asarray(is_compressed & (batches.record_count > 0) & is_walked)


def scan(buffer: Buffer, *, start: int = 0, end: int | None = None) -> Batches:
    """Headers of all complete batches in [start, end); an incomplete tail is left out."""
    total = memoryview(buffer).nbytes
    stop = total if end is None else end
    if not 0 <= start <= stop <= total:
        raise ValueError(f"window [{start}, {stop}) of a buffer of {total} bytes")
    address, pin = borrow(buffer)
    report = _Report()
    capacity = _FIRST_CAPACITY
    while True:
        rows = np.empty((ROW_FIELDS, capacity), np.int64)
        rows_address, rows_pin = borrow(rows.data)
        status = kernel("scan_batches")(address, start, stop, rows_address, capacity, report)
        del rows_pin
        count, _, consumed, _ = report
        if count <= capacity:
            break
        # Only now is the number known; it is bounded by the bytes, a batch has at least 61.
        capacity = count
    del pin
    if status != 0:
        read_header(memoryview(buffer)[:stop], consumed)
        raise CorruptRecord(f"batch at position {consumed}: negative record count")
    if count < capacity:
        rows = np.ascontiguousarray(rows[:, :count])
    return Batches(rows, consumed)


def walk(
    buffer: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    verify_crc: bool = True,
    min_offset: int | None = None,
    limit: int = STORED_LIMIT,
    skip: NDArray[np.bool_] | None = None,
) -> Columns:
    """Every record of the complete batches in [start, end), at or past `min_offset`.

    Batches marked in `skip` (one flag per batch of `scan`) and batches wholly below `min_offset`
    are neither checked nor parsed. Decompressed payloads take at most `limit` bytes of memory: a
    batch that would pass it ends the walk and is the first of the next one, and a batch that passes
    it alone raises MessageTooLarge.
    """
    batches = scan(buffer, start=start, end=end)
    wanted = np.ones(len(batches), np.bool_) if skip is None else ~skip
    if min_offset is not None:
        wanted &= batches.last_offset >= min_offset
    if verify_crc:
        _verify_crcs(buffer, batches, wanted)
    arena, batches = _decompress_payloads(buffer, batches, wanted, limit)
    wanted = wanted[: len(batches)]
    batches.payload_end[~wanted] = -1
    room = _declared_records(batches, wanted)
    return _walk_batches(buffer, arena, batches, room, min_offset)


def _verify_crcs(buffer: Buffer, batches: Batches, wanted: NDArray[np.bool_]) -> None:
    view = memoryview(buffer).cast("B")
    rows = batches.rows[(0, 1, 12), :][:, wanted]
    for position, size, stored in zip(*rows.tolist(), strict=True):
        found = crc32c(view[position + ATTRIBUTES_AT : position + size])
        if found != stored:
            raise CorruptRecord(
                f"batch at position {position}: crc {found:#010x}, stored {stored:#010x}"
            )


def _decompress_payloads(
    buffer: Buffer, batches: Batches, wanted: NDArray[np.bool_], limit: int
) -> tuple[Buffer, Batches]:
    """The arena, and the batches that fit; payload spans of compressed ones point into it."""
    view = memoryview(buffer).cast("B")
    codecs = np.where(wanted, batches.attributes & CODEC_MASK, 0)
    # An emptied batch has no stream to open, but its codec must be one all the same.
    compressed = (codecs != 0) & ((batches.record_count > 0) | (codecs > Codec.ZSTD))
    opener = Codecs()
    parts: list[Buffer] = []
    used = 0
    for index in np.flatnonzero(compressed).tolist():
        stored = view[batches.payload_start[index] : batches.payload_end[index]]
        header = read_header(view, int(batches.position[index]))
        # Joining the parts holds them twice, so only a payload alone may take the whole limit.
        allowance = limit // 2 - used if parts else limit
        try:
            payload = opener.decompress(header.codec, stored, limit=max(allowance, 0))
        except MessageTooLarge:
            if not parts:
                raise
            batches = batches.first(index)
            break
        batches.payload_start[index] = len(view) + used
        parts.append(payload)
        used += len(payload)
        batches.payload_end[index] = len(view) + used
    return parts[0] if len(parts) == 1 else b"".join(parts), batches


def _declared_records(batches: Batches, wanted: NDArray[np.bool_]) -> int:
    """How many rows to make room for, each backed by bytes that are really there."""
    payload_size = batches.payload_end - batches.payload_start
    bad = wanted & (batches.record_count * MIN_RECORD_SIZE > payload_size)
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise CorruptRecord(
            f"batch at offset {batches.base_offset[index]}: {batches.record_count[index]} records "
            f"cannot be in {payload_size[index]} bytes"
        )
    return int(batches.record_count[wanted].sum())


def _walk_batches(
    buffer: Buffer, arena: Buffer, batches: Batches, room: int, min_offset: int | None
) -> Columns:
    split = memoryview(buffer).nbytes
    wide = np.empty((5, room), np.int64)
    narrow = np.empty((5, room), np.int32)
    report = _Report()
    call = filled(
        WalkCall,
        buffer=buffer,
        split=split,
        arena=arena,
        rows=batches.rows,
        capacity=len(batches),
        batch_end=len(batches),
        min_offset=_NO_MINIMUM if min_offset is None else min_offset,
        wide=wide,
        narrow=narrow,
        room=room,
        report=report,
    )
    status = kernel("walk_batches")(call)
    if status != 0:
        raise_malformed(batches, status, report[1], report[2], report[3])
    count = report[0]
    return Columns(
        buffer=buffer,
        arena=arena,
        split=split,
        batches=batches,
        consumed=batches.consumed,
        offset=wide[0, :count],
        timestamp=wide[1, :count],
        key_start=wide[2, :count],
        value_start=wide[3, :count],
        headers_start=wide[4, :count],
        key_length=narrow[0, :count],
        value_length=narrow[1, :count],
        headers_length=narrow[2, :count],
        header_count=narrow[3, :count],
        batch_index=narrow[4, :count],
    )


def raise_malformed(
    batches: Batches, status: int, batch: int, index: int, position: int
) -> NoReturn:
    in_payload = position - int(batches.payload_start[batch])
    error = MalformedRecord(RecordFault(status), index, in_payload)
    error.add_note(f"in the batch at offset {batches.base_offset[batch]}")
    raise error
