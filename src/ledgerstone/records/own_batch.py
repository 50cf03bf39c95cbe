"""Batches that a broker makes of records of its own, with all that is known of them. Pure.

A log takes one without reading it again: the header is not parsed, the checksum not compared with
what was computed a moment ago, and no record is looked at.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from ledgerstone.records.batch import (
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
    seal,
)
from ledgerstone.records.builder import RecordParts, append_record
from ledgerstone.records.control import ControlRecord, ControlType, end_txn_marker
from ledgerstone.records.record import RecordFault
from ledgerstone.records.records_facts import RecordsFacts
from ledgerstone.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)

# Of one record with a key and a value.
_PLAIN: Final = RecordsFacts(
    status=RecordFault.NONE,
    fault_index=-1,
    fault_position=-1,
    max_timestamp_delta=0,
    max_timestamp_index=0,
    min_timestamp_delta=0,
    null_key_count=0,
    first_null_key_index=-1,
    sequential=True,
    tombstone_count=0,
    last_offset_delta=0,
)


class OwnBatch(NamedTuple):
    """Its bytes are exactly one batch. The log stamps its offset and epoch into them, nothing else,
    so the same batch may go to several partitions, one after the other."""

    data: bytearray
    header: BatchHeader  # as it was built
    facts: RecordsFacts
    marker: ControlRecord | None = None  # of a control batch


def own_batch(
    records: Sequence[RecordParts],
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> OwnBatch:
    """The same bytes as `build_batch` makes of them."""
    times = [NO_TIMESTAMP if each[0] is None else each[0] for each in records]
    batch = bytearray(HEADER_SIZE)
    for index, (_, key, value, headers) in enumerate(records):
        append_record(batch, index, times[index] - times[0], key, value, headers)
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL_FLAG if transactional else 0,
        last_offset_delta=len(records) - 1,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=len(records),
    )
    seal(batch, header)
    return OwnBatch(batch, read_header(batch), _facts_of(records, times))


def own_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> OwnBatch:
    """What ends a producer's transaction, in as many partitions as it has."""
    batch = end_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
    )
    control_type = ControlType.COMMIT if commit else ControlType.ABORT
    marker = ControlRecord(control_type, 0, coordinator_epoch)
    return OwnBatch(batch, read_header(batch), _PLAIN, marker)


def _facts_of(records: Sequence[RecordParts], times: Sequence[int]) -> RecordsFacts:
    """What an inspection finds in them. Nothing is said of near tombstones."""
    if len(records) == 1:
        _, key, value, _ = records[0]
        return _facts_of_one(is_keyless=key is None, is_tombstone=value is None)
    latest = max(times)
    keyless = [index for index, each in enumerate(records) if each[1] is None]
    return _PLAIN._replace(
        max_timestamp_delta=latest - times[0],
        max_timestamp_index=times.index(latest),
        min_timestamp_delta=min(times) - times[0],
        null_key_count=len(keyless),
        first_null_key_index=keyless[0] if keyless else -1,
        tombstone_count=sum(each[2] is None for each in records),
        last_offset_delta=len(records) - 1,
    )


@cache
def _facts_of_one(*, is_keyless: bool, is_tombstone: bool) -> RecordsFacts:
    """Nearly every decision is one record."""
    return _PLAIN._replace(
        null_key_count=int(is_keyless),
        first_null_key_index=0 if is_keyless else -1,
        tombstone_count=int(is_tombstone),
    )
