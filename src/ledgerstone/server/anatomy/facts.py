"""The anatomy of one partition as people are shown it: offsets, segments, horizons. Grade D.

Puts together what the log, the cleaning and the analysing worker know at this moment; looking is
what makes an analysis begin (`book`). The page and the API show the same facts.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ledgerstone.cleaner.selection import CleaningReason
from ledgerstone.cleaner.tombstone_ranges import MAX_RANGES, released_ms
from ledgerstone.cleaner.why import FOR_TOMBSTONES, Situation, first_shut, gates
from ledgerstone.replication.partition import Partition
from ledgerstone.server.anatomy.book import AnatomyBook, Known, not_known
from ledgerstone.server.anatomy.partition import (
    Horizon,
    NextPass,
    PartitionAnatomy,
    SegmentAnatomy,
)
from ledgerstone.server.cleaning.view import Sees, situation_of
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.state.anatomy_plan import HorizonCount, SegmentDivision, Shares


def anatomy_of(
    book: AnatomyBook, partition: Partition, sees: Sees | None = None
) -> PartitionAnatomy:
    """As somebody may see it. Raises OSError, StorageError or KafkaError where the log cannot be
    read."""
    log = partition.log
    about = situation_of(book.cleaning, partition, sees)
    known = _known(book, partition)
    report = known.report
    segments = _segments(partition, about, known.divisions)
    divisions = [each.division for each in segments if each.division is not None]
    shut = first_shut([gate for gate in gates(about) if gate.name not in FOR_TOMBSTONES])
    return PartitionAnatomy(
        topic=partition.topic_partition.topic,
        partition=partition.topic_partition.partition,
        now_ms=about.now_ms,
        log_start_offset=log.log_start_offset,
        first_dirty_offset=about.log.first_dirty_offset,
        first_uncleanable_offset=about.log.first_uncleanable_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        size_bytes=sum(each.size_bytes for each in segments),
        dirty_ratio=round(about.log.dirty_ratio, 6),
        compacts=about.compacts,
        segments=segments,
        horizons=_horizons(about, report.horizons if report else None),
        fresh_tombstones=_fresh(report.horizons) if report else None,
        next_pass=_next_pass(book.cleaning, partition, about),
        shut_gate=shut.text if shut is not None else None,
        keys=report.keys if report else None,
        division=_sum(divisions) if report else None,
        is_current=known.is_current,
        is_under_way=known.is_under_way,
        sampled_one_in=report.sampled_one_in if report else 1,
        not_divided=known.failure,
    )


def _known(book: AnatomyBook, partition: Partition) -> Known:
    if not partition.log.config.compacts:
        reason = "cleanup.policy does not contain compact: every record stays until retention"
        return not_known(reason)
    return book.look(partition.log)


def _segments(
    partition: Partition, about: Situation, divisions: Mapping[int, SegmentDivision]
) -> tuple[SegmentAnatomy, ...]:
    """A division that is older than its segment's last bytes covers a part of it."""
    log = partition.log
    segments = list(log.segments)
    bases = [each.base_offset for each in segments]
    found = []
    for segment, (base_offset, end_offset) in zip(
        segments, pairwise([*bases, log.log_end_offset]), strict=True
    ):
        division = divisions.get(base_offset)
        found.append(
            SegmentAnatomy(
                base_offset=base_offset,
                end_offset=end_offset,
                size_bytes=segment.size,
                is_active=base_offset == bases[-1],
                is_clean=end_offset <= about.log.first_dirty_offset and base_offset != bases[-1],
                largest_timestamp_ms=segment.largest_timestamp if segment.size else 0,
                division=division.bytes if division else None,
                records=division.records if division else None,
            )
        )
    return tuple(found)


def _horizons(about: Situation, counted: Sequence[HorizonCount] | None) -> tuple[Horizon, ...]:
    """What the ledger knows; how many there are is what an analysis has counted."""
    counts = {each.horizon_ms: each.tombstones for each in counted or ()}
    # A full ledger tells the earliest of several horizons, and the others have no place.
    default = 0 if counted is not None and len(about.ranges) < MAX_RANGES else None
    found: dict[tuple[int, int], Horizon] = {}
    for each in about.ranges:
        hold = about.holds.replica
        held_for = hold.holder if hold and each.first_offset >= hold.removable_to else None
        # Another replica decides, and not at a time that is known.
        goes_at_ms = each.earliest_horizon_ms if held_for else released_ms(each, about.holds)
        at = (goes_at_ms, each.earliest_horizon_ms)
        before = found.get(at)
        found[at] = Horizon(
            each.earliest_horizon_ms,
            min(each.first_offset, before.first_offset if before else each.first_offset),
            max(each.last_offset, before.last_offset if before else each.last_offset),
            goes_at_ms,
            counts.get(each.earliest_horizon_ms, default),
            held_for,
        )
    return tuple(found[at] for at in sorted(found))


def _fresh(counted: Sequence[HorizonCount]) -> int:
    return sum(each.tombstones for each in counted if each.horizon_ms is None)


def _next_pass(cleaning: CleaningWork, partition: Partition, about: Situation) -> NextPass:
    tp = partition.topic_partition
    for running in cleaning.running.values():
        if running.topic_partition == tp:
            end_offset = running.plan.first_uncleanable_offset
            return NextPass(about.now_ms, running.reason.value, True, end_offset)
    if not about.compacts:
        return NextPass(None, "cleanup.policy does not contain compact")
    if not about.is_enabled:
        return NextPass(None, "the cleaner is switched off")
    if tp in cleaning.asked:
        return NextPass(about.now_ms, CleaningReason.ASKED.value)
    if about.log.is_eligible:
        return NextPass(about.now_ms, CleaningReason.RATIO.value)
    due = min(about.dues, key=lambda each: each.at_ms, default=None)
    if due is None:
        return NextPass(None, "nothing makes one due")
    return NextPass(max(due.at_ms, about.now_ms), due.reason.value)


def _sum(divisions: Sequence[Shares]) -> Shares:
    total = Shares()
    for each in divisions:
        total = total.plus(each)
    return total
