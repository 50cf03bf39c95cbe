"""What the logs say of transactions, read batch by batch: the judge of what clients were told.

A transactional record is open until a marker of its producer follows it in its partition, and then
committed or aborted for good. Nothing here asks the broker: indexes, producer states and the
coordinator are what is judged by this.
"""

import enum
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from ledgerstone.coordinator.group_records import OffsetEntry, read_record
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.codec import decode
from ledgerstone.protocol.messages.txn_records import TransactionLogKey, TransactionLogValue
from ledgerstone.records.batch import BatchHeader, iter_headers
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.sim.model import records_of
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import read
from ledgerstone.types import TopicPartition

_READ_BYTES: Final = 1 << 20
_REMEMBERED: Final = 4096
_VERSION: Final = struct.Struct(">h")
OFFSETS_TOPIC: Final = "__consumer_offsets"
STATE_TOPIC: Final = "__transaction_state"


class Fate(enum.Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class TxnStatus(enum.IntEnum):
    """`transaction_status` of a record of the coordinator."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


class FatedRecord(NamedTuple):
    """A record and where it lies; `fate` of a plain record is committed."""

    offset: int
    producer_id: int
    epoch: int
    serial: int
    key: bytes
    value: bytes | None
    fate: Fate


class FoundMarker(NamedTuple):
    offset: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    is_commit: bool


@dataclass(slots=True)
class PartitionFates:
    """One partition, in the order of offsets."""

    entries: list[FatedRecord] = field(default_factory=list)
    markers: list[FoundMarker] = field(default_factory=list)
    # First offset of each producer's transaction that has no marker yet.
    open: dict[int, int] = field(default_factory=dict)
    end_offset: int = 0

    @property
    def first_open_offset(self) -> int | None:
        return min(self.open.values(), default=None)


class GroupCommit(NamedTuple):
    """An offset of a group, in a transaction or not. `metadata` names the attempt."""

    group: str
    topic_partition: TopicPartition
    position: int
    metadata: str
    entry: FatedRecord


class CoordinatorState(NamedTuple):
    producer_id: int
    epoch: int
    state: TxnStatus
    partitions: tuple[TopicPartition, ...]
    last_update_ms: int


def decided_in(log: PartitionLog, below: int | None = None) -> PartitionFates:
    """What a partition says, or said when it ended at `below`."""
    # What a failed append has left behind the end is no part of the log.
    return decide(batches_of(log), log.log_end_offset if below is None else below)


def batches_of(log: PartitionLog, start: int = 0) -> Iterator[bytes]:
    offset = max(log.log_start_offset, start)
    while offset < log.log_end_offset:
        piece = read(log, offset, max_bytes=_READ_BYTES).slice
        if piece is None:
            return
        data = piece.read()
        yield data
        for _, header in iter_headers(data):
            offset = header.next_offset


def decide(pieces: Iterator[bytes], below: int | None = None) -> PartitionFates:
    found = PartitionFates()
    # Places in `entries` of what is open, by producer.
    waiting: dict[int, list[int]] = {}
    for data in pieces:
        for position, header in iter_headers(data):
            if below is not None and header.base_offset >= below:
                return found
            found.end_offset = header.next_offset
            if header.is_control:
                _take_marker(found, waiting, data, position, header)
            else:
                _take_records(found, waiting, data, position, header)
    return found


def _take_marker(
    found: PartitionFates,
    waiting: dict[int, list[int]],
    data: bytes,
    position: int,
    header: BatchHeader,
) -> None:
    if not header.is_transactional or not header.record_count:
        # Emptied by a pass, long after what it decided; it only remembers its producer.
        return
    control = _control_of(data[position : position + header.size])
    producer_id, is_commit = header.producer_id, control.type is ControlType.COMMIT
    found.markers.append(
        FoundMarker(
            header.base_offset,
            producer_id,
            header.producer_epoch,
            control.coordinator_epoch,
            is_commit,
        )
    )
    fate = Fate.COMMITTED if is_commit else Fate.ABORTED
    for place in waiting.pop(producer_id, ()):
        found.entries[place] = found.entries[place]._replace(fate=fate)
    found.open.pop(producer_id, None)


_control_of = lru_cache(_REMEMBERED)(read_control_record)


def _take_records(
    found: PartitionFates,
    waiting: dict[int, list[int]],
    data: bytes,
    position: int,
    header: BatchHeader,
) -> None:
    is_open = header.is_transactional
    producer_id = header.producer_id
    if is_open:
        found.open.setdefault(producer_id, header.base_offset)
    fate = Fate.OPEN if is_open else Fate.COMMITTED
    for offset, serial, key, value in records_of(data[position : position + header.size]):
        if is_open:
            waiting.setdefault(producer_id, []).append(len(found.entries))
        found.entries.append(
            FatedRecord(offset, producer_id, header.producer_epoch, serial, key, value, fate)
        )


_said = lru_cache(_REMEMBERED)(read_record)


def commits_in(decided: PartitionFates) -> list[GroupCommit]:
    """Of a partition of the offsets topic; a tombstone is position -1."""
    found = []
    for entry in decided.entries:
        said = _said(entry.key, entry.value)
        if isinstance(said, OffsetEntry):
            position = -1 if said.committed is None else said.committed.offset
            metadata = "" if said.committed is None else said.committed.metadata or ""
            found.append(
                GroupCommit(said.group_id, said.topic_partition, position, metadata, entry)
            )
    return found


def states_in(decided: PartitionFates) -> dict[str, CoordinatorState]:
    """Of a partition of the coordinator's log: the last state of each transactional id."""
    last: dict[bytes, bytes | None] = {}
    for entry in decided.entries:
        last[entry.key] = entry.value
    found: dict[str, CoordinatorState] = {}
    for raw_key, raw_value in last.items():
        if raw_value is not None:
            key, _ = decode(TransactionLogKey, 0, raw_key, _VERSION.size)
            found[key.transactional_id] = _state(raw_value)
    return found


@lru_cache(_REMEMBERED)
def _state(raw: bytes) -> CoordinatorState:
    (version,) = _VERSION.unpack_from(raw)
    value, _ = decode(TransactionLogValue, version, raw, _VERSION.size)
    partitions = tuple(
        TopicPartition(each.topic, number)
        for each in value.transaction_partitions or ()
        for number in each.partition_ids
    )
    return CoordinatorState(
        value.producer_id,
        value.producer_epoch,
        TxnStatus(value.transaction_status),
        partitions,
        value.transaction_last_update_timestamp_ms,
    )
