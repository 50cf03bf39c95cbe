"""Reading a log: by offset, by time, and which transactions of a range were aborted. Grade D.

Nothing is decoded on the way out: a read returns a `FileSlice` of whole batches, bounded by what
the reader may see.
"""

import enum
from typing import NamedTuple, assert_never

from ledgerstone.errors import CorruptFile, CorruptRecord, OffsetOutOfRange
from ledgerstone.fs import FileSlice
from ledgerstone.records.record_times import highest_from
from ledgerstone.storage.batch_scan import scan_headers
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_mend import mend, mending
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.time_index import TimestampOffset
from ledgerstone.types import NO_TIMESTAMP, AbortedTxn


class FetchIsolation(enum.Enum):
    """How far a reader may see."""

    LOG_END = "a follower: everything"
    HIGH_WATERMARK = "read_uncommitted: what is replicated"
    TXN_COMMITTED = "read_committed: what is decided"


class ReadResult(NamedTuple):
    """`slice` is None if nothing is visible yet at the offset."""

    slice: FileSlice | None
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[AbortedTxn, ...] = ()


def read(
    log: PartitionLog,
    offset: int,
    *,
    max_bytes: int,
    isolation: FetchIsolation = FetchIsolation.LOG_END,
    min_one_batch: bool = True,
) -> ReadResult:
    """Whole batches from the one that holds `offset`, or the next one if it was removed.

    With `min_one_batch` the first batch is returned even if it is larger than `max_bytes`, so that
    a reader always makes progress."""
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(
            f"offset {offset} of {log.topic_partition} is outside "
            f"[{log.log_start_offset}, {log.log_end_offset}]"
        )
    limit = visible_end(log, isolation)
    try:
        found = _find_slice(log, offset, limit, max_bytes, min_one_batch)
    except CorruptFile as error:
        mend(log, error)
        found = mending(log, lambda: _find_slice(log, offset, limit, max_bytes, min_one_batch))
    aborted: tuple[AbortedTxn, ...] = ()
    if found is not None and isolation is FetchIsolation.TXN_COMMITTED:
        segment, piece = found
        aborted = collect_aborted(log, offset, _upper_bound(log, segment, piece))
    return ReadResult(
        slice=None if found is None else found[1],
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        aborted=aborted,
    )


def visible_end(log: PartitionLog, isolation: FetchIsolation) -> int:
    match isolation:
        case FetchIsolation.LOG_END:
            return log.log_end_offset
        case FetchIsolation.HIGH_WATERMARK:
            return log.high_watermark
        case FetchIsolation.TXN_COMMITTED:
            return log.last_stable_offset
        case _:
            assert_never(isolation)


def _find_slice(
    log: PartitionLog, offset: int, limit: int, max_bytes: int, min_one_batch: bool
) -> tuple[Segment, FileSlice] | None:
    if offset >= limit:
        # The common case: a consumer waiting at the log's end.
        return None
    segment = log.segments.floor(offset) or log.segments.first
    while segment.base_offset < limit:
        end_position = _end_position(log, segment, limit)
        piece = segment.read(
            offset, max_bytes=max_bytes, end_position=end_position, min_one_batch=min_one_batch
        )
        if piece is not None:
            if piece.position + piece.size == end_position:
                # The reader saw everything; it will ask for this offset next.
                segment.bookmark(limit, end_position)
            return segment, piece
        # The rest of this segment was compacted away; the next one may have more.
        following = log.segments.after(segment.base_offset)
        if following is None:
            return None
        segment = following
    return None


def _end_position(log: PartitionLog, segment: Segment, limit: int) -> int:
    """Where in the segment the first batch at or past `limit` begins."""
    following = log.segments.after(segment.base_offset)
    if following is None and log.failure is not None:
        return _end_of_failed(segment, limit)
    beyond = limit >= log.log_end_offset if following is None else limit >= following.base_offset
    if beyond:
        return segment.size
    found = segment.find(limit)
    return segment.size if found is None else found.position


def _end_of_failed(segment: Segment, limit: int) -> int:
    """A failed append may have left bytes behind the log's end, which are nobody's records. Where a
    damaged part lies there, reading finds its edge by itself."""
    try:
        found = segment.find(limit)
    except CorruptRecord:
        return segment.size
    return segment.size if found is None else found.position


def _upper_bound(log: PartitionLog, segment: Segment, piece: FileSlice) -> int:
    """An offset that bounds the slice from above, cheap rather than tight."""
    entry = segment.offset_index.upper_bound_position(piece.position, piece.size)
    if entry is not None:
        return entry[0]
    following = log.segments.after(segment.base_offset)
    return log.log_end_offset if following is None else following.base_offset


def collect_aborted(
    log: PartitionLog, start_offset: int, end_offset: int
) -> tuple[AbortedTxn, ...]:
    """Aborted transactions with records in [start_offset, end_offset).

    A transaction is indexed in the segment of its marker, which may lie beyond the range."""
    aborted: list[AbortedTxn] = []
    for segment in log.segments.holding_from(start_offset):
        entries, complete = segment.txn_index.collect(start_offset, end_offset)
        aborted.extend(AbortedTxn(entry.producer_id, entry.first_offset) for entry in entries)
        if complete:
            break
    return tuple(aborted)


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """The first record, at or after the log start, whose timestamp is at least `timestamp`."""
    return mending(log, lambda: _offset_for_timestamp(log, timestamp))


def _offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    for segment in log.segments:
        if segment.size == 0 or segment.largest_timestamp < timestamp:
            continue
        found = segment.find_by_timestamp(timestamp, log.log_start_offset)
        if found is not None:
            return found
    return None


def offset_of_max_timestamp(log: PartitionLog) -> TimestampOffset | None:
    """The first record, at or after the log start, that carries the largest timestamp there."""
    return mending(log, lambda: _offset_of_max_timestamp(log))


def _offset_of_max_timestamp(log: PartitionLog) -> TimestampOffset | None:
    start_offset = log.log_start_offset
    best: TimestampOffset | None = None
    # Newest segment first, as it is usually there; the first offset wins a tie.
    for segment in reversed(log.segments.holding_from(start_offset)):
        if segment.size == 0 or (best and segment.max_timestamp.timestamp < best.timestamp):
            continue
        found = segment.find_by_timestamp(segment.max_timestamp.timestamp, start_offset)
        if found is None and segment.base_offset < start_offset:
            highest = _highest_timestamp_from(segment, start_offset)
            found = segment.find_by_timestamp(highest, start_offset)
        if found is not None and (best is None or found.timestamp >= best.timestamp):
            best = found
    return best


def _highest_timestamp_from(segment: Segment, start_offset: int) -> int:
    """Where a segment's largest timestamp lies before `start_offset`. Only of the batch in which
    that offset lies some records do not count: of the others the headers say all."""
    highest = NO_TIMESTAMP
    found = segment.find(start_offset)
    for at, header in scan_headers(segment.file, found.position, segment.size) if found else ():
        if header.base_offset >= start_offset:
            highest = max(highest, header.max_timestamp)
        elif header.max_timestamp > highest:
            payload = segment.payload_at(at, header)
            highest = max(highest, highest_from(header, payload, start_offset))
    return highest
