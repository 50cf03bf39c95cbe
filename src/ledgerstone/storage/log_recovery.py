"""Recovery after an unclean stop: checks batches again from the recovery point on. Grade D.

Everything below the recovery point was synced and is trusted. Above it a segment keeps its good
prefix, judged by size, CRC and rising offsets, and its indexes are rebuilt. Once bytes are cut,
every later segment is deleted, because only compaction may leave holes between offsets.

`_Judge` decides what may be cut: a torn tail, and data that power loss may have scrambled. A bad
batch is damage if it was synced, or if whole batches follow it and the machine stayed up. Then
nothing is changed and the log is not opened.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import CorruptFile, CorruptRecord, Damage, DamagedLog
from ledgerstone.records.batch import BatchHeader
from ledgerstone.storage.batch_scan import scan_headers
from ledgerstone.storage.damage_search import looks_torn, next_good_batch
from ledgerstone.storage.filenames import Kind, ParsedName
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.producer_replay import apply_batch, reload_producers
from ledgerstone.storage.producer_state import ProducerStateTable
from ledgerstone.storage.segment import OnBad, Segment
from ledgerstone.storage.segment_split import has_overflow
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT64_MAX

_LOG: Final = logging.getLogger(__name__)
# Behind the last entry of a time index: many times as much as lies between two entries.
_TIMES_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known about the last stop."""

    clean: bool
    recovery_point: int
    # The machine may have lost power since the log was written, and unsynced sectors with it.
    may_have_lost_power: bool = True
    # Each append was synced before the next, so a batch behind a bad one proves it was once whole.
    is_synced_in_order: bool = False
    # Never compacted: each batch begins where the one before it ends.
    is_gapless: bool = False
    high_watermark: int = 0
    # Index sizes of each segment at the clean stop, by base offset; None if unknown.
    index_sizes: Mapping[int, Sequence[int]] | None = None
    # A read failed: every segment is checked, even those that count as good.
    is_thorough: bool = False
    # Nobody has looked yet whether the offsets of the last segment outgrew it: a rebuild tells, as
    # it only ends early where something is wrong.
    may_overflow: bool = False


class OffsetsOutOfReach(Exception):
    """The last segment has to be split before it can be recovered. Nothing is changed yet."""


@dataclass(slots=True, kw_only=True)
class Recovery:
    """What recovery did, for the log line."""

    segments_scanned: int = 0
    bytes_scanned: int = 0
    bytes_truncated: int = 0
    segments_deleted: int = 0
    # Cut although it had been written whole: the operator should know.
    losses: list[Damage] = field(default_factory=list)


def recover(
    log: PartitionLog, names: Sequence[ParsedName], *, circumstances: Circumstances
) -> Recovery:
    """Makes every segment trustworthy; `names` are the files the directory had."""
    recovery = Recovery()
    judge = _Judge(log, recovery, circumstances)
    clean, recovery_point = circumstances.clean, circumstances.recovery_point
    unflushed = [] if clean or not len(log.segments) else log.segments.holding_from(recovery_point)
    first_unflushed = unflushed[0].base_offset if unflushed else None
    indexed = {
        kind: {name.offset for name in names if name.kind is kind and not name.suffix}
        for kind in (Kind.INDEX, Kind.TIME_INDEX)
    }
    for segment in log.segments:
        if first_unflushed is not None and segment.base_offset >= first_unflushed:
            break
        trouble = _trouble_with_indexes(segment, indexed, circumstances)
        if trouble is None:
            continue
        _LOG.warning("indexes rebuilt partition=%s reason=%s", log.topic_partition, trouble)
        recovery.segments_scanned += 1
        claimed = _claimed_offset(log, segment)
        recovery.bytes_truncated += recover_segment(
            log,
            segment,
            _producers_at(log, segment.base_offset),
            judge.of_synced(segment),
            is_gapless=circumstances.is_gapless,
        )
        if segment.base_offset < claimed and segment.next_offset() <= claimed:
            reason = f"it ends at offset {segment.next_offset()}, its indexes reach {claimed}"
            path = segment.path(Kind.LOG)
            raise DamagedLog([Damage(path, segment.size, 0, reason, is_gap=True)])
        # Data below the recovery point is not checked again, so it must be durable now.
        segment.flush()
    if unflushed:
        _recover_unflushed(log, unflushed, recovery, judge)
    return recovery


def _recover_unflushed(
    log: PartitionLog, unflushed: list[Segment], recovery: Recovery, judge: "_Judge"
) -> None:
    producers = _producers_at(log, unflushed[0].base_offset)
    for at, segment in enumerate(unflushed):
        if at and _tail_is_missing(log, unflushed[at - 1], segment):
            judge.tail_is_missing(unflushed[at - 1], unflushed[at:])
            recovery.segments_deleted = _delete_segments(log, unflushed[at:])
            break
        recovery.segments_scanned += 1
        later = unflushed[at + 1 :]
        truncated = recover_segment(
            log,
            segment,
            producers,
            judge.of_unsynced(segment, later),
            is_gapless=judge.circumstances.is_gapless,
        )
        recovery.bytes_scanned += segment.size + truncated
        recovery.bytes_truncated += truncated
        # Debris past the last batch is harmless: the next segment begins where it should.
        if truncated and not (later and later[0].base_offset == segment.next_offset()):
            recovery.segments_deleted = _delete_segments(log, later)
            break
    log.snapshots.remove_where(above=log.segments.active.next_offset())
    # The producer state has seen every batch up to the log's end: nothing is left to replay.
    log.producers = producers


class _Judge:
    """Decides what to do with bytes that are not valid batches, and logs it."""

    def __init__(self, log: PartitionLog, recovery: Recovery, circumstances: Circumstances) -> None:
        self._log = log
        self._recovery = recovery
        self.circumstances = circumstances

    def of_synced(self, segment: Segment) -> OnBad:
        def on_bad(position: int, end: int, offset: int) -> None:
            if not self._is_debris(segment, position, end, offset):
                self._refuse(segment, position, end, offset, "and it had been synced")

        return on_bad

    def of_unsynced(self, segment: Segment, later: Sequence[Segment]) -> OnBad:
        def on_bad(position: int, end: int, offset: int) -> None:
            about = self.circumstances
            if about.may_overflow and not later and has_overflow(segment, trust_index=False):
                raise OffsetsOutOfReach(segment.path(Kind.LOG))
            if self._is_debris(segment, position, end, offset):
                return
            if offset < (INT64_MAX if about.clean else about.recovery_point):
                self._refuse(segment, position, end, offset, "and it had been synced")
            behind = next_good_batch(segment.file, position + 1, end, from_offset=offset)
            goes_on = behind is not None or any(each.size for each in later)
            if goes_on and (about.is_synced_in_order or not about.may_have_lost_power):
                self._refuse(segment, position, end, offset, "and whole batches follow it")
            size_bytes = end - position + sum(each.size for each in later)
            is_torn = not goes_on and looks_torn(segment.file, position, end)
            why = "a torn tail" if is_torn else f"the batch at offset {offset} is not whole"
            if goes_on:
                why += "; everything after it is cut too, as power loss may have scrambled it"
            self._cut(
                Damage(segment.path(Kind.LOG), position, size_bytes, why), is_loss=not is_torn
            )

        return on_bad

    def _is_debris(self, segment: Segment, position: int, end: int, offset: int) -> bool:
        """The next segment begins with the expected offset: no batch is missing here."""
        following = self._log.segments.after(segment.base_offset)
        if following is None or following.base_offset != offset:
            return False
        reason = "debris past the last batch"
        self._cut(Damage(segment.path(Kind.LOG), position, end - position, reason), is_loss=False)
        return True

    def tail_is_missing(self, before: Segment, later: Sequence[Segment]) -> None:
        size_bytes = sum(each.size for each in later)
        reason = "the end of the segment is missing; everything after it is cut too"
        damage = Damage(before.path(Kind.LOG), before.size, size_bytes, reason, is_gap=True)
        if not self.circumstances.may_have_lost_power:
            raise DamagedLog([damage])
        self._cut(damage, is_loss=size_bytes > 0)

    def _refuse(self, segment: Segment, position: int, end: int, offset: int, why: str) -> None:
        behind = next_good_batch(segment.file, position + 1, end, from_offset=offset)
        stop = end if behind is None else behind.position
        reason = f"the batch at offset {offset} is damaged, {why}"
        raise DamagedLog([Damage(segment.path(Kind.LOG), position, stop - position, reason)])

    def _cut(self, damage: Damage, *, is_loss: bool) -> None:
        _LOG.warning(
            "log cut partition=%s file=%s position=%d bytes=%d reason=%s",
            self._log.topic_partition,
            damage.path,
            damage.position,
            damage.size_bytes,
            damage.reason,
        )
        if is_loss:
            self._recovery.losses.append(damage)


def _tail_is_missing(log: PartitionLog, before: Segment, segment: Segment) -> bool:
    """Whether the segment before lost whole batches, leaving not even a torn one."""
    end_offset = log.follows.newest_in(before.base_offset + 1, segment.base_offset + 1)
    return end_offset is not None and before.next_offset() < end_offset


def recover_segment(
    log: PartitionLog,
    segment: Segment,
    producers: ProducerStateTable,
    on_bad: OnBad | None = None,
    *,
    is_gapless: bool = False,
) -> int:
    """Rebuilds one segment's indexes; `producers` is the state at its base and is advanced."""
    aborted_txns: list[AbortedTxnEntry] = []

    def on_batch(header: BatchHeader, batch: memoryview) -> None:
        if header.leader_epoch >= 0:
            log.epochs.assign(header.leader_epoch, header.base_offset)
        aborted = apply_batch(producers, header, batch)
        if aborted is not None:
            aborted_txns.append(aborted)

    return segment.recover(
        on_batch,
        now_ms=log.clock.now_ms(),
        on_bad=on_bad,
        is_gapless=is_gapless,
        aborted_txns=aborted_txns,
    )


def _trouble_with_indexes(
    segment: Segment, indexed: Mapping[Kind, set[int]], circumstances: Circumstances
) -> str | None:
    """After a clean stop the offset and time indexes are trusted: they only speed up searches. The
    transaction index decides what read_committed readers see, so it is always checked."""
    for kind, bases in indexed.items():
        if segment.base_offset not in bases and (kind is Kind.INDEX or segment.size):
            return f"{segment.path(kind)} is missing"
    if circumstances.is_thorough:
        return f"{segment.path(Kind.LOG)} is checked from the beginning"
    if circumstances.index_sizes is not None:
        was, now = circumstances.index_sizes.get(segment.base_offset), segment.index_sizes()
        if was is not None and list(was) != now:
            kinds = (Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
            changed = [each for each, old, new in zip(kinds, was, now, strict=True) if old != new]
            return f"{segment.path(changed[0])} has a different size than at the clean stop"
    last = segment.offset_index.entry_count
    try:
        if not circumstances.clean and last and segment.offset_index.last_position >= segment.size:
            return f"{segment.path(Kind.INDEX)} reaches further than the log file"
        segment.txn_index.sanity_check()
        if not circumstances.clean:
            segment.offset_index.sanity_check()
            segment.time_index.sanity_check()
            if segment.size and not segment.time_index.entry_count:
                return f"{segment.path(Kind.TIME_INDEX)} is empty"
            if _lacks_last_times(segment):
                return f"{segment.path(Kind.TIME_INDEX)} ends too early"
        _check_aborted_txns(segment)
    except (CorruptFile, CorruptRecord) as error:
        return str(error)
    return None


def _lacks_last_times(segment: Segment) -> bool:
    """Sealing gave the time index the largest timestamp of all, and searches by time pass over the
    segment by it. Where the end of the file was lost, one of the next batches is later."""
    largest, offset = segment.time_index.last_entry()
    found = segment.find(offset)
    start = 0 if found is None else found.position
    for at, header in scan_headers(segment.file, start, segment.size):
        if header.max_timestamp > largest:
            return True
        if at - start > _TIMES_BYTES:
            break
    return False


def _check_aborted_txns(segment: Segment) -> None:
    """Each entry must match a marker of its producer, or readers would see aborted data."""
    for entry in segment.txn_index.entries():
        found = segment.find(entry.last_offset)
        header = None if found is None else segment.header_at(found.position)
        if (
            header is None
            or not header.is_control
            or header.producer_id != entry.producer_id
            or not entry.first_offset <= entry.last_offset == header.base_offset
        ):
            raise CorruptFile(segment.txn_index.path, 0, f"{entry} does not match the log")


def _claimed_offset(log: PartitionLog, segment: Segment) -> int:
    """Offsets in both indexes were once in the log file. One index alone may be wrong."""
    following = log.segments.after(segment.base_offset)
    try:
        claimed = min(segment.offset_index.last_offset, segment.time_index.last_offset)
    except CorruptFile:
        return segment.base_offset
    is_plausible = following is None or claimed < following.base_offset
    return claimed if is_plausible else segment.base_offset


def _producers_at(log: PartitionLog, offset: int) -> ProducerStateTable:
    producers = ProducerStateTable()
    reload_producers(producers, log.snapshots, log.segments, end_offset=offset)
    return producers


def _delete_segments(log: PartitionLog, segments: list[Segment]) -> int:
    # Highest first. Crash here: the next recovery finds a prefix of these and deletes the rest.
    for segment in reversed(segments):
        log.segments.remove(segment.base_offset)
        segment.unlink()
    return len(segments)
