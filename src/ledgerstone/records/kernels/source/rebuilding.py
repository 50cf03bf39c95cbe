"""Kernel source: the batches of a segment after an unclean stop, and its index entries. Pure.

The rules are those of storage/segment_rebuild.py, which is the plain twin. The kernel stops before
a batch that somebody has to look at, and goes on when it is called again.
"""

from ledgerstone.records.kernels.descriptors import RebuildCall
from ledgerstone.records.kernels.source.checking import ATTRIBUTES_AT
from ledgerstone.records.kernels.source.crc import crc32c
from ledgerstone.records.kernels.source.walk import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_AT,
    read_signed,
)
from ledgerstone.records.kernels.source.words import has_crc_instruction, i64

# Why it stopped.
NEEDS_BYTES = 0  # before a batch that is not all there, or bytes that are no batch
IS_OVER = 1  # before a batch that is not to be believed
TO_BE_TOLD = 2  # before a batch of a transaction or of a new leader epoch, which was checked
ROWS_ARE_FULL = 3
HAS_NO_CRC = 4  # nothing was done: this processor has no instruction for CRCs

# Fields of `state`.
AT = 0  # in the window
TOLD_AT = 1  # the batch that was checked and told already; -1: none
LAST_AT = 2  # the last batch, if nobody has to be told of it for another reason; else -1
SIZE = 3
FIRST_TIMESTAMP = 4
HIGHEST_TIMESTAMP = 5
OFFSET_OF_HIGHEST = 6
SINCE_ENTRY = 7
LAST_OFFSET = 8
LEADER_EPOCH = 9
OFFSET_ENTRIES = 10  # of the segment
TIME_ENTRIES = 11
LAST_TIME_KEY = 12
NEW_OFFSET_ENTRIES = 13  # of this call
NEW_TIME_ENTRIES = 14
NEW_PRODUCED = 15
STATE_FIELDS = 16

OF_TRANSACTIONS = 0x30
NO_PRODUCER_ID = -1
INT32_MAX = 0x7FFFFFFF


def rebuild_batches(call: RebuildCall) -> int:
    """Takes batches from state[AT] on. Every kind of row has room for `rows` of them."""
    buffer, end, base, state = call.buffer, call.end, call.base_offset, call.state
    state[NEW_OFFSET_ENTRIES] = 0
    state[NEW_TIME_ENTRIES] = 0
    state[NEW_PRODUCED] = 0
    if has_crc_instruction() == 0:
        return HAS_NO_CRC
    status = NEEDS_BYTES
    at = state[AT]
    while end - at >= HEADER_SIZE:
        size = read_signed(buffer, at + 8, 4) + LOG_OVERHEAD
        if size < HEADER_SIZE or size > end - at or i64(buffer[at + MAGIC_AT]) != 2:
            break
        if state[NEW_OFFSET_ENTRIES] >= call.rows or state[NEW_PRODUCED] >= call.rows:
            status = ROWS_ARE_FULL
            break
        base_offset = read_signed(buffer, at, 8)
        # From the segment's base, so that no sum can pass 64 bits.
        relative = base_offset - base if base_offset > state[LAST_OFFSET] else i64(-1)
        last = relative + read_signed(buffer, at + 23, 4)
        epoch = read_signed(buffer, at + 12, 4)
        is_told = at == state[TOLD_AT]
        if not is_told:
            crc = i64(crc32c(buffer, at + ATTRIBUTES_AT, at + size))
            if (
                crc != (read_signed(buffer, at + 17, 4) & 0xFFFFFFFF)
                or relative < 0
                or relative > INT32_MAX
                or last < 0
                or last > INT32_MAX
                or (call.is_gapless != 0 and base_offset != state[LAST_OFFSET] + 1)
            ):
                status = IS_OVER
                break
            attributes = read_signed(buffer, at + ATTRIBUTES_AT, 2)
            if epoch != state[LEADER_EPOCH] or (attributes & OF_TRANSACTIONS) != 0:
                status = TO_BE_TOLD
                break
        state[LEADER_EPOCH] = epoch
        state[LAST_AT] = -1
        if not is_told:
            producer_id = read_signed(buffer, at + 43, 8)
            if producer_id > NO_PRODUCER_ID:
                row = state[NEW_PRODUCED]
                call.producer_ids[row] = producer_id
                call.produced_at[row] = at
                state[NEW_PRODUCED] = row + 1
            else:
                state[LAST_AT] = at
        account(call, base + last, read_signed(buffer, at + 35, 8), size)
        at += size
    state[AT] = at
    return status


def account(call: RebuildCall, last_offset: int, timestamp: int, size: int) -> None:
    """As `Segment.account` in storage/."""
    state, base = call.state, call.base_offset
    if state[SIZE] == 0:
        state[FIRST_TIMESTAMP] = timestamp
    if timestamp > state[HIGHEST_TIMESTAMP]:
        state[HIGHEST_TIMESTAMP] = timestamp
        state[OFFSET_OF_HIGHEST] = last_offset
    if (
        state[SINCE_ENTRY] > call.interval_bytes
        and state[OFFSET_ENTRIES] < call.offset_room
        and state[TIME_ENTRIES] < call.time_room
    ):
        row = state[NEW_OFFSET_ENTRIES]
        call.offset_keys[row] = last_offset - base
        call.offset_positions[row] = state[SIZE]
        state[NEW_OFFSET_ENTRIES] = row + 1
        state[OFFSET_ENTRIES] = state[OFFSET_ENTRIES] + 1
        if state[HIGHEST_TIMESTAMP] > state[LAST_TIME_KEY]:
            row = state[NEW_TIME_ENTRIES]
            call.time_keys[row] = state[HIGHEST_TIMESTAMP]
            call.time_offsets[row] = state[OFFSET_OF_HIGHEST] - base
            state[NEW_TIME_ENTRIES] = row + 1
            state[TIME_ENTRIES] = state[TIME_ENTRIES] + 1
            state[LAST_TIME_KEY] = state[HIGHEST_TIMESTAMP]
        state[SINCE_ENTRY] = 0
    state[SIZE] = state[SIZE] + size
    state[SINCE_ENTRY] = state[SINCE_ENTRY] + size
    state[LAST_OFFSET] = last_offset
