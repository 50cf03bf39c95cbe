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
from ledgerstone.records.kernels.loader import LoadReport, kernel, library_to_carry, load
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
    from ledgerstone.records.kernels.rewriting import BatchAction, Outcome, Rewritten, rewrite
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
    "Outcome",
    "Payloads",
    "PutState",
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
    "Outcome": "rewriting",
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


def hash_key(key: bytes, seed: bytes) -> tuple[int, int]:
    """What `hash_keys` answers for one key, without numpy: (low word, high word)."""
    low, high = (ctypes.c_uint64 * 1)(), (ctypes.c_uint64 * 1)()
    call = filled(
        HashCall,
        buffer=key,
        split=len(key),
        arena=b"",
        end=len(key),
        start=(ctypes.c_int64 * 1)(0),
        length=(ctypes.c_int32 * 1)(len(key)),
        count=1,
        report=(ctypes.c_int64 * 1)(),
        k0=int.from_bytes(seed[:8], "little"),
        k1=int.from_bytes(seed[8:16], "little"),
        low=low,
        high=high,
        lanes=(ctypes.c_uint64 * LANE_WORDS)(),
    )
    kernel("hash_keys")(call)
    return low[0], high[0]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_LAZY[name]}")
    value: object = getattr(module, name)
    # Found once, the name is an ordinary global.
    globals()[name] = value
    return value
