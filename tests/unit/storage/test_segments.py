"""The ordered set of segments: which one holds an offset, which come after."""

import pytest

from ledgerstone.storage.segment import Segment
from ledgerstone.storage.segments import Segments
from tests.kit.logs import World
from tests.kit.scenario import fill, new_segment, stored


def segments_at(*bases: int) -> Segments:
    segments = Segments()
    world = World()
    for base in bases:
        segments.add(new_segment(world, base))
    return segments


def bases(found: list[Segment]) -> list[int]:
    return [segment.base_offset for segment in found]


def base_of(segment: Segment | None) -> int | None:
    return None if segment is None else segment.base_offset


def test_segments_are_in_the_order_of_their_bases_however_they_came() -> None:
    segments = segments_at(20, 0, 10)

    assert bases(list(segments)) == segments.bases() == [0, 10, 20]
    assert segments.first.base_offset == 0
    assert segments.active.base_offset == 20
    segments.check_invariants()


@pytest.mark.parametrize(
    ("offset", "expected"), [(4, None), (5, 5), (14, 5), (15, 15), (24, 15), (25, 25), (99, 25)]
)
def test_floor_is_the_last_segment_that_starts_at_or_before_the_offset(
    offset: int, expected: int | None
) -> None:
    assert base_of(segments_at(5, 15, 25).floor(offset)) == expected


@pytest.mark.parametrize(("base", "expected"), [(0, 5), (5, 15), (7, 15), (25, None)])
def test_after_is_the_next_segment_above(base: int, expected: int | None) -> None:
    assert base_of(segments_at(5, 15, 25).after(base)) == expected


@pytest.mark.parametrize(
    ("offset", "holding", "starting"),
    [
        (0, [5, 15, 25], [5, 15, 25]),
        (5, [5, 15, 25], [5, 15, 25]),
        (6, [5, 15, 25], [15, 25]),
        (15, [15, 25], [15, 25]),
        (30, [25], []),
    ],
)
def test_holding_from_counts_the_segment_the_offset_lies_in_and_starting_from_does_not(
    offset: int, holding: list[int], starting: list[int]
) -> None:
    segments = segments_at(5, 15, 25)

    assert bases(segments.holding_from(offset)) == holding
    assert bases(segments.starting_from(offset)) == starting


def test_segment_with_the_same_base_takes_the_place_of_the_other() -> None:
    segments = segments_at(0, 10)
    old = segments.at_base(10)
    replacement = new_segment(World(), 10)

    segments.add(replacement)

    assert old is not None
    assert old not in segments
    assert replacement in segments
    assert len(segments) == 2


def test_walk_is_over_the_segments_as_they_were_when_it_began() -> None:
    segments = segments_at(0, 10, 20)

    for segment in segments:
        segments.remove(segment.base_offset)

    assert len(segments) == 0


def test_size_is_the_sum_of_all_batches() -> None:
    world = World()
    segments = Segments()
    segments.add(fill(new_segment(world, 0), stored(0, "a"), stored(1, "b")))
    segments.add(fill(new_segment(world, 2), stored(2, "c")))

    assert segments.size_bytes == 3 * 70
