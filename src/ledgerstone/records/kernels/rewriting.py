"""A window of batches without the records a cleaning drops. Pure.

The judgement comes in as a keep flag per record and an action per batch; the table of what is
written is in README.md. Offsets and the order of batches never change.
"""

import ctypes
from enum import IntEnum, IntFlag
from typing import Final

import numpy as np

from ledgerstone.dataclasses import dataclass, fields
from ledgerstone.errors import InvariantViolation, RecordListTooLarge
from ledgerstone.records.batch import CODEC_MASK, HEADER_SIZE, read_header, write_crc
from ledgerstone.records.builder import seal_batch
from ledgerstone.records.compression import compress
from ledgerstone.records.kernels.descriptors import RewriteCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.windows import Bytes, Columns, Int64s
from ledgerstone.types import Buffer

# The most a record can grow: a timestamp delta from one byte to ten, and its length by one more.
MAX_RECORD_GROWTH: Final = 10

_OUTCOME_FIELDS: Final = 7
_BATCH_TOO_LARGE: Final = 102
_NO_HORIZON: Final = -1


class BatchAction(IntFlag):
    """What the batch decision of a cleaning says about one batch."""

    NONE = 0
    RETAIN_EMPTY = 1  # with no record left it stays as a bare header
    DISCARD = 2  # no record is kept, whatever the flags say
    STAMP = 4  # gets the delete horizon although it holds no tombstone: a marker whose data is gone


class RewriteOutcome(IntEnum):
    DROPPED = 0
    UNCHANGED = 1
    REWRITTEN = 2
    EMPTIED = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewritten:
    """The bytes to append, and what became of each batch of the window."""

    data: memoryview
    outcome: Int64s  # `RewriteOutcome` numbers
    position: Int64s  # in `data`
    size: Int64s
    kept_count: Int64s
    attributes: Int64s
    base_timestamp: Int64s  # the delete horizon where `attributes` say so
    max_timestamp: Int64s


_OUTCOME_NAMES: Final = tuple(field.name for field in fields(Rewritten))[1:]


def rewrite(
    columns: Columns,
    keep: Bytes,
    *,
    actions: Bytes | None = None,
    delete_horizon_ms: int | None = None,
    out: Bytes | None = None,
) -> Rewritten:
    """What is left of the window `columns` were walked from.

    `keep` has a flag per row. `delete_horizon_ms` is set on batches that keep a tombstone, or are
    to be stamped, and have no horizon yet: it is set once and never moves. The answer's data lies
    in `out` if that has room for whatever may come, and is then good until `out` is used again.
    """
    batches = columns.batches
    actions = np.zeros(len(batches), np.uint8) if actions is None else actions
    _check_shapes(columns, keep, actions)
    outcomes = np.zeros((_OUTCOME_FIELDS, len(batches)), np.int64)
    bound = _upper_bound(columns)
    if out is None or len(out) < bound:
        # Not bytearray: that would fill with zeros what is about to be written.
        out = np.empty(bound, np.uint8)
    record_end = columns.headers_start + columns.headers_length
    horizon = _NO_HORIZON if delete_horizon_ms is None else delete_horizon_ms
    written = _run_kernel(columns, keep, actions, record_end, horizon, out, outcomes)
    data = _seal(out.data[:written], outcomes)
    return Rewritten(data=data, **dict(zip(_OUTCOME_NAMES, outcomes, strict=True)))


def _check_shapes(columns: Columns, keep: Bytes, actions: Bytes) -> None:
    batches = columns.batches
    if keep.dtype != np.uint8 or len(keep) != len(columns):
        raise ValueError(f"{len(keep)} {keep.dtype} keep flags for {len(columns)} records")
    if actions.dtype != np.uint8 or len(actions) != len(batches):
        raise ValueError(f"{len(actions)} {actions.dtype} actions for {len(batches)} batches")
    walked = np.diff(batches.record_start, append=len(columns))
    partly = (walked != batches.record_count) & ((actions & BatchAction.DISCARD) == 0)
    if partly.any():
        index = int(np.flatnonzero(partly)[0])
        raise ValueError(
            f"batch at offset {batches.base_offset[index]}: {walked[index]} of "
            f"{batches.record_count[index]} records walked, and it is not discarded"
        )


def _upper_bound(columns: Columns) -> int:
    batches = columns.batches
    payload_size = np.maximum(batches.payload_end - batches.payload_start, 0)
    rebuilt = HEADER_SIZE + payload_size + MAX_RECORD_GROWTH * batches.record_count
    return int(np.maximum(batches.size, rebuilt).sum())


def _run_kernel(
    columns: Columns,
    keep: Bytes,
    actions: Bytes,
    record_end: Int64s,
    horizon: int,
    out: Bytes,
    outcomes: Int64s,
) -> int:
    batches = columns.batches
    report = (ctypes.c_int64 * 2)()
    call = filled(
        RewriteCall,
        buffer=columns.buffer,
        split=columns.split,
        arena=columns.arena,
        rows=batches.rows,
        capacity=len(batches),
        batch_end=len(batches),
        timestamp=np.ascontiguousarray(columns.timestamp),
        record_end=np.ascontiguousarray(record_end),
        value_length=np.ascontiguousarray(columns.value_length),
        keep=np.ascontiguousarray(keep),
        actions=np.ascontiguousarray(actions),
        horizon=horizon,
        out=out,
        out_room=len(out),
        outcomes=outcomes,
        report=report,
    )
    status = kernel("rewrite_batches")(call)
    if status == _BATCH_TOO_LARGE:
        offset = batches.base_offset[report[1]]
        raise RecordListTooLarge(f"batch at offset {offset}: rewritten it passes 2 GiB")
    if status != 0:
        raise InvariantViolation(f"batch {report[1]} cannot be rewritten: status {status}")
    return report[0]


def _seal(data: memoryview, outcomes: Int64s) -> memoryview:
    """CRCs for the changed batches, and their codec for those that were compressed."""
    changed = outcomes[0] >= RewriteOutcome.REWRITTEN
    to_compress = (outcomes[0] == RewriteOutcome.REWRITTEN) & ((outcomes[4] & CODEC_MASK) != 0)
    for index in np.flatnonzero(changed & ~to_compress).tolist():
        write_crc(data, int(outcomes[1, index]), int(outcomes[2, index]))
    if not to_compress.any():
        return data
    parts: list[Buffer] = []
    for index in range(outcomes.shape[1]):
        start, size = int(outcomes[1, index]), int(outcomes[2, index])
        part: Buffer = data[start : start + size]
        if to_compress[index]:
            header = read_header(part)
            part = seal_batch(header, compress(header.codec, part[HEADER_SIZE:]))
        parts.append(part)
    sizes = np.array([len(part) for part in parts], np.int64)
    outcomes[1] = np.cumsum(sizes) - sizes
    outcomes[2] = sizes
    return memoryview(b"".join(parts))
