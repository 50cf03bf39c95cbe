"""The exported kernels: symbol, source function, argument types; every one returns an int64. Pure.

The build turns the types into numba's, the loader into ctypes'; both read this one table.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

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
# The columns of a cleaning: offset, timestamp, record_end, key_start, key_length, value_length,
# batch_index, low, high; and lanes.
_CLEANED: Final = "i64* i64* i64* i64* i32* i32* i32* u64* u64* u64* "
# Bits for offsets: where they lie, the first one's offset, how many.
_NEWEST: Final = "u64* i64 i64 "

KERNELS: Final = (
    # payload, end, record_count, facts
    _spec("inspect_records", "record", "u8* i64 i64 i64*"),
    # buffer, start, end, rows, capacity, report
    _spec("scan_batches", "walk", "u8* i64 i64 i64* i64 i64*"),
    # window, rows, capacity, batch_count, min_offset, wide, narrow, room, report
    _spec("walk_batches", "walk", _WINDOW + "i64* i64 i64 i64 i64* i32* i64 i64*"),
    # window, end, key_start, key_length, count, k0, k1, low, high, lanes, report
    _spec("hash_keys", "siphash", _GATHER + "u64 u64 u64* u64* u64* i64*"),
    # table, slots, larger, larger_slots
    _spec("move_offsets", "key_offsets", "u64* i64 u64* i64"),
    # table, slots, larger_slots, stash
    _spec("spread_offsets", "key_offsets", "u64* i64 i64 u64*"),
    # window, rows, capacity, batch_count, timestamp, record_end, value_length, keep, actions,
    # horizon, out, room, outcomes, report
    _spec(
        "rewrite_batches",
        "rewrite",
        _WINDOW + "i64* i64 i64 i64* i64* i32* u8* u8* i64 u8* i64 i64* i64*",
    ),
    # buffer, end, rows, capacity, previous_last, end_offset, report
    _spec("check_batches", "checking", "u8* i64 i64* i64 i64 i64 i64*"),
    # rows, capacity, batch_end, newest, latest_offset, actions
    _spec("discard_superseded", "newest", "i64* i64 i64 " + _NEWEST + "i64 u8*"),
    # window, rows, capacity, batch_end, actions, min_offset, k0, k1, table, slots, limit, newest,
    # columns, room, state, report
    _spec(
        "map_batches",
        "cleaning",
        _WINDOW
        + "i64* i64 i64 u8* i64 u64 u64 u64* i64 i64 "
        + _NEWEST
        + _CLEANED
        + "i64 i64* i64*",
    ),
    # window, rows, capacity, batch_start, batch_end, actions, k0, k1, table, slots, newest, rules,
    # horizon, columns, keep, room, out, out_room, outcomes, counts, report
    _spec(
        "clean_batches",
        "cleaning",
        _WINDOW
        + "i64* i64 i64 i64 u8* u64 u64 u64* i64 "
        + _NEWEST
        + "i64* i64 "
        + _CLEANED
        + "u8* i64 u8* i64 i64* i64* i64*",
    ),
    # size, last_offset, max_timestamp, count, base_offset, interval_bytes, state, offset_entries,
    # time_entries
    _spec("index_batches", "index_entries", "i64* i64* i64* i64 i64 i64 i64* u8* u8*"),
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
    # buffer, start, end, length, base, k0, k1, known, filter_bits, fingerprints, low, high, count,
    # leaving, free_from, positions, which, room, report
    _spec(
        "find_rolling",
        "rolling",
        "u8* i64 i64 i64 u64 u64 u64 u8* i64 u64* u64* u64* i64 u64* i64* i64* i32* i64 i64*",
    ),
    # buffer, start, end, length, powers, doubled, spare, sums, block, scratch, wanted,
    # wanted_count, positions, room, report
    _spec(
        "list_candidates",
        "low_bits",
        "u8* i64 i64 i64 i16* i16* i16* i16* i64 i64 i16* i64 i64* i64 i64*",
    ),
    # table, slots, limit, low, high, key_length, start, count, number, state
    _spec("number_keys", "numbering", "u64* i64 i64 u64* u64* i32* i64 i64 i64* i64*"),
    # table, slots, larger, larger_slots
    _spec("move_keys", "key_facts", "u64* i64 u64* i64"),
    # table, slots, facts, size, stride, low, high, count, found
    _spec("find_keys", "key_facts", "u64* i64 u64* i64 i64 u64* u64* i64 i64*"),
    # window, end, rows, capacity, batch_end, skip, checks_crc, start_offset, end_offset, k0, k1,
    # c0, c1, table, slots, facts, limit, stride, columns, lanes, room, state, report
    _spec(
        "fold_batches",
        "folding",
        _WINDOW
        + "i64 i64* i64 i64 u8* i64 i64 i64 u64 u64 u64 u64 u64* i64 u64* i64 i64 "
        + "i64* i64* i64* i64* i32* i32* u64* u64* u64* i64 i64* i64*",
    ),
)
