"""Offset ranges for the tasks of one read. Pure.

One task reads one partition, so that its connection reads one log from front to back. Larger ranges
are split only if the options ask for more tasks, or for smaller ones. Small ranges of a micro-batch
share a task: a task costs Spark as much as thousands of records.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.spark.offsets import Offsets
from ledgerstone.types import TopicPartition

# Few enough that large records, too, are read in some seconds.
SHARED_TASK_OFFSETS: Final = 2_000


class OffsetRange(NamedTuple):
    """The records of a partition in [start_offset, end_offset)."""

    partition: TopicPartition
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset

    def __str__(self) -> str:
        return f"{self.partition} [{self.start_offset}, {self.end_offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    min_partitions: int | None = None
    max_records: int | None = None


def ranges_between(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """The ranges between, by partition; empty ones are left out."""
    return [
        OffsetRange(each, start[each], end[each]) for each in sorted(end) if end[each] > start[each]
    ]


def plan(ranges: Iterable[OffsetRange], splits: Splits) -> list[OffsetRange]:
    planned = list(ranges)
    if splits.max_records is not None:
        limit = splits.max_records
        planned = [part for each in planned for part in _divide(each, -(-each.size // limit))]
    if splits.min_partitions is not None and len(planned) < splits.min_partitions:
        planned = list(_divide_all(planned, splits.min_partitions))
    return planned


def packed(ranges: Iterable[OffsetRange], splits: Splits) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task, in order. Options that say how many, or how large, are obeyed."""
    if splits != Splits():
        return [(each,) for each in ranges]
    tasks: list[tuple[OffsetRange, ...]] = []
    room = 0
    for each in ranges:
        if each.size <= room:
            tasks[-1] += (each,)
        else:
            tasks.append((each,))
            room = SHARED_TASK_OFFSETS
        room -= each.size
    return tasks


def _divide_all(ranges: list[OffsetRange], wanted: int) -> Iterator[OffsetRange]:
    left = sum(each.size for each in ranges)
    for index, each in enumerate(ranges):
        # Keep at least one task for each remaining range; share the others by size.
        later = len(ranges) - index - 1
        parts = min(max(round(each.size / left * wanted), 1), max(wanted - later, 1))
        yield from _divide(each, parts)
        wanted -= parts
        left -= each.size


def _divide(each: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    parts = min(max(parts, 1), each.size)
    bounds = [each.start_offset + each.size * index // parts for index in range(parts + 1)]
    for index in range(parts):
        yield OffsetRange(each.partition, bounds[index], bounds[index + 1])
