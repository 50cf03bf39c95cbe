"""Per-record work, compiled: the typed interface of the kernels. Pure but for the loader behind it.

Everything here loads the kernels at its first call; `load()` does so at a moment of your choosing.
`inspect_records` is for the produce path and does without numpy; the other names import it when
they are first asked for. How the kernels are built, and the rules they keep, is in README.md.
"""

import ctypes
import functools
import importlib
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

from ledgerstone.records.kernels.abi import LANE_WORDS, Kernel
from ledgerstone.records.kernels.descriptors import HashCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.loader import LoadReport, PerThread, kernel, library_to_carry, load
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.records.records_facts import RecordsFacts
from ledgerstone.types import Buffer

if TYPE_CHECKING:
    from ledgerstone.records.kernels.checking import BatchChecker, Checked
    from ledgerstone.records.kernels.cleaning import (
        CleanedPayloads,
        PutState,
        clean_payloads,
        map_payloads,
    )
    from ledgerstone.records.kernels.hashing import hash_keys
    from ledgerstone.records.kernels.key_offsets import (
        Hashes,
        JudgementRules,
        moved_to_larger,
        new_table,
    )
    from ledgerstone.records.kernels.payloads import Arena, Payloads
    from ledgerstone.records.kernels.rewriting import (
        BatchAction,
        RewriteOutcome,
        Rewritten,
        rewrite,
    )
    from ledgerstone.records.kernels.scratch import Scratch
    from ledgerstone.records.kernels.windows import Batches, Columns, scan, walk

__all__ = [
    "Arena",
    "BatchAction",
    "BatchChecker",
    "Batches",
    "Checked",
    "CleanedPayloads",
    "Columns",
    "Hashes",
    "JudgementRules",
    "LoadReport",
    "Payloads",
    "PutState",
    "RewriteOutcome",
    "Rewritten",
    "Scratch",
    "clean_payloads",
    "hash_key",
    "hash_keys",
    "inspect_records",
    "library_to_carry",
    "load",
    "map_payloads",
    "moved_to_larger",
    "new_table",
    "rewrite",
    "scan",
    "walk",
]

# Names whose modules import numpy, which a broker that only produces and fetches never needs.
_LAZY: Final = {
    "Batches": "windows",
    "Columns": "windows",
    "scan": "windows",
    "walk": "windows",
    "BatchChecker": "checking",
    "Checked": "checking",
    "CleanedPayloads": "cleaning",
    "PutState": "cleaning",
    "Scratch": "scratch",
    "clean_payloads": "cleaning",
    "map_payloads": "cleaning",
    "Arena": "payloads",
    "Payloads": "payloads",
    "hash_keys": "hashing",
    "Hashes": "key_offsets",
    "JudgementRules": "key_offsets",
    "moved_to_larger": "key_offsets",
    "new_table": "key_offsets",
    "BatchAction": "rewriting",
    "RewriteOutcome": "rewriting",
    "Rewritten": "rewriting",
    "rewrite": "rewriting",
}

# What `inspect_records` writes; a shorter array would be overrun.
FACT_FIELDS: Final = 15
_Facts: Final = ctypes.c_int64 * FACT_FIELDS
_UNPACK_FACTS: Final = Struct(f"{FACT_FIELDS}q").unpack
# Every produced batch asks for it, so it is looked up once.
_inspector: Final[Callable[[], Kernel]] = functools.cache(
    functools.partial(kernel, "inspect_records")
)


def inspect_records(payload: Buffer, *, record_count: int) -> RecordsFacts:
    """Checks that `payload` is exactly `record_count` records, and what a leader asks of them."""
    address, pin = borrow(payload)
    facts = _Facts()
    status = _inspector()(address, memoryview(payload).nbytes, record_count, facts)
    del pin
    numbers = _UNPACK_FACTS(facts)
    return RecordsFacts._make((status, *numbers[:7], numbers[7] == 1, *numbers[8:]))


class _OneKey(PerThread):
    """A descriptor for one key and the memory it names, for each thread that hashes single keys."""

    def __init__(self) -> None:
        self.length = (ctypes.c_int32 * 1)()
        self.low, self.high = (ctypes.c_uint64 * 1)(), (ctypes.c_uint64 * 1)()
        self.call = filled(
            HashCall,
            buffer=b"",
            split=0,
            arena=b"",
            end=0,
            start=(ctypes.c_int64 * 1)(0),
            length=self.length,
            count=1,
            report=(ctypes.c_int64 * 1)(),
            k0=0,
            k1=0,
            low=self.low,
            high=self.high,
            lanes=(ctypes.c_uint64 * LANE_WORDS)(),
        )


_one_key: Final = _OneKey()


def hash_key(key: bytes, seed: bytes) -> tuple[int, int]:
    """What `hash_keys` answers for one key, without numpy: (low word, high word)."""
    mine, size = _one_key, len(key)
    call = mine.call
    mine.length[0] = size
    k0, k1 = int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:16], "little")
    call.set(buffer=key, split=size, end=size, k0=k0, k1=k1)
    kernel("hash_keys")(call)
    # A key may be one that is to be erased: nothing here holds on to it.
    call.set(buffer=b"", k0=0, k1=0)
    return mine.low[0], mine.high[0]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_LAZY[name]}")
    value: object = getattr(module, name)
    # Found once, the name is an ordinary global.
    globals()[name] = value
    return value
