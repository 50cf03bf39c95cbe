"""Control records of the quorum: built into batches, and read from them. Pure.

They are byte for byte Kafka's. The state machine above never sees them.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptRecord
from ledgerstone.protocol.codec import decode, encode
from ledgerstone.protocol.message import Message
from ledgerstone.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageGrantingVoter,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersEndpoint,
    VotersKraftVersionFeature,
    VotersRecord,
    VotersVoter,
)
from ledgerstone.raft.replica import Listener, ReplicaKey
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.records.batch import BatchHeader, iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import ControlType
from ledgerstone.records.record import iter_records
from ledgerstone.types import Buffer

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0
_VERSION: Final = 0

_CLASSES: Final[dict[int, type[Message]]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_TYPES: Final = {record_class: number for number, record_class in _CLASSES.items()}


@dataclass(frozen=True, slots=True)
class FoundControl:
    offset: int
    record: Message


def control_batch(
    records: Sequence[Message], *, base_offset: int, epoch: int, wall_ms: int
) -> bytearray:
    parts = [
        (wall_ms, _KEY.pack(_KEY_VERSION, _TYPES[type(record)]), _body(record), ())
        for record in records
    ]
    return build_batch(parts, base_offset=base_offset, leader_epoch=epoch, control=True)


def leader_change(
    leader_id: int, voters: Iterable[ReplicaKey], granting: Iterable[ReplicaKey]
) -> LeaderChangeMessage:
    """Kafka writes version 0: ids only."""
    return LeaderChangeMessage(
        version=_VERSION,
        leader_id=leader_id,
        voters=[LeaderChangeMessageVoter(voter_id=key.id) for key in voters],
        granting_voters=[LeaderChangeMessageGrantingVoter(voter_id=key.id) for key in granting],
    )


def version_record(version: int) -> KRaftVersionRecord:
    return KRaftVersionRecord(version=_VERSION, kraft_version=version)


def voters_record(voters: VoterSet) -> VotersRecord:
    return VotersRecord(version=_VERSION, voters=[_written(voter) for voter in voters.voters])


def voters_of(record: VotersRecord) -> VoterSet:
    return VoterSet(
        Voter(
            key=ReplicaKey(each.voter_id, each.voter_directory_id),
            listeners=tuple(Listener(at.name, at.host, at.port) for at in each.endpoints),
            min_version=each.kraft_version_feature.min_supported_version,
            max_version=each.kraft_version_feature.max_supported_version,
        )
        for each in record.voters
    )


# -- snapshots ------------------------------------------------------------------------------------


def snapshot_head(
    *, epoch: int, wall_ms: int, last_timestamp: int, version: int, voters: VoterSet | None
) -> bytearray:
    """The first batch: header, and what the records below the snapshot's end said of voters."""
    records: list[Message] = [
        SnapshotHeaderRecord(version=_VERSION, last_contained_log_timestamp=last_timestamp)
    ]
    if version > 0:
        records.append(version_record(version))
        if voters is not None:
            records.append(voters_record(voters))
    return control_batch(records, base_offset=0, epoch=epoch, wall_ms=wall_ms)


def snapshot_foot(*, base_offset: int, epoch: int, wall_ms: int) -> bytearray:
    """The last batch. Offsets in a snapshot begin at 0 and mean nothing."""
    footer = SnapshotFooterRecord(version=_VERSION)
    return control_batch([footer], base_offset=base_offset, epoch=epoch, wall_ms=wall_ms)


def bootstrap_snapshot(voters: VoterSet, *, wall_ms: int) -> bytes:
    """`0…0-0…0.checkpoint`, which a format with voters writes. It is never served."""
    head = snapshot_head(epoch=0, wall_ms=wall_ms, last_timestamp=wall_ms, version=1, voters=voters)
    count = 3
    return bytes(head) + bytes(snapshot_foot(base_offset=count, epoch=0, wall_ms=wall_ms))


# -- reading --------------------------------------------------------------------------------------


def control_records(batches: Buffer) -> Iterator[FoundControl]:
    """Of every control batch in `batches`; types of a later release are passed over."""
    for position, header in iter_headers(batches):
        if header.is_control:
            yield from records_of(batches, position, header)


def records_of(batches: Buffer, position: int, header: BatchHeader) -> Iterator[FoundControl]:
    for record in iter_records(memoryview(batches)[position : position + header.size]):
        if record.key is None or len(record.key) < _KEY.size or record.value is None:
            raise CorruptRecord(f"control record at offset {record.offset} has no type or value")
        record_class = _CLASSES.get(_KEY.unpack_from(record.key)[1])
        if record_class is not None:
            # Values say their version twice: the schema's first field is the version itself.
            version = int.from_bytes(record.value[:2], "big", signed=True)
            yield FoundControl(record.offset, _decoded(record_class, version, record.value))


def _decoded(record_class: type[Message], version: int, value: bytes) -> Message:
    newest = 1 if record_class is LeaderChangeMessage else 0
    decoded, _ = decode(record_class, min(max(version, 0), newest), value)
    return decoded


def _body(record: Message) -> bytes:
    return b"".join(bytes(piece) for piece in encode(record, _VERSION))  # type: ignore[arg-type]


def _written(voter: Voter) -> VotersVoter:
    return VotersVoter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[
            VotersEndpoint(name=at.name, host=at.host, port=at.port) for at in voter.listeners
        ],
        kraft_version_feature=VotersKraftVersionFeature(
            min_supported_version=voter.min_version, max_supported_version=voter.max_version
        ),
    )
