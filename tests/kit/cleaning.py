"""Passes over open logs: plan, run, swap. The owner's part is played the simplest way there is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ledgerstone.cleaner.cleaning_pass import run_pass
from ledgerstone.cleaner.plan import (
    CleanedGroup,
    CleaningPlan,
    LastBatch,
    PassReport,
    SourceSegment,
)
from ledgerstone.sim.dice import SeededDice
from ledgerstone.storage.filenames import CLEANED, Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_shrink import swap_segments
from ledgerstone.storage.segment import Segment
from tests.kit.logs import World, all_records
from tests.kit.scenario import disk, headers_of

# Room for 1000 keys and some; a test that is about the limit says its own.
DEDUPE_BYTES = 24 * 1200


def plan_of(
    log: PartitionLog, first_dirty_offset: int = 0, *, end_segment: int = -1, **fields: Any
) -> CleaningPlan:
    """A pass over all segments before the one at index `end_segment`, the active one by default."""
    segments = list(log.segments)
    end = segments[end_segment].base_offset
    cleanable = segments[:end_segment]
    bases = [segment.base_offset for segment in segments]
    plan = CleaningPlan(
        topic_partition=log.topic_partition,
        directory=log.directory,
        segments=tuple(
            source_of(log, segment, bases[at + 1]) for at, segment in enumerate(cleanable)
        ),
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=end,
        now_ms=log.clock.now_ms(),
        delete_retention_ms=log.config.delete_retention_ms,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        producers={
            producer_id: LastBatch(last_data_offset=last[0], producer_epoch=last[1])
            for producer_id, last in log.producers.active_producers().items()
        },
        dedupe_buffer_bytes=DEDUPE_BYTES,
    )
    return replace(plan, **fields)


def source_of(log: PartitionLog, segment: Segment, end_offset: int) -> SourceSegment:
    return SourceSegment(
        base_offset=segment.base_offset,
        end_offset=end_offset,
        size_bytes=segment.size,
        offset_index_bytes=segment.offset_index.size_bytes,
        time_index_bytes=segment.time_index.size_bytes,
        mtime_ms=log.fs.mtime_ms(segment.path(Kind.LOG)),
    )


def swapper(log: PartitionLog) -> Callable[[CleanedGroup], None]:
    """What the owner does with a group that is complete."""

    def swap(group: CleanedGroup) -> None:
        old = [segment for segment in log.segments if segment.base_offset in group.source_bases]
        new = Segment(
            log.fs,
            log.directory,
            group.base_offset,
            log.config,
            created_ms=log.clock.now_ms(),
            suffix=CLEANED,
            size=group.size_bytes,
        )
        swap_segments(log, new=[new], old=old)

    return swap


def run(log: PartitionLog, plan: CleaningPlan, **how: Any) -> PassReport:
    """One pass, each group swapped in as it comes."""
    defaults: dict[str, Any] = {
        "dice": SeededDice(0),
        "on_group": swapper(log),
        "should_abort": lambda: False,
    }
    return run_pass(log.fs, plan, **(defaults | how))


def clean(log: PartitionLog, first_dirty_offset: int = 0, **fields: Any) -> PassReport:
    """A pass over everything below the active segment, now."""
    return run(log, plan_of(log, first_dirty_offset, **fields))


def compacted(world: World, **config: Any) -> PartitionLog:
    """An open log of a compacted topic; tombstones stay a second."""
    defaults: dict[str, Any] = {"cleanup_policy": ("compact",), "delete_retention_ms": 1000}
    return world.open(LogConfig(**(defaults | config)))


def contents(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of every data record on disk."""
    return [
        (
            record.offset,
            "" if record.key is None else record.key.decode(),
            None if record.value is None else record.value.decode(),
        )
        for record in all_records(log)
    ]


def shape(log: PartitionLog) -> list[tuple[int, int]]:
    """Last offset and number of records of every batch on disk, control batches included."""
    return [(header.last_offset, header.record_count) for header in headers_of(log)]


def reopened(world: World, log: PartitionLog) -> PartitionLog:
    """The same log after its process was killed, every batch checked again."""
    disk(world).kill()
    return world.open(log.config, clean=False, recovery_point=0, high_watermark=log.log_end_offset)
