"""Kernel source: which batches of a segment get index entries, and the entries. Pure.

The rule is in storage/README.md. An entry of the offset index is eight bytes, of the time index
twelve, both big-endian.
"""

from ledgerstone.records.kernels.descriptors import IndexCall
from ledgerstone.records.kernels.source.rewrite import write_signed

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12

# Fields of `state`.
POSITION = 0
INDEXED_POSITION = 1
NEWEST_TIMESTAMP = 2
NEWEST_OFFSET = 3
TIME_INDEXED = 4
IS_FULL = 5
OFFSET_ROOM = 6
TIME_ROOM = 7
OFFSET_ENTRIES = 8  # of this call
TIME_ENTRIES = 9
STATE_FIELDS = 10


def index_batches(call: IndexCall) -> int:
    """Entries for batches that lie one after the other; one of no bytes is none.

    Each kind of entry has room for one a batch. An index without room ends both, for good."""
    size, last_offset, max_timestamp = call.size, call.last_offset, call.max_timestamp
    base_offset, interval_bytes, state = call.base_offset, call.interval_bytes, call.state
    offset_entries, time_entries = call.offset_entries, call.time_entries
    state[OFFSET_ENTRIES] = 0
    state[TIME_ENTRIES] = 0
    for batch in range(call.count):
        if size[batch] <= 0:
            continue
        if max_timestamp[batch] > state[NEWEST_TIMESTAMP]:
            state[NEWEST_TIMESTAMP] = max_timestamp[batch]
            state[NEWEST_OFFSET] = last_offset[batch]
        position = state[POSITION]
        state[POSITION] = position + size[batch]
        if position - state[INDEXED_POSITION] <= interval_bytes:
            continue
        if state[OFFSET_ROOM] <= 0 or state[TIME_ROOM] <= 0:
            state[IS_FULL] = 1
        if state[IS_FULL] != 0:
            continue
        state[INDEXED_POSITION] = position
        at = state[OFFSET_ENTRIES] * OFFSET_ENTRY_BYTES
        write_signed(offset_entries, at, last_offset[batch] - base_offset, 4)
        write_signed(offset_entries, at + 4, position, 4)
        state[OFFSET_ENTRIES] = state[OFFSET_ENTRIES] + 1
        state[OFFSET_ROOM] = state[OFFSET_ROOM] - 1
        if state[NEWEST_TIMESTAMP] > state[TIME_INDEXED]:
            at = state[TIME_ENTRIES] * TIME_ENTRY_BYTES
            write_signed(time_entries, at, state[NEWEST_TIMESTAMP], 8)
            write_signed(time_entries, at + 8, state[NEWEST_OFFSET] - base_offset, 4)
            state[TIME_ENTRIES] = state[TIME_ENTRIES] + 1
            state[TIME_ROOM] = state[TIME_ROOM] - 1
            state[TIME_INDEXED] = state[NEWEST_TIMESTAMP]
    return 0
