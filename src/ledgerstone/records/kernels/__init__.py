"""Per-record work, compiled: the typed interface of the kernels. Pure but for the loader behind it.

Everything here loads the kernels at its first call; `load()` does so at a moment of your choosing.
`inspect_records` is for the produce path and does without numpy; the other names import it when
they are first asked for. How the kernels are built, and the rules they keep, is in README.md.
"""

import ctypes
import importlib
from struct import Struct
from typing import TYPE_CHECKING, Final

from ledgerstone.records.kernels.loader import LoadReport, ensure_compiled, kernel, load
from ledgerstone.records.kernels.memory import borrow
from ledgerstone.records.record import RecordsFacts
from ledgerstone.types import Buffer

if TYPE_CHECKING:
    from ledgerstone.records.kernels.hashing import hash_keys
    from ledgerstone.records.kernels.key_offsets import (
        Hashes,
        Judged,
        JudgementRules,
        find_offsets,
        judge_records,
        moved_to_larger,
        new_table,
        put_offsets,
    )
    from ledgerstone.records.kernels.rewriting import BatchAction, Outcome, Rewritten, rewrite
    from ledgerstone.records.kernels.windows import Batches, Columns, scan, walk

__all__ = [
    "BatchAction",
    "Batches",
    "Columns",
    "Hashes",
    "Judged",
    "JudgementRules",
    "LoadReport",
    "Outcome",
    "Rewritten",
    "ensure_compiled",
    "find_offsets",
    "hash_keys",
    "inspect_records",
    "judge_records",
    "load",
    "moved_to_larger",
    "new_table",
    "put_offsets",
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
    "hash_keys": "hashing",
    "Hashes": "key_offsets",
    "Judged": "key_offsets",
    "JudgementRules": "key_offsets",
    "find_offsets": "key_offsets",
    "judge_records": "key_offsets",
    "moved_to_larger": "key_offsets",
    "new_table": "key_offsets",
    "put_offsets": "key_offsets",
    "BatchAction": "rewriting",
    "Outcome": "rewriting",
    "Rewritten": "rewriting",
    "rewrite": "rewriting",
}

_Facts: Final = ctypes.c_int64 * 10
_UNPACK_FACTS: Final = Struct("10q").unpack


def inspect_records(payload: Buffer, *, record_count: int) -> RecordsFacts:
    """Checks that `payload` is exactly `record_count` records, and what a leader asks of them."""
    address, pin = borrow(payload)
    facts = _Facts()
    status = kernel("inspect_records")(address, memoryview(payload).nbytes, record_count, facts)
    del pin
    numbers = _UNPACK_FACTS(facts)
    return RecordsFacts._make((status, *numbers[:7], numbers[7] == 1, numbers[8], numbers[9]))


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_LAZY[name]}")
    value: object = getattr(module, name)
    # Found once, the name is an ordinary global.
    globals()[name] = value
    return value
