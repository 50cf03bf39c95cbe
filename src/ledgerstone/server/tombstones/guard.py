"""Who is about to miss a delete, and who may have missed one. Grade D, over a broker.

A group that has not committed past a tombstone when a pass removes it never hears of the delete. So
before a pass begins that may remove such tombstones the groups concerned are written down, and its
end says which of them it was: a broker that dies in between believes the worst. What is written is
`cleaner.tombstone_ledger`.
"""

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from ledgerstone.cleaner.holds import Holds
from ledgerstone.cleaner.plan import CleaningPlan, OffsetSpan, PassReport
from ledgerstone.cleaner.tombstone_ledger import MissedDeletes, groups_behind
from ledgerstone.cleaner.tombstone_ranges import expired
from ledgerstone.replication.partition import Partition
from ledgerstone.server.throttle import shown
from ledgerstone.server.tombstones.holds import committed_on
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker

_LOG: Final = logging.getLogger(__name__)

# Whoever can connect can make groups that are behind; the page and the API tell all of them.
_TOLD_GROUPS: Final = 10


class Margin(NamedTuple):
    """How long a group may stay away before a tombstone goes that it has not read."""

    group_id: str
    committed_offset: int
    margin_ms: int | None  # None: it has read every tombstone there is


# -- passes ---------------------------------------------------------------------------------------


def pass_begins(broker: "Broker", log: PartitionLog, plan: CleaningPlan, holds: Holds) -> None:
    """Writes down who would miss what the pass may remove, before it can."""
    pending = broker.cleaning.pending.get(log.topic_partition)
    ranges = expired((pending and pending.ranges) or (), holds, now_ms=plan.now_ms)
    if not ranges:
        return
    doomed = OffsetSpan(ranges[0].first_offset, max(each.last_offset for each in ranges))
    behind = groups_behind(committed_on(broker, log.topic_partition), doomed, now_ms=plan.now_ms)
    if behind:
        files = broker.cleaning.files
        files.set_ledger(log, files.ledger(log).announced(behind))
        files.write_now()


def pass_ended(
    broker: "Broker", partition: Partition, report: PassReport | None, *, is_swapped: bool
) -> None:
    """`report` is None where the pass died; not `is_swapped` where its owner stopped believing in
    it: then some of it may be in place all the same."""
    log, files, now_ms = partition.log, broker.cleaning.files, broker.clock.now_ms()
    ledger = files.ledger(log)
    if report is None:
        if any(each.is_announced for each in ledger.missed):
            files.set_ledger(log, ledger.believed())
        return
    traces = report.tombstones
    behind: list[MissedDeletes] = []
    if traces is not None and traces.removed is not None:
        offsets = _offsets_before_the_pass(broker, log)
        behind = groups_behind(offsets, traces.removed, now_ms=now_ms)
    if is_swapped:
        ledger = ledger.after_pass(traces, end_offset=report.end_offset, now_ms=now_ms)
    files.set_ledger(log, ledger.settled(behind))
    for each in behind[:_TOLD_GROUPS]:
        _LOG.warning(
            "deletes may be missed partition=%s group=%s first_offset=%d last_offset=%d",
            log.topic_partition, shown(each.group_id), each.first_offset, each.last_offset,
        )  # fmt: skip
    if len(behind) > _TOLD_GROUPS:
        more = len(behind) - _TOLD_GROUPS
        _LOG.warning("deletes may be missed partition=%s more_groups=%d", log.topic_partition, more)


def _offsets_before_the_pass(broker: "Broker", log: PartitionLog) -> dict[str, int]:
    """Who was behind when the pass began and has moved on since may have read before its swap or
    after it, and nobody knows which."""
    offsets = committed_on(broker, log.topic_partition)
    for each in broker.cleaning.files.ledger(log).missed:
        if each.is_announced and each.group_id in offsets:
            offsets[each.group_id] = min(offsets[each.group_id], each.committed_offset)
    return offsets


# -- groups ---------------------------------------------------------------------------------------


def offset_committed(broker: "Broker", tp: TopicPartition) -> None:
    """A group has committed an offset here: what it held may go now, and who starts over has
    nothing left to miss."""
    partition = broker.partitions.find(tp)
    if partition is None or not partition.log.config.compacts:
        return
    cleaning, log = broker.cleaning, partition.log
    pending = cleaning.pending.get(tp)
    if log.config.ledgerstone_tombstone_hold_groups and pending is not None and pending.ranges:
        released_ms = pending.released_ms(cleaning.holds_of(log))
        if released_ms is not None and released_ms <= broker.clock.now_ms():
            cleaning.look_now()
    forget_settled(broker, partition)


def forget_settled(broker: "Broker", partition: Partition) -> None:
    """Drops who was deleted, or went back to where the log begins."""
    log, files = partition.log, broker.cleaning.files
    missed = files.ledger(log).missed
    if not missed:
        return
    offsets = committed_on(broker, log.topic_partition)
    gone = [
        each.group_id
        for each in missed
        if not each.is_announced and _has_started_over(each, offsets.get(each.group_id), log)
    ]
    if gone:
        acknowledge(broker, partition, gone)


def _has_started_over(missed: MissedDeletes, offset: int | None, log: PartitionLog) -> bool:
    return offset is None or (offset <= log.log_start_offset and offset < missed.committed_offset)


def acknowledge(broker: "Broker", partition: Partition, group_ids: list[str]) -> int:
    """Forgets what these groups missed; how many entries that were."""
    log, files = partition.log, broker.cleaning.files
    before = files.ledger(log)
    after = before.without(group_ids)
    if after.missed != before.missed:
        files.set_ledger(log, after)
        files.write_soon(broker.clock.monotonic_ms())
    return len(before.missed) - len(after.missed)


def margins(broker: "Broker", partition: Partition) -> list[Margin]:
    """Every group with a commit in the partition, the one in most danger first."""
    log, now_ms = partition.log, broker.clock.now_ms()
    offsets = committed_on(broker, log.topic_partition)
    if not offsets:
        return []
    holds = broker.cleaning.holds_of(log)
    holding = dict.fromkeys(each.group_id for each in holds.groups)
    found = []
    for group_id, offset in offsets.items():
        extra_ms = holds.max_ms if group_id in holding else 0
        goes_ms = _first_to_go_ms(broker, log, offset)
        margin_ms = None if goes_ms is None else max(goes_ms + extra_ms - now_ms, 0)
        found.append(Margin(group_id, offset, margin_ms))
    found.sort(key=lambda each: (each.margin_ms is None, each.margin_ms or 0, each.group_id))
    return found


def _first_to_go_ms(broker: "Broker", log: PartitionLog, offset: int) -> int | None:
    """When the first tombstone at or above `offset` may go, holds aside."""
    pending = broker.cleaning.pending.get(log.topic_partition)
    if pending is None or offset >= log.log_end_offset:
        return None
    times = [
        each.earliest_horizon_ms for each in pending.ranges or () if each.last_offset >= offset
    ]
    if pending.ranges is None and pending.earliest_horizon_ms is not None:
        times.append(pending.earliest_horizon_ms)
    if _may_have_fresh(broker, log, offset):
        # The next pass sets their horizon, and that is so far away from it at least.
        times.append(broker.clock.now_ms() + log.config.delete_retention_ms)
    return min(times, default=None)


def _may_have_fresh(broker: "Broker", log: PartitionLog, offset: int) -> bool:
    """Whether a tombstone that no pass has seen may lie at or above `offset`."""
    cleaning, tp = broker.cleaning, log.topic_partition
    pending = cleaning.pending[tp]
    first_dirty = cleaning.files.first_dirty_offsets.get(tp, 0)
    # What was written before this process began may be one.
    if max(first_dirty, offset) < pending.watched_from_offset:
        return True
    for base_offset in pending.tombstones:
        following = log.segments.after(base_offset)
        if following is None or following.base_offset > offset:
            return True
    return False
