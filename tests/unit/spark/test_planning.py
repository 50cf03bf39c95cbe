"""Ranges for tasks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.spark.planning import (
    SHARED_TASK_OFFSETS,
    OffsetRange,
    Splits,
    packed,
    plan,
    ranges_between,
)
from ledgerstone.types import TopicPartition

_RANGES = st.lists(st.integers(1, 10_000), min_size=1, max_size=6).map(
    lambda sizes: [OffsetRange(TopicPartition("t", n), n, n + s) for n, s in enumerate(sizes)]
)
_SPLITS = st.builds(
    Splits,
    min_partitions=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 5_000),
)


def test_one_task_a_partition_unless_asked_otherwise() -> None:
    start = {TopicPartition("t", 0): 3, TopicPartition("t", 1): 7}
    end = {TopicPartition("t", 0): 9, TopicPartition("t", 1): 7}

    assert plan(ranges_between(start, end), Splits()) == [OffsetRange(TopicPartition("t", 0), 3, 9)]


@given(_RANGES, _SPLITS)
def test_tasks_cover_every_offset_once(ranges: list[OffsetRange], splits: Splits) -> None:
    tasks = plan(ranges, splits)

    for each in ranges:
        own = [task for task in tasks if task.partition == each.partition]
        assert own[0].start_offset == each.start_offset
        assert own[-1].end_offset == each.end_offset
        assert all(a.end_offset == b.start_offset for a, b in pairwise(own))
        assert all(task.size > 0 for task in own)


@given(_RANGES, st.integers(1, 500))
def test_no_task_has_more_than_it_may(ranges: list[OffsetRange], limit: int) -> None:
    tasks = plan(ranges, Splits(max_records=limit))

    assert max(task.size for task in tasks) <= limit


@given(_RANGES, st.integers(1, 40))
def test_there_are_as_many_tasks_as_asked_for_if_there_is_that_much(
    ranges: list[OffsetRange], wanted: int
) -> None:
    tasks = plan(ranges, Splits(min_partitions=wanted))

    # A share is rounded and no range is split below one offset.
    smallest = min(each.size for each in ranges)
    assert len(tasks) >= min(wanted, len(ranges)) if smallest < wanted else len(tasks) >= wanted


@given(_RANGES)
def test_small_ranges_share_a_task_and_keep_their_order(ranges: list[OffsetRange]) -> None:
    tasks = packed(ranges, Splits())

    assert [each for task in tasks for each in task] == ranges
    for task in tasks:
        assert len(task) == 1 or sum(each.size for each in task) <= SHARED_TASK_OFFSETS
    for first, second in pairwise(tasks):
        assert sum(each.size for each in first) + second[0].size > SHARED_TASK_OFFSETS


@given(_RANGES, _SPLITS.filter(lambda splits: splits != Splits()))
def test_ranges_share_no_task_where_options_say_how_many_or_how_large(
    ranges: list[OffsetRange], splits: Splits
) -> None:
    assert packed(ranges, splits) == [(each,) for each in ranges]
