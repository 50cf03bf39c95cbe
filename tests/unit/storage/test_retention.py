"""Which leading segments may go: three rules over facts, no files."""

import pytest

from ledgerstone.storage.retention import SegmentFacts, below_start_offset, over_age, over_size


def five_each(*timestamps: int, size_bytes: int = 100) -> list[SegmentFacts]:
    """Segments of five offsets, the last one with records too."""
    return [
        SegmentFacts(5 * n, 5 * n + 5, size_bytes, timestamp)
        for n, timestamp in enumerate(timestamps)
    ]


@pytest.mark.parametrize(("start", "gone"), [(0, 0), (1, 0), (5, 1), (6, 1), (10, 2), (15, 2)])
def test_segments_wholly_below_the_start_offset_go_and_the_last_one_stays(
    start: int, gone: int
) -> None:
    segments = five_each(0, 0, 0)

    assert below_start_offset(segments, log_start_offset=start, high_watermark=15) == gone


def test_empty_segment_that_is_not_the_last_goes_below_the_start_offset() -> None:
    segments = [
        SegmentFacts(0, 5, 100, 0),
        SegmentFacts(5, 10, 0, 0),
        SegmentFacts(10, 12, 40, 0),
    ]

    assert below_start_offset(segments, log_start_offset=11, high_watermark=12) == 2


@pytest.mark.parametrize(
    ("retention_bytes", "gone"), [(-1, 0), (301, 0), (300, 0), (201, 0), (200, 1), (1, 2), (0, 3)]
)
def test_size_rule_keeps_at_least_the_retention_bytes(retention_bytes: int, gone: int) -> None:
    segments = five_each(0, 0, 0)

    assert over_size(segments, retention_bytes=retention_bytes, high_watermark=15) == gone


@pytest.mark.parametrize(("now", "gone"), [(1099, 0), (1100, 0), (1101, 1), (1201, 2), (1301, 3)])
def test_age_rule_is_strict(now: int, gone: int) -> None:
    segments = five_each(100, 200, 300)

    assert over_age(segments, retention_ms=1000, high_watermark=15, now_ms=now) == gone


def test_segment_with_a_later_timestamp_protects_all_after_it() -> None:
    segments = five_each(9_000, 100, 100)

    assert over_age(segments, retention_ms=1000, high_watermark=15, now_ms=5_000) == 0
    assert over_age(segments[1:], retention_ms=1000, high_watermark=15, now_ms=5_000) == 2


@pytest.mark.parametrize(("high_watermark", "gone"), [(0, 0), (4, 0), (5, 1), (9, 1), (15, 3)])
def test_nothing_above_the_high_watermark_goes(high_watermark: int, gone: int) -> None:
    segments = five_each(0, 0, 0)

    aged = over_age(segments, retention_ms=1, high_watermark=high_watermark, now_ms=9)
    sized = over_size(segments, retention_bytes=0, high_watermark=high_watermark)

    assert aged == sized == gone


def test_empty_last_segment_is_never_taken() -> None:
    segments = [*five_each(0, 0), SegmentFacts(10, 10, 0, 0)]

    assert over_age(segments, retention_ms=1, high_watermark=10, now_ms=9) == 2
    assert over_size(segments, retention_bytes=0, high_watermark=10) == 2


def test_negative_retention_keeps_everything() -> None:
    segments = five_each(0, 0)

    assert over_age(segments, retention_ms=-1, high_watermark=10, now_ms=10**15) == 0
    assert over_size(segments, retention_bytes=-1, high_watermark=10) == 0
