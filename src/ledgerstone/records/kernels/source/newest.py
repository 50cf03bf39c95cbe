"""Kernel source: which records are the newest of their keys, a bit for each offset. Pure.

Filled along with the table of keys: a record that goes in marks its offset, and unmarks the one it
takes the key from. If all went in by rising offsets, then a record is superseded where its bit is
not set, and the second half of a cleaning needs neither the key's hash nor the table. A log where
they do not rise is none of ours; whoever fills the bits is told, and does without them.
"""

from ledgerstone.records.kernels.source.key_offsets import CONTROL_FLAG
from ledgerstone.records.kernels.source.rewrite import DISCARD
from ledgerstone.records.kernels.source.walk import (
    ATTRIBUTES,
    BASE_OFFSET,
    LAST_OFFSET,
    RECORD_COUNT,
)
from ledgerstone.records.kernels.source.words import Pointer, i64, u64

ALL_BITS = 0xFFFFFFFFFFFFFFFF
TRANSACTIONAL_FLAG = 0x10


def bit_of(at: int) -> int:
    return u64(u64(1) << u64(at & 63))


def is_newest(newest: Pointer, bits: int, at: int) -> int:
    """What lies outside is said to be: nothing goes that the bits do not speak of."""
    if at < 0 or at >= bits:
        return 1
    return 1 if u64(newest[at >> 6] & bit_of(at)) != u64(0) else 0


def note_newest(
    newest: Pointer,
    first_offset: int,
    bits: int,
    offset: int,
    replaced: int,
    previous: int,
    rows: Pointer,
    capacity: int,
    batch: int,
) -> int:
    """Marks a record that is in the table and unmarks the one it `replaced`, -1: none. 0 if bits
    cannot tell any more: it does not come after the `previous` one, or it is not in its batch."""
    at = offset - first_offset
    if offset <= previous or at < 0 or at >= bits:
        return 0
    base_offset = rows[BASE_OFFSET * capacity + batch]
    if offset < base_offset or offset > rows[LAST_OFFSET * capacity + batch]:
        return 0
    newest[at >> 6] = u64(newest[at >> 6] | bit_of(at))
    before = replaced - first_offset
    if before >= 0 and before < bits:
        newest[before >> 6] = u64(newest[before >> 6] & u64(~bit_of(before)))
    return 1


def discard_superseded(
    rows: Pointer,
    capacity: int,
    batch_end: int,
    newest: Pointer,
    first_offset: int,
    bits: int,
    latest_offset: int,
    actions: Pointer,
) -> int:
    """DISCARDs the batches up to `latest_offset` none of whose records is the newest of its key;
    answers how many records they have. Nobody has to parse these, or to decompress them. Markers
    and what is in transactions are not theirs to decide."""
    records = 0
    for batch in range(batch_end):
        if rows[ATTRIBUTES * capacity + batch] & (CONTROL_FLAG | TRANSACTIONAL_FLAG) != 0:
            continue
        last_offset = rows[LAST_OFFSET * capacity + batch]
        start = rows[BASE_OFFSET * capacity + batch] - first_offset
        stop = last_offset - first_offset + 1
        if start < 0 or start >= stop or stop > bits or last_offset > latest_offset:
            continue
        if has_newest(newest, start, stop) == 0:
            actions[batch] = i64(actions[batch]) | DISCARD
            records += rows[RECORD_COUNT * capacity + batch]
    return records


def has_newest(newest: Pointer, start: int, stop: int) -> int:
    """Whether a bit of [start, stop) is set; there is at least one, and the caller checked them."""
    first_word = start >> 6
    last_word = (stop - 1) >> 6
    for word in range(first_word, last_word + 1):
        found = newest[word]
        if word == first_word:
            found = u64(found & u64(u64(ALL_BITS) << u64(start & 63)))
        if word == last_word:
            found = u64(found & u64(u64(ALL_BITS) >> u64(63 - ((stop - 1) & 63))))
        if found != u64(0):
            return 1
    return 0
