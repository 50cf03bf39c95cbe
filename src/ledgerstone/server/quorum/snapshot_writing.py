"""Writes a snapshot of our own, in a thread. Grade D, through the disk it is handed."""

from collections.abc import Iterable
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.fs import Filesystem
from ledgerstone.metadata.records import encode_records
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.raft.control_batches import snapshot_foot
from ledgerstone.raft.events import SnapshotPlan
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.storage.sync_plan import NewFile, give_name

# Kafka's limit of a batch is 8 MiB. Small ones keep the thread from holding the interpreter.
_BATCH_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWork:
    """`records` come from an image that does not change, so a thread may iterate."""

    plan: SnapshotPlan
    file: NewFile
    records: Iterable[MetadataRecord]
    wall_ms: int


def write_snapshot(fs: Filesystem, work: SnapshotWork) -> None:
    """Returns when it is durable under its name. Crash here: the next start drops the part."""
    epoch, wall_ms = work.plan.snapshot_id.epoch, work.wall_ms
    file = fs.open(work.file.temporary, create=True)
    try:
        file.truncate(0)
        position, offset = 0, work.plan.first_offset

        def write(data: bytes | bytearray) -> None:
            nonlocal position
            file.pwrite(data, position)
            position += len(data)

        write(work.plan.head)
        parts: list[RecordParts] = []
        size = 0
        # The first of them says in which versions the others are written.
        for value in encode_records(work.records):
            parts.append((wall_ms, None, value, ()))
            size += len(value)
            if size >= _BATCH_BYTES:
                write(build_batch(parts, base_offset=offset, leader_epoch=epoch))
                offset += len(parts)
                parts, size = [], 0
        if parts:
            write(build_batch(parts, base_offset=offset, leader_epoch=epoch))
            offset += len(parts)
        write(snapshot_foot(base_offset=offset, epoch=epoch, wall_ms=wall_ms))
    finally:
        file.close()
    give_name(fs, work.file.temporary, work.file.path)
