"""Times of a batch's records: the first record from a time on, the largest time from an offset on.

Grade P. Records without keys or values are cheap: a batch of a megabyte may have millions of them,
and a step of Python for each would keep everybody waiting. Many records are inspected a piece at a
time by the kernel, and only a piece that holds what is looked for is walked.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ledgerstone.records.batch import LOG_APPEND_TIME_FLAG, BatchHeader
from ledgerstone.records.kernels import inspect_records
from ledgerstone.records.record import (
    MalformedRecord,
    RecordFault,
    RecordLayout,
    iter_spans,
    timestamp_of,
)
from ledgerstone.types import INT64_MAX, NO_TIMESTAMP, Buffer

# Walked in a few milliseconds.
PIECE_RECORDS: Final = 2048


class RecordTime(NamedTuple):
    timestamp: int
    offset: int


class _Piece(NamedTuple):
    """Records that follow each other. Without facts, nothing is known of them."""

    spans: Iterator[RecordLayout]
    last_offset: int
    # The largest timestamp; None where it is not known.
    highest: int | None


def first_from(
    header: BatchHeader, payload: Buffer, *, timestamp: int, start_offset: int
) -> RecordTime | None:
    """The first record at or after `start_offset` whose timestamp is at least `timestamp`."""
    for piece in _pieces(header, payload):
        is_early = piece.highest is not None and piece.highest < timestamp
        if is_early or piece.last_offset < start_offset:
            continue
        for span in piece.spans:
            offset, at = header.base_offset + span.offset_delta, timestamp_of(header, span)
            if at >= timestamp and offset >= start_offset:
                return RecordTime(at, offset)
    return None


def highest_from(header: BatchHeader, payload: Buffer, start_offset: int) -> int:
    """The largest timestamp of the records at or after `start_offset`; -1 without any."""
    highest = NO_TIMESTAMP
    is_inside = False
    for piece in _pieces(header, payload):
        if piece.last_offset < start_offset:
            continue
        if is_inside and piece.highest is not None:
            highest = max(highest, piece.highest)
            continue
        is_inside = True
        for span in piece.spans:
            if header.base_offset + span.offset_delta >= start_offset:
                highest = max(highest, timestamp_of(header, span))
    return highest


def _pieces(header: BatchHeader, payload: Buffer) -> Iterator[_Piece]:
    """Offsets rise from one to the next, as in every batch of a log."""
    left, rest = header.record_count, memoryview(payload)
    while left > PIECE_RECORDS:
        # Where the piece ends is where the kernel finds bytes behind the last record.
        found = inspect_records(rest, record_count=PIECE_RECORDS)
        if found.status == RecordFault.TRAILING_BYTES:
            end = found.fault_position
        elif found.status == RecordFault.NONE:
            end = len(rest)
        else:
            index = header.record_count - left + found.fault_index
            raise MalformedRecord(RecordFault(found.status), index, found.fault_position)
        piece, rest = rest[:end], rest[end:]
        facts = inspect_records(piece, record_count=PIECE_RECORDS)
        yield _Piece(
            iter_spans(piece, record_count=PIECE_RECORDS),
            header.base_offset + facts.last_offset_delta,
            _highest(header, facts.min_timestamp_delta, facts.max_timestamp_delta),
        )
        left -= PIECE_RECORDS
    yield _Piece(iter_spans(rest, record_count=left), header.last_offset, None)


def _highest(header: BatchHeader, min_delta: int, max_delta: int) -> int | None:
    if header.attributes & LOG_APPEND_TIME_FLAG:
        return header.max_timestamp
    # Sums beyond 64 bits wrap, each by itself.
    lowest, highest = header.base_timestamp + min_delta, header.base_timestamp + max_delta
    return highest if lowest >= -INT64_MAX and highest <= INT64_MAX else None
