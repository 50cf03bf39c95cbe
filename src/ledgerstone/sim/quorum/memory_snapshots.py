"""Snapshots in memory. Contract: `ledgerstone.raft.log.SnapshotStore`.

A name appears when its content is durable, as a rename after a sync does it. A deletion may be
undone by power loss until the next finished snapshot syncs the directory.
"""

from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.types import Buffer


class MemorySnapshots:
    def __init__(self) -> None:
        self._finished: dict[OffsetAndEpoch, bytes] = {}
        self._deleted: dict[OffsetAndEpoch, bytes] = {}
        self._part: tuple[OffsetAndEpoch, bytearray] | None = None

    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        return tuple(sorted(self._finished))

    def size_of(self, snapshot_id: OffsetAndEpoch) -> int:
        return len(self._finished[snapshot_id])

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        return self._finished[snapshot_id][position : position + max_bytes]

    def delete(self, snapshot_id: OffsetAndEpoch) -> None:
        self._deleted[snapshot_id] = self._finished.pop(snapshot_id)

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, chunk: Buffer) -> None:
        if position == 0:
            self._part = (snapshot_id, bytearray())
        assert self._part is not None
        known, content = self._part
        assert known == snapshot_id, (known, snapshot_id)
        assert len(content) == position, (len(content), position)
        content += chunk

    def drop_part(self) -> None:
        self._part = None

    # -- the disk -----------------------------------------------------------------------------

    def finish(self, snapshot_id: OffsetAndEpoch, content: bytes) -> None:
        self._finished[snapshot_id] = content
        self._deleted.clear()

    def freeze(self, snapshot_id: OffsetAndEpoch) -> bool:
        """False if the part was dropped meanwhile."""
        if self._part is None or self._part[0] != snapshot_id:
            return False
        self.finish(snapshot_id, bytes(self._part[1]))
        self._part = None
        return True

    def lose_power(self, *, undeletes: bool) -> None:
        self._part = None
        if undeletes:
            self._finished.update(self._deleted)
        self._deleted.clear()
