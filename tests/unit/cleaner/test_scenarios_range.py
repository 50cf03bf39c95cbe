"""How far a pass reaches, and which segments are merged."""

from dataclasses import replace

import pytest

from ledgerstone.errors import SegmentOffsetOverflow
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import INT32_MAX
from tests.kit.cleaning import clean, compacted, contents, plan_of, run
from tests.kit.log_checks import check_log
from tests.kit.logs import World, all_records, offsets
from tests.kit.scenario import append, names, stored


def _follow(log: PartitionLog, *batches: bytearray) -> None:
    for data in batches:
        log.append_as_follower(bytes(data))
    log.advance_high_watermark(log.log_end_offset)


def test_hole_before_the_next_segment_does_not_stall_the_pass() -> None:
    """Offsets are missing between two segments."""
    log = compacted(World(), segment_bytes=800)
    _follow(log, *[stored(offset, f"{offset:02d}") for offset in range(10)])
    log.roll(11)
    _follow(log, stored(11, "11"))

    report = run(log, plan_of(log, end_segment=1))

    assert report.end_offset == 11


def test_two_holes_do_not_stall_it_either() -> None:
    """Offsets are missing between two segments."""
    log = compacted(World(), segment_bytes=800)
    for start, end in ((0, 10), (15, 25), (30, 31)):
        log.roll(start)
        _follow(log, *[stored(offset, f"{offset:02d}") for offset in range(start, end)])

    report = clean(log)

    assert log.segments.active.base_offset == 30
    assert report.end_offset == 30


def test_sparse_offsets_enter_the_map() -> None:
    """Keys are mapped from the first dirty offset on, up to the map's limit."""
    log = compacted(World())
    _follow(log, stored(0, "k"), stored(7_206_178, "k", "l"))
    log.roll()

    report = clean(log)

    assert offsets(all_records(log)) == [7_206_178, 7_206_179]
    assert report.end_offset == 7_206_180
    assert report.stats.map_entries == 2


def test_map_holds_the_keys_from_the_first_dirty_offset_on_up_to_its_limit() -> None:
    """Keys are mapped from the first dirty offset on, up to the map's limit."""
    log = compacted(World())
    append(log, *[(str(n % 4), "v") for n in range(6)])
    log.roll()

    report = clean(log, 2, dedupe_buffer_bytes=2 * 24, load_factor=1.0)

    # The keys 2 and 3 went in, and the pass stopped inside the batch, at the record of key 0.
    assert report.end_offset == 4
    assert report.stats.map_entries == 2
    assert len(contents(log)) == 6


def test_pass_that_stops_early_leaves_later_segments_alone() -> None:
    log = compacted(World(), segment_bytes=140)
    for n in range(8):
        append(log, (str(n), "v"))
    log.roll()

    report = clean(log, dedupe_buffer_bytes=3 * 24, load_factor=1.0)

    assert report.end_offset == 3
    assert [group.source_bases for group in report.groups] == [(0,), (2,)]


def test_segments_too_far_apart_stay_apart_until_they_are_empty() -> None:
    """Segments that each span 2**31 offsets."""
    span = 2**31
    log = compacted(World())
    for start in (0, span, 2 * span, 3 * span):
        log.roll(start)
        _follow(log, stored(start, "k"), stored(start + span - 1, "k"))
    log.roll()

    first = clean(log)
    assert [group.source_bases for group in first.groups] == [
        (0,),
        (span,),
        (2 * span,),
        (3 * span,),
    ]
    assert [group.size_bytes for group in first.groups] == [0, 0, 0, 70]
    second = clean(log, first.end_offset)

    assert [group.source_bases for group in second.groups] == [(0, span, 2 * span), (3 * span,)]
    assert offsets(all_records(log)) == [4 * span - 1]
    check_log(log)


def test_offset_out_of_the_reach_of_the_base_ends_the_pass_and_leaves_the_log() -> None:
    """The owner splits the segment and tries again; the loader does so when it opens one."""
    world = World()
    log = compacted(world)
    _follow(log, stored(0, "a"), stored(10, "b"))
    log.roll()
    plan = plan_of(log)
    # A segment of old Kafka that reaches further than its index can say, made from a sane one.
    log.segments.first.file.pwrite(stored(INT32_MAX + 1, "b"), 70)
    far = replace(plan.segments[0], end_offset=2**32)
    plan = replace(plan, segments=(far,), first_uncleanable_offset=2**32)

    with pytest.raises(SegmentOffsetOverflow, match="too far from base offset 0"):
        run(log, plan)

    assert names(world, CLEANED) == []


def test_worked_trace_of_the_fact_sheet_comes_out_step_by_step() -> None:
    """The trace of section 4.15: sizes, groups, end offsets and what a reader sees."""
    world = World()
    log = compacted(world, segment_bytes=210)
    for key, value in (("a", "1"), ("b", "1"), ("a", "2"), ("a", None), ("c", "1"), ("b", "2")):
        append(log, (key, value), timestamp=9000)
    append(log, ("c", "2"), timestamp=9000)
    assert log.segments.bases() == [0, 3, 6]

    first = clean(log, now_ms=10_000)
    assert [(group.source_bases, group.size_bytes) for group in first.groups] == [
        ((0,), 0),
        ((3,), 210),
    ]
    assert first.end_offset == 6
    assert offsets(all_records(log)) == [3, 4, 5, 6]
    for key, value in (("d", "1"), ("d", "2"), ("e", "1"), ("f", "1"), ("g", "1")):
        append(log, (key, value), timestamp=9000)
    log.roll()
    second = clean(log, 6, now_ms=12_000)

    assert [(group.source_bases, group.size_bytes) for group in second.groups] == [
        ((0, 3), 70),
        ((6,), 140),
        ((9,), 210),
    ]
    assert second.end_offset == 12
    assert contents(log) == [
        (5, "b", "2"),
        (6, "c", "2"),
        (8, "d", "2"),
        (9, "e", "1"),
        (10, "f", "1"),
        (11, "g", "1"),
    ]
