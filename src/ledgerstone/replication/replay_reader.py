"""A log read from its beginning, for machines that are rebuilt from it. Grade D.

Every batch is checked before it is believed. Control batches are understood, not skipped: whoever
keeps transactional state must know which producer committed and which aborted.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ledgerstone.errors import CorruptRecord, KafkaError
from ledgerstone.records.batch import BatchHeader, iter_headers, verify_crc
from ledgerstone.records.control import ControlRecord, read_control_record
from ledgerstone.records.record import Record, iter_records
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import read

_READ_BYTES: Final = 4 << 20


class ReplayedBatch(NamedTuple):
    """Either `records`, or what a control batch says; neither for one that was emptied."""

    header: BatchHeader
    records: list[Record]
    control: ControlRecord | None = None


# Called with the offset of what cannot be read, and why.
OnDamage = Callable[[int, KafkaError], None]


def replay_batches(
    log: PartitionLog, *, max_bytes: int = _READ_BYTES, on_damage: OnDamage | None = None
) -> Iterator[ReplayedBatch]:
    """Every batch up to the log's end. CorruptRecord where one is damaged, unless `on_damage` is
    given: then reading goes on behind it."""
    offset, is_in_hole = log.log_start_offset, False
    while offset < log.log_end_offset:
        try:
            piece = read(log, offset, max_bytes=max_bytes).slice
        except CorruptRecord as error:
            if on_damage is None:
                raise
            # The log knows of a hole, and not how many offsets it had.
            if not is_in_hole:
                on_damage(offset, error)
            offset, is_in_hole = offset + 1, True
            continue
        if piece is None:
            return
        is_in_hole = False
        batches = piece.read()
        for position, header in iter_headers(batches):
            try:
                yield _checked(log, batches, position, header, offset)
            except KafkaError as error:
                if on_damage is None:
                    raise
                on_damage(header.base_offset, error)
            offset = header.next_offset


def _checked(
    log: PartitionLog, batches: bytes, position: int, header: BatchHeader, due: int
) -> ReplayedBatch:
    verify_crc(batches, position, header)
    if not due <= header.last_offset < log.log_end_offset:
        raise CorruptRecord(f"a batch ends at {header.last_offset}, {due} was due")
    if header.record_count == 0:
        # The cleaner keeps an emptied batch, a marker's too, for its producer's sake.
        return ReplayedBatch(header, [])
    if header.is_control:
        return ReplayedBatch(header, [], read_control_record(batches, position))
    return ReplayedBatch(header, list(iter_records(batches, position)))
