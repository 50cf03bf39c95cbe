"""Feeding batches into the producer state: the one path for appends, recovery and reload. Grade D.

producer_state decides what a batch means for its producer. This module only feeds it batches, and
reads a control record where the header is not enough.
"""

from typing import Final

from ledgerstone.records.batch import CONTROL_FLAG, BatchHeader
from ledgerstone.records.control import ControlRecord, ControlType, read_control_record
from ledgerstone.storage.batch_scan import scan_headers
from ledgerstone.storage.producer_snapshots import ProducerSnapshots
from ledgerstone.storage.producer_state import CompletedTxn, ProducerStateTable
from ledgerstone.storage.segments import Segments
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import NO_PRODUCER_ID, Buffer

LOOK_BACK_BYTES: Final = 1 << 20


def apply_batch(
    producers: ProducerStateTable,
    header: BatchHeader,
    batch: Buffer,
    marker: ControlRecord | None = None,
) -> AbortedTxnEntry | None:
    """Applies one batch; returns the entry for the transaction index if it was an abort. A
    `marker` that is not handed in is read."""
    completed = None
    if header.producer_id > NO_PRODUCER_ID:
        if header.attributes & CONTROL_FLAG:
            completed = _apply_marker(producers, header, batch, marker)
        else:
            producers.update(header)
    producers.map_end_offset = header.next_offset
    if completed is None or not completed.is_aborted:
        return None
    return AbortedTxnEntry(
        completed.producer_id,
        completed.first_offset,
        completed.last_offset,
        producers.last_stable_offset(completed),
    )


def _apply_marker(
    producers: ProducerStateTable,
    header: BatchHeader,
    batch: Buffer,
    marker: ControlRecord | None,
) -> CompletedTxn | None:
    if header.record_count == 0:
        # The cleaner keeps an emptied marker for its producer's sake; it ends no transaction.
        return None
    control = marker or read_control_record(batch)
    if control.type not in (ControlType.COMMIT, ControlType.ABORT):
        return None
    return producers.end_transaction(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=control.coordinator_epoch,
        marker_offset=header.base_offset,
        timestamp=header.max_timestamp,
        commit=control.type is ControlType.COMMIT,
    )


def reload_producers(
    producers: ProducerStateTable,
    snapshots: ProducerSnapshots,
    segments: Segments,
    *,
    end_offset: int,
) -> None:
    """Restores the table as of `end_offset`: newest snapshot, then the batches after it.

    Differs from Kafka: includes batches below the log start. They are still in their segment, and
    an older snapshot has neither their sequences nor the transactions they ended."""
    position = segments.first.base_offset
    producers.truncate_fully_and_start_at(position)
    newest = snapshots.load_newest(end_offset)
    if newest is not None:
        position, entries = newest
        producers.load(entries, position)
        if entries:
            _remember_earlier_batches(producers, segments, position)
    replay_range(producers, segments, position, end_offset)
    producers.map_end_offset = end_offset


def _remember_earlier_batches(
    producers: ProducerStateTable, segments: Segments, end_offset: int
) -> None:
    """A snapshot keeps one batch per producer; the log still has the ones before it.

    Differs from Kafka: a retry of any of the last five batches is a duplicate after a restart too,
    as long as it lies in the last LOOK_BACK_BYTES."""
    left = LOOK_BACK_BYTES
    for segment in reversed([each for each in segments if each.base_offset < end_offset]):
        if left <= 0:
            return
        found = segment.find(end_offset) if segment.size else None
        end = segment.size if found is None else found.position
        start = segment.offset_index.floor_position(max(0, end - left))
        headers = [header for _, header in scan_headers(segment.file, start, end)]
        for header in reversed(headers):
            if header.has_producer_id:
                producers.remember_earlier(header)
        left -= end - start


def replay_range(
    producers: ProducerStateTable, segments: Segments, start_offset: int, end_offset: int
) -> None:
    if start_offset >= end_offset:
        return
    for segment in segments.holding_from(start_offset):
        if segment.base_offset >= end_offset:
            return
        found = segment.find(start_offset) if segment.size else None
        if found is None:
            continue
        for at, header in scan_headers(segment.file, found.position, segment.size):
            if header.base_offset >= end_offset:
                return
            batch = segment.file.pread(header.size, at) if header.is_control else b""
            apply_batch(producers, header, batch)
