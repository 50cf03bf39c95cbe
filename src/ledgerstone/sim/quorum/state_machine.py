"""What stands on top of each replica: a running hash of everything committed. Part of sim.

Two replicas that consumed the same offsets must have the same hash, whether they read the log from
the beginning or started from a snapshot.
"""

import zlib
from typing import Protocol

from ledgerstone.raft.events import Leadership, SnapshotPlan
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.sim.quorum.memory_log import MemoryLog
from ledgerstone.sim.quorum.memory_snapshots import MemorySnapshots


class State(Protocol):
    """What the hands of a node feed, in the order of the log."""

    last_timestamp: int

    @property
    def end_offset(self) -> int: ...

    @property
    def digest(self) -> int: ...

    @property
    def batches_since_snapshot(self) -> int: ...

    def apply(self, log: MemoryLog, high_watermark: int) -> None: ...

    def load(self, snapshots: MemorySnapshots, snapshot_id: OffsetAndEpoch) -> None: ...

    def leadership(self, leadership: Leadership) -> None: ...

    def snapshot(self, node: RaftNode, plan: SnapshotPlan, padding: int) -> bytes | None:
        """None: not at this offset."""
        ...


class StateMachine:
    def __init__(self) -> None:
        self.end_offset = 0
        self.digest = 0
        self.batches_since_snapshot = 0
        self.last_timestamp = 0

    def apply(self, log: MemoryLog, high_watermark: int) -> None:
        for entry in log.entries_from(self.end_offset):
            if entry.next_offset > high_watermark:
                break
            assert entry.base_offset == self.end_offset, (entry.base_offset, self.end_offset)
            fact = f"{self.digest} {entry.base_offset} {entry.epoch} {entry.crc}"
            self.digest = zlib.crc32(fact.encode())
            self.end_offset = entry.next_offset
            self.batches_since_snapshot += 1

    def load(self, snapshots: MemorySnapshots, snapshot_id: OffsetAndEpoch) -> None:
        content = snapshots.read(snapshot_id, 0, snapshots.size_of(snapshot_id))
        for position, header in iter_headers(content):
            if header.is_control:
                continue
            for record in iter_records(content, position):
                assert record.value is not None
                end_offset, digest = record.value.decode().split()[:2]
                self.end_offset, self.digest = int(end_offset), int(digest)
        assert self.end_offset == snapshot_id.offset, (self.end_offset, snapshot_id)
        self.batches_since_snapshot = 0

    def leadership(self, leadership: Leadership) -> None:
        """Proposals are made by the workload, not here."""

    def snapshot(self, node: RaftNode, plan: SnapshotPlan, padding: int) -> bytes:
        """Head, one batch of state, foot."""
        text = f"{self.end_offset} {self.digest} ".encode() + b"." * padding
        state = build_batch(
            [(self.last_timestamp, None, text, ())],
            base_offset=plan.first_offset,
            leader_epoch=plan.snapshot_id.epoch,
        )
        self.batches_since_snapshot = 0
        return plan.head + bytes(state) + node.snapshot_foot(plan, plan.first_offset + 1)
