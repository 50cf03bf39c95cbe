"""What an unclean stop costs: batches are checked again from the recovery point on. Grade D.

Everything below the recovery point was synced and is believed. Above it a segment keeps its good
prefix: size, CRC and rising offsets decide; its indexes are rebuilt from it. Once bytes are cut,
every later segment goes, because offsets must not have holes that nobody made on purpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ledgerstone.errors import CorruptFile
from ledgerstone.records.batch import BatchHeader
from ledgerstone.storage.filenames import Kind, ParsedName
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.producer_replay import apply_batch, reload_producers
from ledgerstone.storage.producer_state import ProducerStateTable
from ledgerstone.storage.segment import Segment


@dataclass(slots=True, kw_only=True)
class Recovery:
    """What recovery did, for the log line."""

    segments_scanned: int = 0
    bytes_scanned: int = 0
    bytes_truncated: int = 0
    segments_deleted: int = 0


def recover(
    log: PartitionLog, names: Sequence[ParsedName], *, clean: bool, recovery_point: int
) -> Recovery:
    """Makes every segment trustworthy; `names` are the files the directory had."""
    recovery = Recovery()
    unflushed = [] if clean or not len(log.segments) else log.segments.holding_from(recovery_point)
    first_unflushed = unflushed[0].base_offset if unflushed else None
    indexed = {name.offset for name in names if name.kind is Kind.INDEX and not name.suffix}
    for segment in log.segments:
        if first_unflushed is not None and segment.base_offset >= first_unflushed:
            break
        if segment.base_offset not in indexed or not _indexes_are_sane(segment, clean=clean):
            recovery.segments_scanned += 1
            recover_segment(log, segment, _producers_at(log, segment.base_offset))
            # Below the recovery point nothing is looked at again, so it must be durable now.
            segment.flush()
    if unflushed:
        _recover_unflushed(log, unflushed, recovery)
    return recovery


def _recover_unflushed(log: PartitionLog, unflushed: list[Segment], recovery: Recovery) -> None:
    producers = _producers_at(log, unflushed[0].base_offset)
    for at, segment in enumerate(unflushed):
        if at and _tail_is_missing(log, unflushed[at - 1], segment):
            recovery.segments_deleted = _delete_segments(log, unflushed[at:])
            break
        recovery.segments_scanned += 1
        truncated = recover_segment(log, segment, producers)
        recovery.bytes_scanned += segment.size + truncated
        if truncated:
            recovery.bytes_truncated += truncated
            recovery.segments_deleted = _delete_segments(log, unflushed[at + 1 :])
            break
    log.snapshots.remove_where(above=log.segments.active.next_offset())
    # It has seen every batch up to the log's end: nothing is left to replay.
    log.producers = producers


def _tail_is_missing(log: PartitionLog, before: Segment, segment: Segment) -> bool:
    """The segment before lost whole batches, so that not even a torn one shows it."""
    end_offset = log.follows.newest_in(before.base_offset + 1, segment.base_offset + 1)
    return end_offset is not None and before.next_offset() < end_offset


def recover_segment(log: PartitionLog, segment: Segment, producers: ProducerStateTable) -> int:
    """Rebuilds one segment's indexes; `producers` is the state at its base and moves along."""

    def on_batch(header: BatchHeader, batch: memoryview) -> None:
        if header.leader_epoch >= 0:
            log.epochs.assign(header.leader_epoch, header.base_offset)
        aborted = apply_batch(producers, header, batch)
        if aborted is not None:
            segment.add_aborted_txn(aborted)

    return segment.recover(on_batch, now_ms=log.clock.now_ms())


def _indexes_are_sane(segment: Segment, *, clean: bool) -> bool:
    """A clean stop vouches for the indexes that only make searches faster. The third one decides
    what a read_committed reader sees, most segments have none, and it is always looked at."""
    try:
        segment.txn_index.sanity_check()
        if not clean:
            segment.offset_index.sanity_check()
            segment.time_index.sanity_check()
    except CorruptFile:
        return False
    return True


def _producers_at(log: PartitionLog, offset: int) -> ProducerStateTable:
    producers = ProducerStateTable()
    reload_producers(producers, log.snapshots, log.segments, end_offset=offset)
    return producers


def _delete_segments(log: PartitionLog, segments: list[Segment]) -> int:
    # Highest first. Crash here: the next recovery meets a prefix of these and deletes the rest.
    for segment in reversed(segments):
        log.segments.remove(segment.base_offset)
        segment.unlink()
    return len(segments)
