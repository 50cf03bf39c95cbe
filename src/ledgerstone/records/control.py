"""Control batches: makes the markers that end a transaction, and reads any marker.

Grade P. Applications never see a control batch; readers skip it. The layout of
key and value is in README.md.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import Record, iter_records
from ledgerstone.types import NO_LEADER_EPOCH, Buffer

NO_COORDINATOR_EPOCH: Final = -1

_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """The one record of a control batch. Only ABORT and COMMIT carry a coordinator epoch."""

    type: ControlType
    version: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH


def end_txn_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The 78 bytes that end a producer's transaction in one partition."""
    control_type = ControlType.COMMIT if commit else ControlType.ABORT
    key = _KEY.pack(_VERSION, control_type)
    value = _END_TXN_VALUE.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [(timestamp, key, value, ())],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_control_record(batch: Buffer, position: int = 0) -> ControlRecord:
    """Reads the control batch at `position`; a type from a later release is UNKNOWN."""
    header = read_header(batch, position)
    if not header.is_control:
        raise CorruptRecord(f"batch at offset {header.base_offset} is not a control batch")
    record = next(iter_records(batch, position), None)
    if record is None:
        raise CorruptRecord(f"control batch at offset {header.base_offset} has no record")
    return _parse(record)


def _parse(record: Record) -> ControlRecord:
    key = record.key
    # A later version may append fields; the first four bytes stay.
    if key is None or len(key) < _KEY.size:
        raise CorruptRecord(f"control record at offset {record.offset}: key {key!r} is too short")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecord(f"control record at offset {record.offset}: key version {version}")
    if number not in (ControlType.ABORT, ControlType.COMMIT):
        known = ControlType.LEADER_CHANGE <= number <= ControlType.KRAFT_VOTERS
        return ControlRecord(ControlType(number) if known else ControlType.UNKNOWN, version)

    value = record.value
    if value is None or len(value) < _END_TXN_VALUE.size:
        raise CorruptRecord(
            f"control record at offset {record.offset}: marker value {value!r} is too short"
        )
    value_version, coordinator_epoch = _END_TXN_VALUE.unpack_from(value)
    if value_version < 0:
        raise CorruptRecord(
            f"control record at offset {record.offset}: marker version {value_version}"
        )
    return ControlRecord(ControlType(number), version, coordinator_epoch)
