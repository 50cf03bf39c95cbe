"""Keyed hashes of record keys, 128 bits each. Pure."""

import ctypes
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels.abi import LANE_WORDS
from ledgerstone.records.kernels.descriptors import HashCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.windows import Int32s, Int64s
from ledgerstone.types import Buffer

UInt64s = NDArray[np.uint64]

SEED_SIZE: Final = 16


def hash_keys(
    source: Buffer, key_start: Int64s, key_length: Int32s, seed: bytes, *, arena: Buffer = b""
) -> tuple[UInt64s, UInt64s]:
    """SipHash-2-4-128 of each key as (low words, high words); a null key's are both 0.

    The spans are `Columns`' own: virtual positions over `source` and then `arena`.
    """
    if len(seed) != SEED_SIZE:
        raise ValueError(f"a seed has {SEED_SIZE} bytes, not {len(seed)}")
    count = len(key_start)
    if len(key_length) != count:
        raise ValueError(f"{count} starts for {len(key_length)} lengths")
    starts = np.ascontiguousarray(key_start, np.int64)
    lengths = np.ascontiguousarray(key_length, np.int32)
    low = np.empty(count, np.uint64)
    high = np.empty(count, np.uint64)
    split = memoryview(source).nbytes
    report = (ctypes.c_int64 * 1)()
    call = filled(
        HashCall,
        buffer=source,
        split=split,
        arena=arena,
        end=split + memoryview(arena).nbytes,
        start=starts,
        length=lengths,
        count=count,
        report=report,
        k0=int.from_bytes(seed[:8], "little"),
        k1=int.from_bytes(seed[8:], "little"),
        low=low,
        high=high,
        lanes=np.zeros(LANE_WORDS, np.uint64),
    )
    status = kernel("hash_keys")(call)
    if status != 0:
        index = report[0]
        raise InvariantViolation(
            f"key {index} at {key_start[index]} of {key_length[index]} bytes is outside its window"
        )
    return low, high
