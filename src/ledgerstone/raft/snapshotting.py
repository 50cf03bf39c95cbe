"""Own snapshots: which are legal, and which old ones go. Pure.

Every node makes its own, from its own state machine, off the loop. A snapshot is no part of the
agreement: it only says again what is committed.
"""

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.messages.control_records import SnapshotHeaderRecord
from ledgerstone.raft.control_batches import control_records, snapshot_foot, snapshot_head
from ledgerstone.raft.events import SnapshotPlan
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import NO_SNAPSHOT, OffsetAndEpoch
from ledgerstone.records.batch import read_header

_HEAD_BYTES = 1 << 16


class IllegalSnapshot(ValueError):
    """The state machine asked for one at an offset where none may be."""


class Snapshotting:
    __slots__ = ("_next_cleaning_ms", "_quorum")

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._next_cleaning_ms = quorum.now.monotonic_ms + quorum.settings.cleaning_interval_ms

    def plan(self, end_offset: int, last_timestamp: int) -> SnapshotPlan | None:
        """The head of a snapshot of everything below `end_offset`; None if there is one."""
        quorum = self._quorum
        log = quorum.log
        if not log.start_offset <= end_offset <= quorum.high_watermark or end_offset == 0:
            raise IllegalSnapshot(
                f"offset {end_offset} is not within [{log.start_offset}, {quorum.high_watermark}]"
            )
        if end_offset == log.start_offset:
            return None
        epoch = log.epoch_of(end_offset - 1)
        assert epoch is not None, end_offset
        snapshot_id = OffsetAndEpoch(end_offset, epoch)
        if snapshot_id in quorum.snapshots.ids():
            return None
        if end_offset < log.end_offset:
            base_offset = read_header(log.read(end_offset, 1)).base_offset
            if base_offset != end_offset:
                raise IllegalSnapshot(f"offset {end_offset} is inside the batch at {base_offset}")
        head = snapshot_head(
            epoch=epoch,
            wall_ms=quorum.now.wall_ms,
            last_timestamp=last_timestamp,
            version=quorum.history.version_before(end_offset),
            voters=quorum.history.voters_before(end_offset),
        )
        return SnapshotPlan(snapshot_id, bytes(head), read_header(head).next_offset)

    def foot(self, plan: SnapshotPlan, base_offset: int) -> bytes:
        epoch, wall_ms = plan.snapshot_id.epoch, self._quorum.now.wall_ms
        return bytes(snapshot_foot(base_offset=base_offset, epoch=epoch, wall_ms=wall_ms))

    # -- cleaning -----------------------------------------------------------------------------

    def poll(self) -> int:
        now_ms = self._quorum.now.monotonic_ms
        if now_ms >= self._next_cleaning_ms:
            self._next_cleaning_ms = now_ms + self._quorum.settings.cleaning_interval_ms
            self.clean()
        return self._next_cleaning_ms

    def clean(self) -> None:
        """The oldest goes while there is too much, or it is too old; one always stays."""
        quorum = self._quorum
        ids = [each for each in quorum.snapshots.ids() if each != NO_SNAPSHOT]
        while len(ids) >= 2 and (self._is_too_much(ids) or self._is_too_old(ids[0])):
            following = ids[1]
            if following.offset > quorum.high_watermark:
                raise InvariantViolation(f"snapshot {following} is not committed")
            # The log lets go first: a crash here leaves a snapshot too many, not too few.
            quorum.log.raise_start_offset(following.offset)
            quorum.snapshots.delete(ids[0])
            quorum.history.forget_before(following.offset - 1)
            ids = ids[1:]
        if ids and NO_SNAPSHOT in quorum.snapshots.ids() and quorum.log.start_offset > 0:
            quorum.snapshots.delete(NO_SNAPSHOT)

    def _is_too_much(self, ids: list[OffsetAndEpoch]) -> bool:
        most = self._quorum.settings.retention_bytes
        return 0 <= most < sum(self._quorum.snapshots.size_of(each) for each in ids)

    def _is_too_old(self, snapshot_id: OffsetAndEpoch) -> bool:
        most_ms = self._quorum.settings.retention_ms
        if most_ms < 0:
            return False
        head = self._quorum.snapshots.read(snapshot_id, 0, _HEAD_BYTES)
        for found in control_records(head):
            if isinstance(found.record, SnapshotHeaderRecord):
                age_ms = self._quorum.now.wall_ms - found.record.last_contained_log_timestamp
                return age_ms > most_ms
        return False
