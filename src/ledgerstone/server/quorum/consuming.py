"""Hands the state machine what is committed, from snapshots and from the log. Grade D.

At a start, damage found on the way stops it. Later, a batch that cannot be read costs a voter of
several its process: it has no other way to know what the cluster decided.
"""

from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.errors import KafkaError, LogStorageError, StorageError
from ledgerstone.protocol.messages.metadata_records import TopicRecord
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.raft.events import Now
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.server.quorum.committed_batches import committed_batches
from ledgerstone.server.quorum.disk_log import DiskLog, refusal
from ledgerstone.server.quorum.door import CommittedBatch, MetadataStateMachine
from ledgerstone.server.quorum.meter import QuorumMeter
from ledgerstone.server.quorum.own_snapshots import OwnSnapshots
from ledgerstone.server.quorum.snapshot_files import SnapshotFiles
from ledgerstone.server.quorum.snapshot_reading import snapshot_records
from ledgerstone.server.quorum.snapshot_writing import SnapshotWork

UNREADABLE: Final = (KafkaError, StorageError, ProtocolViolation, ValueError, OSError)


class QuorumConsumer:
    """`end_offset`: everything below was handed over."""

    def __init__(
        self, log: DiskLog, snapshots: SnapshotFiles, own_snapshots: OwnSnapshots, clock: Clock
    ) -> None:
        self.own_snapshots = own_snapshots
        self.meter = QuorumMeter()
        self.end_offset = log.start_offset
        self.is_started = False
        # None: a snapshot has forgotten the deleted ones.
        self.topic_ids: set[bytes] | None = set()
        self._log = log
        self._snapshots = snapshots
        self._clock = clock
        self._machine: MetadataStateMachine | None = None

    def start(self, machine: MetadataStateMachine) -> None:
        self._machine = machine

    @property
    def machine(self) -> MetadataStateMachine:
        assert self._machine is not None, "the quorum was not started"
        return self._machine

    def load(self, snapshot_id: OffsetAndEpoch) -> None:
        path = self._snapshots.path_of(snapshot_id)
        try:
            file = self._snapshots.open(snapshot_id)
            try:
                self.machine.load(snapshot_id, snapshot_records(file, path))
            finally:
                file.close()
        except UNREADABLE as error:
            raise refusal(f"{path}: {error}") from error
        self.topic_ids = None
        self.end_offset = snapshot_id.offset
        self.own_snapshots.loaded()
        self._log.committed(snapshot_id.offset)

    def consume(self, end: int) -> None:
        self._log.committed(end)
        machine, offset = self.machine, self.end_offset
        try:
            for batch in committed_batches(self._log, offset, end):
                offset = batch.base_offset
                self.end_offset = batch.next_offset
                machine.committed(batch if self.is_started else self._read_now(batch))
                self.own_snapshots.consumed(batch, self._clock.monotonic_ms())
                self.meter.applied(batch.timestamp)
                offset = batch.next_offset
        except UNREADABLE as error:
            if self.is_started and isinstance(error, LogStorageError):
                raise
            raise refusal(f"{self._log.where(offset)}: {error}") from error

    def _read_now(self, batch: CommittedBatch) -> CommittedBatch:
        """At a start: a record that cannot be read is damage of the log."""
        records = batch.records()
        if self.topic_ids is not None:
            self.topic_ids.update(r.topic_id for r in records if isinstance(r, TopicRecord))
        return batch._replace(records=lambda: records)

    def snapshot_due(self, node: RaftNode, now: Now) -> SnapshotWork | None:
        return self.own_snapshots.due(node, self.machine, self._snapshots, self.end_offset, now)
