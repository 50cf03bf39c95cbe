"""Groups that are about to miss a delete, and groups that may have missed one. Grade D.

A group that has not committed past a tombstone when a pass removes it never hears of the delete. So
before a pass begins that may remove such tombstones the groups concerned are written down, and its
end says which of them it was: a broker that dies in between believes the worst. What is written is
`cleaner.tombstone_ledger`.
"""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.cleaner.deadlines import Pending
from ledgerstone.cleaner.holds import EVERY_GROUP, Holds
from ledgerstone.cleaner.plan import CleaningPlan, OffsetSpan, PassReport
from ledgerstone.cleaner.tombstone_ledger import MissedDeletes, groups_behind
from ledgerstone.cleaner.tombstone_ranges import expired
from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.files import CleaningFiles
from ledgerstone.server.throttle import shown
from ledgerstone.server.tombstones.holds import TombstoneHolds
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import NO_OFFSET, TopicPartition

_LOG: Final = logging.getLogger(__name__)

# Any client can make groups that are behind; the page and the API list all of them.
_TOLD_GROUPS: Final = 10


class Margin(NamedTuple):
    """How long a group may stay away before a tombstone goes that it has not read."""

    group_id: str
    committed_offset: int
    margin_ms: int | None  # None: it has read every tombstone there is


@dataclass(frozen=True, slots=True)
class TombstoneGuard:
    clock: Clock
    files: CleaningFiles
    pending: Mapping[TopicPartition, Pending]
    holds: TombstoneHolds

    # -- passes ------------------------------------------------------------------------------

    def pass_begins(self, log: PartitionLog, plan: CleaningPlan, holds: Holds) -> None:
        """Writes down which groups would miss what the pass may remove, before it can."""
        pending = self.pending.get(log.topic_partition)
        ranges = expired((pending and pending.ranges) or (), holds, now_ms=plan.now_ms)
        if not ranges:
            return
        doomed = OffsetSpan(ranges[0].first_offset, max(each.last_offset for each in ranges))
        offsets = self.holds.committed_on(log.topic_partition)
        behind = self._behind(log, offsets, doomed, plan.now_ms)
        if behind:
            self.files.set_ledger(log, self.files.ledger(log).announced(behind))
            self.files.write_now()

    def pass_ended(
        self, partition: Partition, report: PassReport | None, *, is_swapped: bool
    ) -> None:
        """`report` is None where the pass died. Not `is_swapped`: the pass was called off, and some
        of it may be in place all the same."""
        log, files, now_ms = partition.log, self.files, self.clock.now_ms()
        ledger = files.ledger(log)
        if report is None:
            if any(each.is_announced for each in ledger.missed):
                files.set_ledger(log, ledger.believed())
            return
        traces = report.tombstones
        behind: list[MissedDeletes] = []
        if traces is not None and traces.removed is not None:
            offsets = self._offsets_before_the_pass(log)
            behind = self._behind(log, offsets, traces.removed, now_ms)
        if is_swapped:
            ledger = ledger.after_pass(traces, end_offset=report.end_offset, now_ms=now_ms)
        files.set_ledger(log, ledger.settled(behind))
        for each in behind[:_TOLD_GROUPS]:
            _LOG.warning(
                "deletes may be missed partition=%s group=%s first_offset=%d last_offset=%d",
                log.topic_partition, shown(each.group_id), each.first_offset, each.last_offset,
            )  # fmt: skip
        more = len(behind) - _TOLD_GROUPS
        if more > 0:
            tp = log.topic_partition
            _LOG.warning("deletes may be missed partition=%s more_groups=%d", tp, more)

    def _behind(
        self, log: PartitionLog, offsets: Mapping[str, int], removed: OffsetSpan, now_ms: int
    ) -> list[MissedDeletes]:
        """Where a coordinator does not say what its groups have read, nobody is called safe."""
        behind = groups_behind(offsets, removed, now_ms=now_ms)
        if log.topic_partition.topic not in INTERNAL_TOPICS and not self.holds.offsets.are_known():
            first, last = removed.first_offset, removed.last_offset
            behind.append(MissedDeletes(EVERY_GROUP, NO_OFFSET, first, last, now_ms))
        return behind

    def _offsets_before_the_pass(self, log: PartitionLog) -> dict[str, int]:
        """A group that was behind when the pass began and has moved on since may have read before
        the swap or after it. There is no telling which, so its old offset counts."""
        offsets = self.holds.committed_on(log.topic_partition)
        for each in self.files.ledger(log).missed:
            if each.is_announced and each.group_id in offsets:
                offsets[each.group_id] = min(offsets[each.group_id], each.committed_offset)
        return offsets

    # -- groups ------------------------------------------------------------------------------

    def forget_settled(self, partition: Partition) -> None:
        """Drops groups that are gone, or that went back to where the log begins. What all groups
        may have missed is dropped only by who acknowledges it."""
        log, files = partition.log, self.files
        missed = files.ledger(log).missed
        if not missed:
            return
        offsets = self.holds.committed_on(log.topic_partition)
        gone = [
            each.group_id
            for each in missed
            if not each.is_announced
            and each.group_id != EVERY_GROUP
            and self.holds.offsets.knows(each.group_id)
            and _has_started_over(each, offsets.get(each.group_id), log)
        ]
        if gone:
            self.acknowledge(partition, gone)

    def acknowledge(self, partition: Partition, group_ids: list[str]) -> int:
        """Forgets what these groups missed; how many entries that were."""
        log, files = partition.log, self.files
        before = files.ledger(log)
        after = before.without(group_ids)
        if after.missed != before.missed:
            files.set_ledger(log, after)
            files.write_soon(self.clock.monotonic_ms())
        return len(before.missed) - len(after.missed)

    def margins(self, partition: Partition) -> list[Margin]:
        """Every group with a commit in the partition, the one in most danger first."""
        log, now_ms = partition.log, self.clock.now_ms()
        offsets = self.holds.committed_on(log.topic_partition)
        if not offsets:
            return []
        holds = self.holds.of(log)
        holding = dict.fromkeys(each.group_id for each in holds.groups)
        found = []
        for group_id, offset in offsets.items():
            extra_ms = holds.max_ms if group_id in holding else 0
            goes_ms = self._first_to_go_ms(log, offset)
            margin_ms = None if goes_ms is None else max(goes_ms + extra_ms - now_ms, 0)
            found.append(Margin(group_id, offset, margin_ms))
        found.sort(key=lambda each: (each.margin_ms is None, each.margin_ms or 0, each.group_id))
        return found

    def _first_to_go_ms(self, log: PartitionLog, offset: int) -> int | None:
        """When the first tombstone at or above `offset` may go, holds aside."""
        pending = self.pending.get(log.topic_partition)
        if pending is None or offset >= log.log_end_offset:
            return None
        times = [
            each.earliest_horizon_ms for each in pending.ranges or () if each.last_offset >= offset
        ]
        if pending.ranges is None and pending.earliest_horizon_ms is not None:
            times.append(pending.earliest_horizon_ms)
        if self._may_have_fresh(log, offset):
            # The next pass sets their horizon, and that is so far away from it at least.
            times.append(self.clock.now_ms() + log.config.delete_retention_ms)
        return min(times, default=None)

    def _may_have_fresh(self, log: PartitionLog, offset: int) -> bool:
        """Whether a tombstone that no pass has seen may lie at or above `offset`."""
        tp = log.topic_partition
        pending = self.pending[tp]
        first_dirty = self.files.first_dirty_offsets.get(tp, 0)
        # What was written before this process began may be one.
        if max(first_dirty, offset) < pending.watched_from_offset:
            return True
        for base_offset in pending.tombstones:
            following = log.segments.after(base_offset)
            if following is None or following.base_offset > offset:
                return True
        return False


def _has_started_over(missed: MissedDeletes, offset: int | None, log: PartitionLog) -> bool:
    return offset is None or (offset <= log.log_start_offset and offset < missed.committed_offset)
