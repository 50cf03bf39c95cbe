"""Voter sets and kraft.versions, picked out of batches as they are appended or read back. Pure."""

from ledgerstone.errors import CorruptRecord
from ledgerstone.protocol.messages.control_records import KRaftVersionRecord, VotersRecord
from ledgerstone.raft.control_batches import control_records, records_of, voters_of
from ledgerstone.raft.log import ReplicatedLog, SnapshotStore
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.raft.voter_history import VoterHistory
from ledgerstone.records.batch import BatchHeader, iter_headers, read_header, verify_crc
from ledgerstone.types import Buffer

_CHUNK_BYTES = 1 << 20


def note_control_records(
    history: VoterHistory, batches: Buffer, position: int, header: BatchHeader
) -> None:
    """They hold from the append on, committed or not."""
    if not header.is_control:
        return
    for found in records_of(batches, position, header):
        if isinstance(found.record, VotersRecord):
            history.add_voters(found.offset, voters_of(found.record))
        elif isinstance(found.record, KRaftVersionRecord):
            history.add_version(found.offset, found.record.kraft_version)


def read_history(history: VoterHistory, log: ReplicatedLog, snapshots: SnapshotStore) -> None:
    """At a start, and after a snapshot replaced the log."""
    history.clear()
    offset = log.start_offset
    base = _base_snapshot(log, snapshots)
    if base is not None:
        read_snapshot(history, snapshots, base)
        offset = max(offset, base.offset)
    while offset < log.end_offset:
        batches = log.read(offset, _CHUNK_BYTES)
        before = offset
        for position, header in iter_headers(batches):
            # The first batch may begin below the snapshot's end only if it was read from there.
            if header.base_offset >= offset:
                note_control_records(history, batches, position, header)
            offset = header.next_offset
        if offset == before:
            raise CorruptRecord(f"no batch can be read at offset {offset}")


def _base_snapshot(log: ReplicatedLog, snapshots: SnapshotStore) -> OffsetAndEpoch | None:
    """The newest one that the log continues."""
    base = None
    for each in snapshots.ids():
        if each.offset <= log.end_offset:
            base = each
    return base


def read_snapshot(
    history: VoterHistory, snapshots: SnapshotStore, snapshot_id: OffsetAndEpoch
) -> None:
    """Its first batch says what held at its end."""
    head = snapshots.read(snapshot_id, 0, _CHUNK_BYTES)
    size = read_header(head).size
    if size > len(head):
        head = snapshots.read(snapshot_id, 0, size)
    # Whoever wins by a damaged voter set is a second leader. The one that a format writes is read
    # nowhere else.
    verify_crc(head, 0, read_header(head))
    for found in control_records(memoryview(head)[:size]):
        if isinstance(found.record, VotersRecord):
            history.add_voters(snapshot_id.offset - 1, voters_of(found.record))
        elif isinstance(found.record, KRaftVersionRecord):
            history.add_version(snapshot_id.offset - 1, found.record.kraft_version)
