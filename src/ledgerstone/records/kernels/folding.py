"""Batches folded to the latest record of each key, one kernel call for a window. Pure.

What is known of keys lies in two arrays of the caller: `slots`, where a key's number is found by
its hash, and `facts`, a row for each key by its number: hash, mark and, where contents are wanted,
the hash of key and value. Nothing leaves them. From parsing to hashing nothing leaves the kernel:
what it must know of a record lies in `FoldColumns`, for some hundred of them, used over and over.
"""

import ctypes
from typing import Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ledgerstone.errors import CorruptRecord, InvariantViolation
from ledgerstone.records.batch import ATTRIBUTES_AT
from ledgerstone.records.crc import crc32c
from ledgerstone.records.kernels.descriptors import FindCall, FoldCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.hashing import SEED_SIZE, UInt64s
from ledgerstone.records.kernels.key_offsets import MAX_SLOTS, Hashes
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.records.kernels.payloads import Payloads
from ledgerstone.records.kernels.windows import Batches, Bytes, Int32s, Int64s, raise_malformed
from ledgerstone.types import Buffer

# Words of a key's facts, without and with its content.
MARK_AT: Final = 2
CONTENT_AT: Final = 3
FACTS_WITHOUT_CONTENT: Final = 3
FACTS_WITH_CONTENT: Final = 5

# Records at a time: their columns, and what the kernel asks for meanwhile, stay in the first cache.
_ROOM: Final = 256
_LANE_WORDS: Final = 11 * 64
_STATE_FIELDS: Final = 13
_REPORT_FIELDS: Final = 4
_KEYS_FULL: Final = 122
_BAD_ORDER: Final = 123
_BAD_CRC: Final = 124
_FIRST_INVARIANT: Final = 100


class FoldColumns:
    """Memory that kernel calls share; a call that found the keys full leaves rows in it."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        wide, narrow = np.empty((4, _ROOM), np.int64), np.empty((2, _ROOM), np.int32)
        words, lanes = np.empty((2, _ROOM), np.uint64), np.zeros(_LANE_WORDS, np.uint64)
        # By their names in a `FoldCall`.
        self.fields: dict[str, Int64s | Int32s | UInt64s] = {
            "offset": wide[0],
            "key_start": wide[1],
            "content_start": wide[2],
            "number": wide[3],
            "key_length": narrow[0],
            "content_length": narrow[1],
            "low": words[0],
            "high": words[1],
            "lanes": lanes,
        }


class FoldState:
    """How far the records of a window are folded, and what they were."""

    __slots__ = ("numbers",)

    def __init__(self, *, keys: int, first_batch: int = 0, last_seen: int = -1) -> None:
        self.numbers = (ctypes.c_int64 * _STATE_FIELDS)(keys, first_batch, 0, 0, 0, 0, 0, last_seen)

    @property
    def keys(self) -> int:
        return self.numbers[0]

    @property
    def last_seen(self) -> int:
        """The offset of the last record, -1 where there was none."""
        return self.numbers[7]

    @property
    def counts(self) -> "Folded":
        return Folded(*self.numbers[8:])


class Folded(NamedTuple):
    records: int
    without_key: int
    tombstones: int
    deletes_applied: int  # tombstones of a key that was live
    recreated: int  # values of a key that was deleted


class FoldPlan(NamedTuple):
    """What a fold wants of a window."""

    start_offset: int
    end_offset: int
    key_seed: bytes
    content_seed: bytes
    checks_crc: bool  # else somebody has


def fold_payloads(
    payloads: Payloads,
    skip: Bytes,
    plan: FoldPlan,
    slots: UInt64s,
    facts: NDArray[np.uint64],
    columns: FoldColumns,
    state: FoldState,
    *,
    limit: int,
) -> bool:
    """Whether all is folded; else there are `limit` keys and the next one would be new. Goes on
    from `state`, then, with more room. Batches with a flag in `skip` are passed over."""
    batches, split = payloads.batches, memoryview(payloads.buffer).nbytes
    _check_keys(slots, facts, max(limit, state.keys))
    if len(skip) != len(batches) or not payloads.end <= len(batches) or batches.consumed > split:
        raise ValueError(f"{len(skip)} flags, {payloads.end} of {len(batches)} batches")
    k0, k1 = _words(plan.key_seed)
    c0, c1 = _words(plan.content_seed)
    report = (ctypes.c_int64 * _REPORT_FIELDS)()
    call = filled(
        FoldCall,
        buffer=payloads.buffer,
        split=split,
        arena=payloads.arena if payloads.arena_used else b"",
        end=split + payloads.arena_used,
        rows=batches.rows,
        capacity=len(batches),
        batch_end=payloads.end,
        skip=skip,
        checks_crc=plan.checks_crc,
        start_offset=plan.start_offset,
        end_offset=plan.end_offset,
        k0=k0,
        k1=k1,
        c0=c0,
        c1=c1,
        table=slots,
        slots=len(slots),
        facts=facts,
        stride=facts.shape[1],
        limit=limit,
        **columns.fields,
        room=_ROOM,
        state=state.numbers,
        report=report,
    )
    status = kernel("fold_batches")(call)
    *fault, crcs_checked = report
    if plan.checks_crc and not crcs_checked:
        check_crcs(payloads.buffer, batches, skip)
    if status not in (0, _KEYS_FULL):
        _refuse(batches, status, *fault)
    return bool(status == 0)


def find_keys(slots: UInt64s, facts: NDArray[np.uint64], size: int, hashes: Hashes) -> Int64s:
    """The number of each key, -1 for one that is not there."""
    _check_keys(slots, facts, size)
    low, high = np.ascontiguousarray(hashes.low), np.ascontiguousarray(hashes.high)
    found = np.empty(len(low), np.int64)
    if len(high) != len(low):
        raise ValueError(f"{len(low)} and {len(high)} words")
    call = filled(
        FindCall,
        table=slots,
        slots=len(slots),
        low=low,
        high=high,
        count=len(low),
        number=found,
        facts=facts,
        size=size,
        stride=facts.shape[1],
    )
    kernel("find_keys")(call)
    return found


def moved_to_more_slots(slots: UInt64s, count: int) -> UInt64s:
    """The same keys in so many slots."""
    if not len(slots) <= count <= MAX_SLOTS:
        raise ValueError(f"{len(slots)} slots to {count}, at most {MAX_SLOTS}")
    larger = np.zeros(count, np.uint64)
    (table, table_pin), (target, target_pin) = borrow(slots.data), borrow(larger.data)
    status = kernel("move_keys")(table, len(slots), target, count)
    del table_pin, target_pin
    if status != 0:
        raise InvariantViolation(f"{len(slots)} slots do not go into {count}: {status}")
    return larger


def check_crcs(buffer: Buffer, batches: Batches, skip: Bytes) -> None:
    """Where a processor has no instruction for it, and before anything is decompressed."""
    view = memoryview(buffer).cast("B")
    for index in np.flatnonzero(skip == 0).tolist():
        position = int(batches.position[index])
        found = crc32c(view[position + ATTRIBUTES_AT : position + int(batches.size[index])])
        if found != batches.crc[index]:
            _refuse(batches, _BAD_CRC, index, 0, found)


def _check_keys(slots: UInt64s, facts: NDArray[np.uint64], size: int) -> None:
    """What a kernel believes of the two."""
    words = facts.shape[1]
    if words not in (FACTS_WITHOUT_CONTENT, FACTS_WITH_CONTENT) or not 0 <= size <= len(facts):
        raise ValueError(f"{size} keys in {facts.shape} facts")
    if not facts.flags.c_contiguous or not slots.flags.c_contiguous or not len(slots):
        raise ValueError(f"{len(slots)} slots, {facts.shape} facts: empty, or with gaps")


def _words(seed: bytes) -> tuple[int, int]:
    if len(seed) != SEED_SIZE:
        raise ValueError(f"a seed has {SEED_SIZE} bytes, not {len(seed)}")
    return int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little")


def _refuse(batches: Batches, status: int, batch: int, record: int, detail: int) -> NoReturn:
    if status == _BAD_CRC:
        raise CorruptRecord(
            f"batch at position {batches.position[batch]}: crc {detail:#010x}, "
            f"stored {batches.crc[batch]:#010x}"
        )
    if status == _BAD_ORDER:
        raise CorruptRecord(
            f"records do not rise within their batch, offsets {batches.base_offset[batch]} to "
            f"{batches.last_offset[batch]}: record {record} has {detail}"
        )
    if status >= _FIRST_INVARIANT:
        raise InvariantViolation(f"batch {batch}, record {record}: status {status}")
    raise_malformed(batches, status, batch, record, detail)
