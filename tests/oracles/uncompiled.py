"""Kernel sources run as plain Python over exact-size checked pointers. Oracles for tests.

Each function prepares the arguments as the glue does, so that an access out of bounds is the
kernel's own.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.records.kernels.descriptors import (
    CandidatesCall,
    HeadersCall,
    RewriteCall,
    RollingCall,
    SmallGatherCall,
    ViewsCall,
    WalkCall,
)
from ledgerstone.records.kernels.source import columns as columns_source
from ledgerstone.records.kernels.source import low_bits as low_bits_source
from ledgerstone.records.kernels.source import record as record_source
from ledgerstone.records.kernels.source import rewrite as rewrite_source
from ledgerstone.records.kernels.source import rolling as rolling_source
from ledgerstone.records.kernels.source import walk as walk_source
from ledgerstone.records.kernels.source.words import i16
from tests.oracles.checked_pointer import CheckedPointer, int16s, int32s, int64s, uint64s
from tests.oracles.plain_rolling import fingerprint
from tests.oracles.plain_siphash import siphash128

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
    facts = int64s([0] * 15)
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
        WalkCall(
            buffer=CheckedPointer(buffer),
            split=len(buffer),
            arena=CheckedPointer(b""),
            rows=rows,
            capacity=count,
            batch_end=count,
            min_offset=_NO_MINIMUM,
            wide=wide,
            narrow=narrow,
            room=places,
            report=report,
        )
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
        RewriteCall(
            buffer=CheckedPointer(buffer),
            split=len(buffer),
            arena=CheckedPointer(b""),
            rows=walked.rows,
            capacity=count,
            batch_end=count,
            timestamp=int64s(wide[places : 2 * places]),
            record_end=int64s(record_end[:places]),
            value_length=int32s(narrow[places : 2 * places]),
            keep=CheckedPointer(keep),
            actions=CheckedPointer(actions),
            horizon=horizon,
            out=out,
            out_room=bound,
            outcomes=int64s([0] * (rewrite_source.OUTCOME_FIELDS * count)),
            report=report,
        )
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
        SmallGatherCall(
            buffer=CheckedPointer(buffer),
            split=len(buffer),
            arena=CheckedPointer(arena),
            end=len(buffer) + len(arena),
            start=int64s(start),
            length=int32s(length),
            count=count,
            offsets=offsets,
            validity=validity,
            data=data,
            room=room,
            report=int64s([0]),
        )
    )
    return status, bytes(data.numbers), offsets.numbers, bytes(validity.numbers)


def views_uncompiled(
    buffer: bytes, arena: bytes, start: Sequence[int], length: Sequence[int]
) -> int:
    count = len(start)
    return columns_source.make_views(
        ViewsCall(
            buffer=CheckedPointer(buffer),
            split=len(buffer),
            arena=CheckedPointer(arena),
            end=len(buffer) + len(arena),
            start=int64s(start),
            length=int32s(length),
            count=count,
            views=CheckedPointer(bytes(16 * count)),
            validity=CheckedPointer(bytes((count + 7) // 8)),
            report=int64s([0]),
        )
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
        HeadersCall(
            buffer=CheckedPointer(buffer),
            split=len(buffer),
            arena=CheckedPointer(b""),
            end=len(buffer),
            start=int64s(start),
            length=int32s(length),
            header_count=int32s(header_count),
            count=count,
            lists=int32s([0] * (count + 1)),
            key_start=int64s([0] * room),
            key_length=int32s([0] * room),
            value_start=int64s([0] * room),
            value_length=int32s([0] * room),
            room=room,
            report=int64s([0]),
        )
    )


def candidates_uncompiled(
    buffer: bytes,
    wanted: Sequence[int],
    *,
    length: int,
    base: int,
    start: int = 0,
    end: int | None = None,
    block: int = 5,
    scratch: int | None = None,
    room: int = 1000,
) -> tuple[int, list[int]]:
    """(status, positions); `wanted` are the low 16 bits, signed."""
    places = max(block + length, 0) if scratch is None else scratch
    positions, report = int64s([0] * room), int64s([0])
    status = low_bits_source.list_candidates(
        CandidatesCall(
            buffer=CheckedPointer(buffer),
            start=start,
            end=len(buffer) if end is None else end,
            length=length,
            powers=int16s(i16(pow(base, 1 << level, 1 << 16)) for level in range(32)),
            doubled=int16s([0] * places),
            spare=int16s([0] * places),
            sums=int16s([0] * places),
            block=block,
            scratch=places,
            wanted=int16s(wanted),
            wanted_count=len(wanted),
            positions=positions,
            room=room,
            report=report,
        )
    )
    return status, positions.numbers[: report.numbers[0]]


def find_rolling_uncompiled(
    buffer: bytes,
    strings: Sequence[bytes],
    *,
    length: int,
    start: int = 0,
    end: int | None = None,
    base: int,
    seed: bytes,
    room: int | None = None,
) -> tuple[int, list[tuple[int, int]]]:
    """(status, (position, index of the string)); the strings are known by their prints only."""
    stop = len(buffer) if end is None else end
    order = sorted(range(len(strings)), key=lambda index: fingerprint(strings[index], base))
    prints = [fingerprint(strings[index], base) for index in order]
    words = [siphash128(strings[index], seed) for index in order]
    bits = 4
    known = CheckedPointer(bytes(1 << bits))
    for each in prints:
        known[each >> (64 - bits)] = rolling_source.SEVERAL
    places = max(stop - start - length + 1, 0) if room is None else room
    positions, which = int64s([0] * places), int32s([0] * places)
    report = int64s([0] * 8)
    status = rolling_source.find_rolling(
        RollingCall(
            buffer=CheckedPointer(buffer),
            start=start,
            end=stop,
            length=length,
            base=base,
            k0=int.from_bytes(seed[:8], "little"),
            k1=int.from_bytes(seed[8:], "little"),
            known=known,
            filter_bits=bits,
            fingerprints=uint64s(prints),
            low=uint64s(low for low, _ in words),
            high=uint64s(high for _, high in words),
            count=len(prints),
            leaving=uint64s([0] * 256),
            free_from=int64s([0] * (rolling_source.LANES * len(prints))),
            positions=positions,
            which=which,
            room=places,
            report=report,
        )
    )
    found: list[tuple[int, int]] = []
    for first, count in zip(report.numbers[::2], report.numbers[1::2], strict=True):
        lane = slice(first, first + count)
        found += zip(positions.numbers[lane], which.numbers[lane], strict=True)
    return status, [(position, order[index]) for position, index in found]
