"""The exported kernels: symbol, source function, argument types; every one returns an int64. Pure.

The build turns the types into numba's, the loader into ctypes'; both read this one table.
"""

from typing import Final, NamedTuple

SYMBOL_PREFIX: Final = "ledgerstone_"
SOURCE_PACKAGE: Final = "ledgerstone.records.kernels.source"

# What an entry point answers if numba's code ever reports an exception: no kernel means it.
KERNEL_RAISED: Final = -(2**63)

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
    "columns",
)


class KernelSpec(NamedTuple):
    """One exported symbol. Two symbols may share a source function with other argument types."""

    symbol: str
    module: str
    function: str
    arguments: tuple[str, ...]


def _spec(symbol: str, module: str, arguments: str, *, function: str | None = None) -> KernelSpec:
    return KernelSpec(symbol, module, function or symbol, tuple(arguments.split()))


# A window: buffer, split, arena.
_WINDOW: Final = "u8* i64 u8* "
_GATHER: Final = _WINDOW + "i64 i64* i32* i64 "

KERNELS: Final = (
    # payload, end, record_count, facts
    _spec("inspect_records", "record", "u8* i64 i64 i64*"),
    # buffer, start, end, rows, capacity, report
    _spec("scan_batches", "walk", "u8* i64 i64 i64* i64 i64*"),
    # window, rows, capacity, batch_count, min_offset, wide, narrow, room, report
    _spec("walk_batches", "walk", _WINDOW + "i64* i64 i64 i64 i64* i32* i64 i64*"),
    # window, end, key_start, key_length, count, k0, k1, low, high, report
    _spec("hash_keys", "siphash", _GATHER + "u64 u64 u64* u64* i64*"),
    # table, slots, limit, low, high, key_length, offset, count, state
    _spec("put_offsets", "key_offsets", "u64* i64 i64 u64* u64* i32* i64* i64 i64*"),
    # table, slots, larger, larger_slots
    _spec("move_offsets", "key_offsets", "u64* i64 u64* i64"),
    # table, slots, low, high, count, found
    _spec("find_offsets", "key_offsets", "u64* i64 u64* u64* i64 i64*"),
    # table, slots, low, high, key_length, value_length, offset, batch_index, count, horizon,
    # is_control, batch_count, rules, keep, report
    _spec(
        "judge_records",
        "key_offsets",
        "u64* i64 u64* u64* i32* i32* i64* i32* i64 i64* u8* i64 i64* u8* i64*",
    ),
    # window, rows, capacity, batch_count, timestamp, record_end, value_length, keep, actions,
    # horizon, out, room, outcomes, report
    _spec(
        "rewrite_batches",
        "rewrite",
        _WINDOW + "i64* i64 i64 i64* i64* i32* u8* u8* i64 u8* i64 i64* i64*",
    ),
    # length, count, report
    _spec("measure_bytes", "columns", "i32* i64 i64*"),
    # window, end, start, length, count, offsets, validity, data, room, report
    _spec("gather_bytes", "columns", _GATHER + "i32* u8* u8* i64 i64*"),
    _spec(
        "gather_large_bytes",
        "columns",
        _GATHER + "i64* u8* u8* i64 i64*",
        function="gather_bytes",
    ),
    # window, end, start, length, count, views, validity, report
    _spec("make_views", "columns", _GATHER + "u8* u8* i64*"),
    # window, end, headers_start, headers_length, header_count, count, lists, key_start,
    # key_length, value_start, value_length, room, report
    _spec(
        "span_headers",
        "columns",
        _WINDOW + "i64 i64* i32* i32* i64 i32* i64* i32* i64* i32* i64 i64*",
    ),
)
