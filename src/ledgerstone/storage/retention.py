"""Which segments to delete, and why. Pure: facts in, a count of leading segments out.

Three rules, each taking a prefix of the log: below the log start offset, over the size, over the
age. Common gate: everything in the segment lies below the high watermark, and an empty last
segment is never taken. The first segment a rule spares ends its walk.
"""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Breach(enum.Enum):
    """Why segments are deleted; the value is the reason shown in the log."""

    START_OFFSET = "below the log start offset"
    SIZE = "retention.bytes exceeded"
    TIME = "retention.ms exceeded"


class SegmentFacts(NamedTuple):
    base_offset: int
    end_offset: int  # the next segment's base, or the log end offset for the last one
    size_bytes: int
    largest_timestamp: int


def below_start_offset(
    segments: Sequence[SegmentFacts], *, log_start_offset: int, high_watermark: int
) -> int:
    # The last segment has no successor that could start at or below the log start offset.
    last = segments[-1]
    return _prefix(
        segments,
        high_watermark,
        lambda segment: segment is not last and segment.end_offset <= log_start_offset,
    )


def over_size(
    segments: Sequence[SegmentFacts], *, retention_bytes: int, high_watermark: int
) -> int:
    """Deletes only while at least `retention_bytes` remain."""
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    if retention_bytes < 0 or excess < 0:
        return 0

    def breaches(segment: SegmentFacts) -> bool:
        nonlocal excess
        if excess < segment.size_bytes:
            return False
        excess -= segment.size_bytes
        return True

    return _prefix(segments, high_watermark, breaches)


def over_age(
    segments: Sequence[SegmentFacts], *, retention_ms: int, high_watermark: int, now_ms: int
) -> int:
    if retention_ms < 0:
        return 0
    return _prefix(
        segments,
        high_watermark,
        lambda segment: now_ms - segment.largest_timestamp > retention_ms,
    )


def _prefix(
    segments: Sequence[SegmentFacts],
    high_watermark: int,
    breaches: Callable[[SegmentFacts], bool],
) -> int:
    for count, segment in enumerate(segments):
        empty_last = count == len(segments) - 1 and segment.size_bytes == 0
        if empty_last or high_watermark < segment.end_offset or not breaches(segment):
            return count
    return len(segments)
