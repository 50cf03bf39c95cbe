"""Splitting a segment whose offsets outgrew its base, as Kafka before 2.1 could write. Grade D.

An index entry holds an offset relative to the base in 31 bits. A segment that reaches further is
copied, batch by batch, into as many segments as it needs; the swap protocol puts them in place.
"""

from contextlib import suppress

from ledgerstone.errors import CorruptRecord, InvariantViolation
from ledgerstone.fs import Filesystem
from ledgerstone.records.batch import BatchHeader
from ledgerstone.storage.batch_scan import (
    WINDOW_BYTES,
    last_offset_in,
    scan_batches,
    scan_headers,
)
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.segment import Segment


def has_overflow(segment: Segment, *, trust_index: bool = True) -> bool:
    """Reads headers from the last index entry on: offsets only rise, so the tail decides.

    If power loss may have garbled the index, all headers are read instead."""
    if segment.size == 0:
        return False
    if not trust_index:
        last = last_offset_in(segment.file, segment.size)
        return last is not None and not segment.fits(last)
    index = segment.offset_index
    position = index.lookup(index.last_offset).position
    last_offset = segment.base_offset
    try:
        for _, header in scan_headers(segment.file, position, segment.size):
            last_offset = header.last_offset
    except CorruptRecord:
        # Recovery handles a damaged tail; the batches before it decide here.
        pass
    return not segment.fits(last_offset)


def split_overflowed(fs: Filesystem, segment: Segment) -> list[Segment]:
    """Copies the batches into `.cleaned` segments that fit; the caller swaps them in.

    What is no whole batch goes with the last of them, for recovery to judge."""
    parts: list[Segment] = []
    end = 0
    with suppress(CorruptRecord):
        for at, header, batch in scan_batches(segment.file, 0, segment.size):
            if not parts or not parts[-1].fits(header.last_offset):
                parts.append(_new_part(fs, segment, header))
            parts[-1].append(batch, (header,))
            end = at + header.size
    for at in range(end, segment.size, WINDOW_BYTES):
        piece = segment.file.pread(min(WINDOW_BYTES, segment.size - at), at)
        parts[-1].file.pwrite(piece, parts[-1].size)
        parts[-1].size += len(piece)
    copied = sum(part.size for part in parts)
    if copied != segment.size:
        raise InvariantViolation(
            f"split of segment {segment.base_offset} copied {copied} of {segment.size} bytes"
        )
    for entry in segment.txn_index.entries():
        # A transaction is indexed where its marker lies.
        holder = [part for part in parts if part.base_offset <= entry.last_offset][-1]
        holder.add_aborted_txn(entry)
    for part in parts:
        part.seal()
    return parts


def _new_part(fs: Filesystem, segment: Segment, header: BatchHeader) -> Segment:
    part = Segment(
        fs,
        segment.directory,
        header.base_offset,
        segment.config,
        created_ms=segment.created_ms,
        suffix=CLEANED,
    )
    part.create()
    return part
