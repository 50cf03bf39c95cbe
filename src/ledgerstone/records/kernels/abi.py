"""The exported kernels: symbol, source function, argument types; every one returns an int64. Pure.

The build turns the types into numba's, the loader into ctypes'; both read this one table. A kernel
of more than eight arguments takes a descriptor instead, `descriptors.py`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ledgerstone.records.kernels.descriptors import (
    CandidatesCall,
    CleaningCall,
    Descriptor,
    FindCall,
    FoldCall,
    HashCall,
    HeadersCall,
    IndexCall,
    LargeGatherCall,
    NumberCall,
    RebuildCall,
    RewriteCall,
    RollingCall,
    SmallGatherCall,
    ViewsCall,
    WalkCall,
)

# One of them, compiled and called through ctypes.
Kernel = Callable[..., int]

SYMBOL_PREFIX: Final = "ledgerstone_"
SOURCE_PACKAGE: Final = "ledgerstone.records.kernels.source"

# What an entry point answers if numba's code ever reports an exception: no kernel means it.
KERNEL_RAISED: Final = -(2**63)

# Words a kernel that hashes keys side by side needs for their states; `source.siphash` says which.
LANE_WORDS: Final = 7 * 64

# In the order of their imports: a module may only use helpers of the modules before it.
SOURCE_MODULES: Final = (
    "words",
    "varints",
    "record",
    "walk",
    "siphash",
    "key_offsets",
    "kept",
    "rewrite",
    "newest",
    "crc",
    "checking",
    "rebuilding",
    "record_rows",
    "cleaning",
    "index_entries",
    "columns",
    "rolling",
    "low_bits",
    "numbering",
    "key_facts",
    "contents",
    "folding",
)


# A type by its name, or a descriptor by its class.
Argument = str | type[Descriptor]


class KernelSpec(NamedTuple):
    """One exported symbol. Two symbols may share a source function with other argument types."""

    symbol: str
    module: str
    function: str
    arguments: tuple[Argument, ...]


def _spec(symbol: str, module: str, arguments: str) -> KernelSpec:
    return KernelSpec(symbol, module, symbol, tuple(arguments.split()))


def _described(symbol: str, module: str, descriptor: type[Descriptor]) -> KernelSpec:
    return KernelSpec(symbol, module, symbol, (descriptor,))


KERNELS: Final = (
    # payload, end, record_count, facts
    _spec("inspect_records", "record", "u8* i64 i64 i64*"),
    # buffer, start, end, rows, capacity, report
    _spec("scan_batches", "walk", "u8* i64 i64 i64* i64 i64*"),
    _described("walk_batches", "walk", WalkCall),
    _described("hash_keys", "siphash", HashCall),
    # table, slots, larger, larger_slots
    _spec("move_offsets", "key_offsets", "u64* i64 u64* i64"),
    # table, slots, larger_slots, stash
    _spec("spread_offsets", "key_offsets", "u64* i64 i64 u64*"),
    _described("rewrite_batches", "rewrite", RewriteCall),
    # buffer, end, rows, capacity, previous_last, end_offset, report
    _spec("check_batches", "checking", "u8* i64 i64* i64 i64 i64 i64*"),
    _described("rebuild_batches", "rebuilding", RebuildCall),
    # rows, capacity, batch_end, newest, first_offset, bits, latest_offset, actions
    _spec("discard_superseded", "newest", "i64* i64 i64 u64* i64 i64 i64 u8*"),
    _described("map_batches", "cleaning", CleaningCall),
    _described("clean_batches", "cleaning", CleaningCall),
    _described("index_batches", "index_entries", IndexCall),
    # length, count, report
    _spec("measure_bytes", "columns", "i32* i64 i64*"),
    _described("gather_bytes", "columns", SmallGatherCall),
    KernelSpec("gather_large_bytes", "columns", "gather_bytes", (LargeGatherCall,)),
    _described("make_views", "columns", ViewsCall),
    _described("span_headers", "columns", HeadersCall),
    _described("find_rolling", "rolling", RollingCall),
    _described("list_candidates", "low_bits", CandidatesCall),
    _described("number_keys", "numbering", NumberCall),
    # table, slots, larger, larger_slots
    _spec("move_keys", "key_facts", "u64* i64 u64* i64"),
    _described("find_keys", "key_facts", FindCall),
    _described("fold_batches", "folding", FoldCall),
)
