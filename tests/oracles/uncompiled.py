"""Kernel sources run as plain Python over exact-size checked pointers. Oracles for tests.

Each function prepares the arguments as the glue does, so that an access out of bounds is the
kernel's own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.records.kernels.source import columns as columns_source
from ledgerstone.records.kernels.source import record as record_source
from ledgerstone.records.kernels.source import rewrite as rewrite_source
from ledgerstone.records.kernels.source import walk as walk_source
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s

_NO_MINIMUM = -(2**63)


class Walked(NamedTuple):
    status: int
    rows: CheckedPointer
    batch_count: int
    wide: CheckedPointer
    narrow: CheckedPointer
    room: int
    written: int
    report: tuple[int, ...]


def inspect_uncompiled(payload: bytes, record_count: int) -> tuple[int, ...]:
    facts = int64s([0] * 10)
    status = record_source.inspect_records(
        CheckedPointer(payload), len(payload), record_count, facts
    )
    return (status, *facts.numbers)


def scan_uncompiled(buffer: bytes) -> tuple[int, CheckedPointer, int]:
    """(status, rows, number of batches)."""
    report = int64s([0] * 3)
    pointer = CheckedPointer(buffer)
    walk_source.scan_batches(pointer, 0, len(buffer), int64s([]), 0, report)
    count = report.numbers[0]
    rows = int64s([0] * (walk_source.ROW_FIELDS * count))
    status = walk_source.scan_batches(pointer, 0, len(buffer), rows, count, report)
    return status, rows, count


def walk_uncompiled(buffer: bytes, *, room: int | None = None) -> Walked | None:
    """None where the glue would refuse the window before it calls the kernel."""
    status, rows, count = scan_uncompiled(buffer)
    if status != 0:
        return None
    numbers = rows.numbers
    declared = 0
    for batch in range(count):
        records = numbers[walk_source.RECORD_COUNT * count + batch]
        size = numbers[walk_source.SIZE * count + batch] - walk_source.HEADER_SIZE
        if records * 7 > size or numbers[walk_source.ATTRIBUTES * count + batch] & 7:
            return None
        declared += records
    places = declared if room is None else room
    wide, narrow = int64s([0] * (5 * places)), int32s([0] * (5 * places))
    report = int64s([0] * 4)
    status = walk_source.walk_batches(
        CheckedPointer(buffer),
        len(buffer),
        CheckedPointer(b""),
        rows,
        count,
        count,
        _NO_MINIMUM,
        wide,
        narrow,
        places,
        report,
    )
    found = report.numbers
    return Walked(status, rows, count, wide, narrow, places, found[0], tuple(found))


def rewrite_uncompiled(
    buffer: bytes,
    walked: Walked,
    keep: Sequence[int],
    actions: Sequence[int],
    horizon: int,
    *,
    record_end: Sequence[int] | None = None,
    room: int | None = None,
) -> tuple[int, bytes]:
    """(status, bytes written, without CRCs)."""
    places, count = walked.room, walked.batch_count
    wide, narrow = walked.wide.numbers, walked.narrow.numbers
    if record_end is None:
        record_end = [
            start + length
            for start, length in zip(wide[4 * places :], narrow[2 * places :], strict=False)
        ]
    bound = len(buffer) + 10 * places if room is None else room
    out = CheckedPointer(bytes(bound))
    report = int64s([0, 0])
    status = rewrite_source.rewrite_batches(
        CheckedPointer(buffer),
        len(buffer),
        CheckedPointer(b""),
        walked.rows,
        count,
        count,
        int64s(wide[places : 2 * places]),
        int64s(record_end[:places]),
        int32s(narrow[places : 2 * places]),
        CheckedPointer(keep),
        CheckedPointer(actions),
        horizon,
        out,
        bound,
        int64s([0] * (rewrite_source.OUTCOME_FIELDS * count)),
        report,
    )
    return status, bytes(out.numbers[: report.numbers[0]])


def gather_uncompiled(
    buffer: bytes, arena: bytes, start: Sequence[int], length: Sequence[int], *, room: int
) -> tuple[int, bytes, list[int], bytes]:
    """(status, data, offsets, validity)."""
    count = len(start)
    offsets, data = int32s([0] * (count + 1)), CheckedPointer(bytes(room))
    validity = CheckedPointer(bytes((count + 7) // 8))
    status = columns_source.gather_bytes(
        CheckedPointer(buffer),
        len(buffer),
        CheckedPointer(arena),
        len(buffer) + len(arena),
        int64s(start),
        int32s(length),
        count,
        offsets,
        validity,
        data,
        room,
        int64s([0]),
    )
    return status, bytes(data.numbers), offsets.numbers, bytes(validity.numbers)


def views_uncompiled(
    buffer: bytes, arena: bytes, start: Sequence[int], length: Sequence[int]
) -> int:
    count = len(start)
    return columns_source.make_views(
        CheckedPointer(buffer),
        len(buffer),
        CheckedPointer(arena),
        len(buffer) + len(arena),
        int64s(start),
        int32s(length),
        count,
        CheckedPointer(bytes(16 * count)),
        CheckedPointer(bytes((count + 7) // 8)),
        int64s([0]),
    )


def span_headers_uncompiled(
    buffer: bytes,
    start: Sequence[int],
    length: Sequence[int],
    header_count: Sequence[int],
    *,
    room: int,
) -> int:
    count = len(start)
    return columns_source.span_headers(
        CheckedPointer(buffer),
        len(buffer),
        CheckedPointer(b""),
        len(buffer),
        int64s(start),
        int32s(length),
        int32s(header_count),
        count,
        int32s([0] * (count + 1)),
        int64s([0] * room),
        int32s([0] * room),
        int64s([0] * room),
        int32s([0] * room),
        room,
        int64s([0]),
    )
