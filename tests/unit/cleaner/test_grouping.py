"""Which segments are cleaned into one."""

from typing import Any

from ledgerstone.cleaner.grouping import group_segments
from ledgerstone.cleaner.plan import CleaningPlan, SourceSegment
from ledgerstone.types import INT32_MAX, TopicPartition


def _segment(base_offset: int, end_offset: int, **sizes: int) -> SourceSegment:
    known = {"size_bytes": 100, "offset_index_bytes": 8, "time_index_bytes": 12} | sizes
    return SourceSegment(base_offset=base_offset, end_offset=end_offset, mtime_ms=0, **known)


def _bases(segments: list[SourceSegment], **limits: Any) -> list[list[int]]:
    known = {"segment_bytes": 10**9, "segment_index_bytes": 10**9} | limits
    plan = CleaningPlan(
        topic_partition=TopicPartition("topic", 0),
        directory="/",
        segments=tuple(segments),
        first_dirty_offset=0,
        first_uncleanable_offset=segments[-1].end_offset,
        now_ms=0,
        delete_retention_ms=0,
        index_interval_bytes=4096,
        **known,
    )
    groups = group_segments(plan, segments)
    return [[segment.base_offset for segment in group] for group in groups]


TEN = [_segment(10 * n, 10 * n + 10) for n in range(10)]


def test_huge_limits_make_one_group() -> None:
    """Groups are limited by the bytes of logs and indexes."""
    assert _bases(TEN) == [[10 * n for n in range(10)]]


def test_a_limit_of_one_byte_makes_every_segment_a_group() -> None:
    """Groups are limited by the bytes of logs and indexes."""
    singles = [[10 * n] for n in range(10)]

    assert _bases(TEN, segment_bytes=1) == singles
    assert _bases(TEN, segment_index_bytes=1) == singles


def test_a_limit_of_three_segments_and_a_byte_fills_every_group_but_the_last() -> None:
    """Groups are limited by the bytes of logs and indexes."""
    by_three = [[0, 10, 20], [30, 40, 50], [60, 70, 80], [90]]

    assert _bases(TEN, segment_bytes=301) == by_three
    assert _bases(TEN, segment_bytes=300) == by_three
    assert _bases(TEN, segment_index_bytes=3 * 12 + 1) == by_three
    assert _bases(TEN, segment_bytes=299)[0] == [0, 10]


def test_each_index_is_counted_on_its_own() -> None:
    offsets_large = [_segment(n, n + 1, offset_index_bytes=60) for n in range(3)]
    times_large = [_segment(n, n + 1, time_index_bytes=60) for n in range(3)]

    assert _bases(offsets_large, segment_index_bytes=120) == [[0, 1], [2]]
    assert _bases(times_large, segment_index_bytes=120) == [[0, 1], [2]]


def test_offsets_up_to_the_reach_of_an_index_entry_group_and_one_more_splits() -> None:
    """An index entry holds 31 bits of offset relative to the group's base."""
    near = [_segment(0, 100), _segment(100, INT32_MAX + 1)]
    far = [_segment(0, 100), _segment(100, INT32_MAX + 2)]

    assert _bases(near) == [[0, 100]]
    assert _bases(far) == [[0], [100]]


def test_offsets_count_even_where_the_index_is_empty() -> None:
    """An index entry holds 31 bits of offset relative to the group's base."""
    segments = [
        _segment(0, 100, offset_index_bytes=0),
        _segment(100, INT32_MAX + 2, offset_index_bytes=0, time_index_bytes=0),
    ]

    assert _bases(segments) == [[0], [100]]


def test_empty_segment_joins_whatever_its_offsets() -> None:
    """Segments that each span 2**31 offsets."""
    span = 2**31
    segments = [
        _segment(0, span, size_bytes=0),
        _segment(span, 2 * span, size_bytes=0),
        _segment(2 * span, 3 * span, size_bytes=100),
    ]

    assert _bases(segments) == [[0, span], [2 * span]]


def test_last_segment_reaches_to_the_first_uncleanable_offset() -> None:
    """A pass that stops early passes only some of the segments: the rest may lie anywhere."""
    segments = [_segment(0, 100), _segment(100, 200), _segment(200, INT32_MAX + 300)]
    plan = CleaningPlan(
        topic_partition=TopicPartition("topic", 0),
        directory="/",
        segments=tuple(segments),
        first_dirty_offset=0,
        first_uncleanable_offset=INT32_MAX + 300,
        now_ms=0,
        delete_retention_ms=0,
        segment_bytes=10**9,
        segment_index_bytes=10**9,
        index_interval_bytes=4096,
    )

    groups = group_segments(plan, segments[:2])

    assert [len(group) for group in groups] == [1, 1]
