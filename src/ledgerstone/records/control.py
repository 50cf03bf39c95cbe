"""Control batches: makes the markers that end a transaction, and reads any marker.

Grade P. Applications never see a control batch; readers skip it. The layout of
key and value is in README.md.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from ledgerstone.records.builder import seal_batch
from ledgerstone.records.record import Record, iter_records
from ledgerstone.types import NO_LEADER_EPOCH, NO_SEQUENCE, Buffer

NO_COORDINATOR_EPOCH: Final = -1

_KEY: Final = Struct(">hh")
_END_TXN_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
# The record of a marker as every broker writes it: length 16, no attributes, deltas of 0, a key of
# 4 bytes; version and type; a value of 6 bytes; version and coordinator epoch; no headers. Written
# and read as one piece, because every transaction has one in each of its partitions.
_RECORD: Final = Struct(">5shhBhiB")
_BEFORE_KEY: Final = bytes((16 << 1, 0, 0, 0, 4 << 1))
_BEFORE_VALUE: Final = 6 << 1
MARKER_SIZE: Final = HEADER_SIZE + _RECORD.size


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
    record = _RECORD.pack(
        _BEFORE_KEY, _VERSION, control_type, _BEFORE_VALUE, _VERSION, coordinator_epoch, 0
    )
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )
    return seal_batch(header, record)


def read_control_record(batch: Buffer, position: int = 0) -> ControlRecord:
    """Reads the control batch at `position`; a type from a later release is UNKNOWN."""
    header = read_header(batch, position)
    if not header.is_control:
        raise CorruptRecord(f"batch at offset {header.base_offset} is not a control batch")
    if header.size == MARKER_SIZE <= len(batch) - position:
        usual = _usual_marker(batch, position, header)
        if usual is not None:
            return usual
    record = next(iter_records(batch, position), None)
    if record is None:
        raise CorruptRecord(f"control batch at offset {header.base_offset} has no record")
    return _parse(record)


def _usual_marker(batch: Buffer, position: int, header: BatchHeader) -> ControlRecord | None:
    """None where the record is not laid out as brokers do it, and has to be read step by step."""
    before_key, key_version, number, before_value, value_version, epoch, headers = (
        _RECORD.unpack_from(batch, position + HEADER_SIZE)
    )
    is_usual = (
        before_key == _BEFORE_KEY
        and before_value == _BEFORE_VALUE
        and key_version == value_version == _VERSION
        and number in (ControlType.ABORT, ControlType.COMMIT)
        and not headers
        and header.record_count == 1
        and not header.attributes & CODEC_MASK
    )
    return ControlRecord(ControlType(number), key_version, epoch) if is_usual else None


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
