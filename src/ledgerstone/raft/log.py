"""What a replica needs of a disk: a log and a place for snapshots. Pure: protocols.

Both act at once and in order, as writes to a page cache do. Nothing is durable before the sync that
`Ready` asks for is reported back; `storage.PartitionLog` and the simulator's log fit equally.
"""

from typing import Protocol

from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.types import Buffer


class ReplicatedLog(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """Of the last record. Of the snapshot it starts at, if there is none; 0 in a new log."""
        ...

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """The largest epoch at or below `epoch`, and where it ends; None if all are smaller.

        An epoch below all: `epoch` itself with the start offset."""
        ...

    def epoch_of(self, offset: int) -> int | None:
        """Of the record at `offset`; None outside the log."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset`, at least one if there is one."""
        ...

    def append(self, batch: Buffer) -> None:
        """One batch that has its offsets and its epoch; its base offset is `end_offset`."""
        ...

    def truncate_to(self, end_offset: int) -> None:
        """Removes what lies at or above `end_offset`, a batch boundary."""
        ...

    def start_over(self, at: OffsetAndEpoch) -> None:
        """Removes everything; the next record has offset `at.offset`, after one of `at.epoch`."""
        ...

    def raise_start_offset(self, offset: int) -> None:
        """Records below are in a snapshot; whole segments of them may go."""
        ...


class SnapshotStore(Protocol):
    """Finished snapshots, and at most one that is being fetched."""

    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """Finished ones, oldest first."""
        ...

    def size_of(self, snapshot_id: OffsetAndEpoch) -> int: ...

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes: ...

    def delete(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, chunk: Buffer) -> None:
        """A chunk of the one being fetched. Position 0 begins anew."""
        ...

    def drop_part(self) -> None: ...
