"""When this node writes a snapshot of its own, and what becomes of it. Grade D.

After so many bytes of records, or so long after the last one, whichever comes first. One is written
at a time, in a thread, from an image that does not change.
"""

import logging
from typing import Final, NamedTuple

from ledgerstone.raft.events import Now
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.peers import NEVER
from ledgerstone.server.quorum.disk_log import DiskLog
from ledgerstone.server.quorum.door import CommittedBatch, MetadataStateMachine
from ledgerstone.server.quorum.snapshot_files import SnapshotFiles
from ledgerstone.server.quorum.snapshot_writing import SnapshotWork

_LOG: Final = logging.getLogger(__name__)
# After a failure, or inside a metadata transaction.
_RETRY_MS: Final = 60_000


class SnapshotRules(NamedTuple):
    """Kafka's keys: metadata.log.max.record.bytes.between.snapshots and .max.snapshot.interval.ms.
    An interval of 0 is none."""

    max_bytes: int = 20 << 20
    interval_ms: int = 3_600_000


class OwnSnapshots:
    def __init__(self, rules: SnapshotRules) -> None:
        self._rules = rules
        self._new_bytes = 0
        self._last_timestamp = 0
        self._is_writing = False
        # NEVER until something was consumed that no snapshot holds.
        self.next_deadline_ms = NEVER

    def loaded(self) -> None:
        """A snapshot holds everything."""
        self._new_bytes = 0
        self.next_deadline_ms = NEVER

    def consumed(self, batch: CommittedBatch, now_ms: int) -> None:
        if not self._new_bytes and self._rules.interval_ms > 0 and not self._is_writing:
            self.next_deadline_ms = now_ms + self._rules.interval_ms
        self._new_bytes += batch.size
        self._last_timestamp = batch.timestamp

    def due(
        self,
        node: RaftNode,
        machine: MetadataStateMachine,
        files: SnapshotFiles,
        end_offset: int,
        now: Now,
    ) -> SnapshotWork | None:
        """What to write now, if anything."""
        is_due = (
            self._new_bytes >= self._rules.max_bytes or now.monotonic_ms >= self.next_deadline_ms
        )
        if not is_due or self._is_writing or not self._new_bytes:
            return None
        records = machine.snapshot()
        if records is None:
            self.next_deadline_ms = now.monotonic_ms + _RETRY_MS
            return None
        plan = node.plan_snapshot(now, end_offset, self._last_timestamp)
        self.loaded()
        if plan is None:
            return None
        self._is_writing = True
        return SnapshotWork(
            plan=plan, file=files.own_file(plan.snapshot_id), records=records, wall_ms=now.wall_ms
        )

    def ended(
        self,
        work: SnapshotWork,
        failure: OSError | None,
        log: DiskLog,
        files: SnapshotFiles,
        now_ms: int,
    ) -> None:
        self._is_writing = False
        snapshot_id = work.plan.snapshot_id
        if failure is not None:
            _LOG.warning("metadata snapshot not written id=%s reason=%s", snapshot_id, failure)
            # What it was to hold is new again.
            self._new_bytes += 1
            self.next_deadline_ms = now_ms + _RETRY_MS
            return
        if self._new_bytes and self._rules.interval_ms > 0:
            # Consumed while it was written; the next one must not find that it is not the first.
            self.next_deadline_ms = now_ms + self._rules.interval_ms
        files.appeared(snapshot_id)
        if snapshot_id.offset < log.start_offset:
            # One that was fetched meanwhile has taken its place.
            files.delete(snapshot_id)
            return
        _LOG.info("metadata snapshot written id=%s", snapshot_id)
