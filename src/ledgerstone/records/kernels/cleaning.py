"""Both halves of a cleaning over a window's payloads, one kernel call each. Pure.

`map_payloads` puts the latest offset of each key into a table, `clean_payloads` judges every record
by such a table and writes what is left. From parsing to writing nothing leaves the kernel: what it
must know of a record lies in `Scratch`, columns for some hundred records, used over and over.
"""

import ctypes
from struct import Struct
from typing import Final, NamedTuple, NoReturn

import numpy as np

from ledgerstone.errors import CorruptRecord, InvariantViolation, RecordListTooLarge
from ledgerstone.records.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CODEC_MASK,
    CRC_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    Codec,
    write_crc,
)
from ledgerstone.records.compression import Codecs
from ledgerstone.records.crc import crc32c
from ledgerstone.records.kernels.filling import Filled
from ledgerstone.records.kernels.hashing import UInt64s
from ledgerstone.records.kernels.key_offsets import JudgementRules
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.newest import NewestBits
from ledgerstone.records.kernels.payloads import Payloads
from ledgerstone.records.kernels.rewriting import MAX_RECORD_GROWTH, RewriteOutcome
from ledgerstone.records.kernels.scratch import (
    KINDS,
    RANGE_FIELDS,
    RANGES_AT,
    Pile,
    Scratch,
)
from ledgerstone.records.kernels.windows import Bytes, Int64s, raise_malformed
from ledgerstone.records.record import RecordFault
from ledgerstone.types import INT64_MAX

_STATE_FIELDS: Final = 8
_NO_COUNTS: Final = np.array([*[0] * KINDS, INT64_MAX, INT64_MAX, -1, 0], np.int64)
_NO_MINIMUM: Final = -(2**63)
_BATCH_TOO_LARGE: Final = 102
_BAD_OFFSET: Final = 110
_TABLE_FULL: Final = 120
_CODECS: Final = tuple(Codec)
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_State: Final = ctypes.c_int64 * _STATE_FIELDS


class PutState:
    """How far a window's records are in the table; a full table goes on from here once it grew.
    Whether the bits hold is known through all windows."""

    __slots__ = ("numbers",)

    def __init__(self, newest: NewestBits) -> None:
        self.numbers = _State(0, 0, 0, 0, -1, 0, len(newest) > 0, -1)

    def restart(self, size: int, first_batch: int) -> None:
        self.numbers[:6] = [size, first_batch, 0, 0, -1, 0]

    @property
    def size(self) -> int:
        return self.numbers[0]

    @property
    def last_put(self) -> tuple[int, int]:
        """(batch, offset) of the last record that went in; batch -1 where none did."""
        return self.numbers[4], self.numbers[5]

    @property
    def bits_hold(self) -> bool:
        """Whether what was put so far is superseded exactly where its bit is not set."""
        return self.numbers[6] != 0


class CleanedPayloads(NamedTuple):
    """The bytes to append, what became of each batch, and the records of each kind."""

    data: memoryview
    outcome: Int64s  # `RewriteOutcome` numbers
    size: Int64s  # 0 where nothing is left
    max_timestamp: Int64s
    kept: int
    superseded: int
    expired: int
    keyless: int
    tombstones_kept: int
    tombstones_stamped: int
    tombstones_held: int
    earliest_horizon_ms: int | None  # of the kept tombstones that nobody holds
    removed: tuple[int, int] | None  # first and last offset of tombstones that went
    ranges: list[tuple[int, int, int]]  # kept ones: first offset, last, earliest horizon


def seed_words(seed: bytes) -> tuple[int, int]:
    return int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little")


def map_payloads(
    payloads: Payloads,
    actions: Bytes,
    scratch: Scratch,
    table: UInt64s,
    seed: tuple[int, int],
    state: PutState,
    newest: NewestBits,
    *,
    limit: int,
    min_offset: int | None,
) -> int | None:
    """None once all records from `min_offset` on are in, those of DISCARDed batches aside; else
    the batch of the first one with a key that found `limit` keys."""
    call = scratch.call
    _set_window(call, payloads, actions)
    scratch.use_keys(table, seed, newest)
    call.set(
        min_offset=_NO_MINIMUM if min_offset is None else min_offset,
        limit=limit,
        state=state.numbers,
    )
    status = kernel("map_batches")(call)
    if status == 0:
        return None
    report: list[int] = scratch.report.tolist()
    if status == _TABLE_FULL:
        return report[1]
    if status == _BAD_OFFSET:
        base_offset = payloads.batches.base_offset[report[1]]
        raise CorruptRecord(f"batch at offset {base_offset}: a record has the offset {report[3]}")
    _raise_fault(payloads, status, report)


def clean_payloads(
    payloads: Payloads,
    actions: Bytes,
    scratch: Scratch,
    table: UInt64s,
    seed: tuple[int, int],
    rules: JudgementRules,
    newest: NewestBits,
    *,
    out: Bytes,
    codecs: Codecs,
) -> CleanedPayloads:
    """What is left of the batches, by `rules` and `actions`; the table is asked only where there
    are no bits. The answer's data lies in `out`, or in memory of `scratch` if something had to
    be compressed again."""
    call = scratch.call
    _set_window(call, payloads, actions)
    scratch.use_keys(table, seed, newest)
    outcomes = scratch.outcomes(payloads.batches.capacity)
    scratch.counts[: RANGES_AT + 1] = _NO_COUNTS
    scratch.use_rules(rules)
    call.set(out=out, out_room=len(out), outcomes=outcomes)
    status = kernel("clean_batches")(call)
    report = scratch.report.tolist()
    if status != 0:
        _raise_fault(payloads, status, report)
    outcomes = outcomes[:, payloads.first : payloads.end]
    data = _sealed(
        out.data[: report[0]],
        outcomes,
        codecs,
        scratch.packed,
        has_crcs=report[4] != 0,
        # What was compressed has been taken apart, so its records lie in the arena.
        has_compressed=payloads.arena_used > 0,
    )
    known = scratch.counts[: RANGES_AT + 1].tolist()
    *kinds, earliest, removed_first, removed_last, ranges = known
    horizon = None if earliest == INT64_MAX else earliest
    removed = None if removed_last < 0 else (removed_first, removed_last)
    columns = (outcomes[0], outcomes[2], outcomes[6])
    return CleanedPayloads._make(
        (data, *columns, *kinds, horizon, removed, _ranges(scratch.counts, ranges))
    )


def _ranges(counts: Int64s, known: int) -> list[tuple[int, int, int]]:
    if not known:
        return []
    first = RANGES_AT + 1
    rows = counts[first : first + RANGE_FIELDS * known].tolist()
    return list(zip(rows[::3], rows[1::3], rows[2::3], strict=True))


def room_for(payloads: Payloads, consumed: int, records: int) -> int:
    """The most bytes that can be left of a window."""
    return consumed + payloads.arena_used + MAX_RECORD_GROWTH * records


def _set_window(call: Filled, payloads: Payloads, actions: Bytes) -> None:
    """What both kernels ask for."""
    batches = payloads.batches
    if not payloads.end <= min(len(actions), len(batches)):
        raise ValueError(f"{payloads.end} of {len(batches)} batches, {len(actions)} actions")
    call.set(
        buffer=payloads.buffer,
        split=memoryview(payloads.buffer).nbytes,
        arena=payloads.arena if payloads.arena_used else b"",
        rows=batches.memory,
        capacity=batches.capacity,
        batch_start=payloads.first,
        batch_end=payloads.end,
        actions=actions,
    )


def _raise_fault(payloads: Payloads, status: int, report: list[int]) -> NoReturn:
    batch = report[1]
    batches = payloads.batches
    if status <= max(RecordFault):
        raise_malformed(batches, status, batch, report[2], report[3])
    if status == _BATCH_TOO_LARGE:
        offset = batches.base_offset[batch]
        raise RecordListTooLarge(f"batch at offset {offset}: rewritten it passes 2 GiB")
    raise InvariantViolation(f"batch {batch} cannot be cleaned: status {status}")


def _sealed(
    data: memoryview,
    outcomes: Int64s,
    codecs: Codecs,
    packed: Pile,
    *,
    has_crcs: bool,
    has_compressed: bool,
) -> memoryview:
    """Compresses what was compressed; CRCs too where the processor has no instruction for them."""
    if has_crcs and not has_compressed:
        return data
    outcome, position, size, _, attributes, _, _ = outcomes
    to_compress = (outcome == RewriteOutcome.REWRITTEN) & ((attributes & CODEC_MASK) != 0)
    if not has_crcs:
        for index in np.flatnonzero((outcome >= RewriteOutcome.REWRITTEN) & ~to_compress).tolist():
            write_crc(data, int(position[index]), int(size[index]))
    indexes = np.flatnonzero(to_compress)
    if not len(indexes):
        return data
    packed.clear()
    done = 0
    rows = (indexes, position[indexes], size[indexes], attributes[indexes])
    for index, at, old_size, flags in zip(*(row.tolist() for row in rows), strict=True):
        packed.add(data[done:at])
        done = at + old_size
        payload = codecs.compress(_CODECS[flags & CODEC_MASK], data[at + HEADER_SIZE : done])
        size[index] = HEADER_SIZE + len(payload)
        header = data[at : at + HEADER_SIZE]
        _INT32.pack_into(header, BATCH_LENGTH_AT, HEADER_SIZE + len(payload) - LOG_OVERHEAD)
        crc = crc32c(payload, crc32c(header[ATTRIBUTES_AT:]))
        _UINT32.pack_into(header, CRC_AT, crc)
        packed.add(header)
        packed.add(payload)
    packed.add(data[done:])
    return packed.view
