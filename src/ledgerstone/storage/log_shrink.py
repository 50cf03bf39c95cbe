"""Making a log smaller: retention, truncation, and swapping in rewritten segments. Grade D.

Every removal is a rename to `.deleted`, then an unlink after file.delete.delay.ms, so that readers
in the middle of a file can finish. The crash rules are in README.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from ledgerstone.errors import CorruptFile, LogStorageError
from ledgerstone.fs import join
from ledgerstone.storage.filenames import Kind, aside_suffix, file_name
from ledgerstone.storage.log import PartitionLog, new_segment
from ledgerstone.storage.log_mend import mending
from ledgerstone.storage.producer_replay import reload_producers
from ledgerstone.storage.retention import (
    Breach,
    SegmentFacts,
    below_start_offset,
    over_age,
    over_size,
)
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.segment_swap import rename_segments, replace_segments
from ledgerstone.types import NO_OFFSET


@contextmanager
def _failing(log: PartitionLog, what: str) -> Iterator[None]:
    """An error half way leaves memory and disk inconsistent: the log takes no more writes."""
    try:
        yield
    except (OSError, CorruptFile) as error:
        log.fail(f"{what} failed: {error}", error if isinstance(error, OSError) else None)
        raise LogStorageError(f"{log.topic_partition}: {what} failed: {error}") from error


class Deletion(NamedTuple):
    """What retention removed, for the log line."""

    reason: Breach
    segments: int
    size_bytes: int
    log_start_offset: int


def delete_old_segments(log: PartitionLog) -> list[Deletion]:
    """Applies the retention rules; the start-offset rule applies to compacted topics too."""
    deletions = []
    reasons = list(Breach) if log.config.deletes else [Breach.START_OFFSET]
    for reason in reasons:
        count = _breaching(log, reason)
        if count:
            deletions.append(_delete_prefix(log, count, reason))
    return deletions


def _breaching(log: PartitionLog, reason: Breach) -> int:
    facts = segment_facts(log)
    hw = log.high_watermark
    match reason:
        case Breach.START_OFFSET:
            start = log.log_start_offset
            return below_start_offset(facts, log_start_offset=start, high_watermark=hw)
        case Breach.SIZE:
            limit = log.config.retention_bytes
            return over_size(facts, retention_bytes=limit, high_watermark=hw)
        case Breach.TIME:
            return over_age(
                facts,
                retention_ms=log.config.retention_ms,
                high_watermark=hw,
                now_ms=log.clock.now_ms(),
            )


def segment_facts(log: PartitionLog) -> list[SegmentFacts]:
    return mending(log, lambda: _segment_facts(log))


def _segment_facts(log: PartitionLog) -> list[SegmentFacts]:
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    return [
        SegmentFacts(segment.base_offset, end, segment.size, segment.largest_timestamp)
        for segment, end in zip(segments, ends, strict=True)
    ]


def _delete_prefix(log: PartitionLog, count: int, reason: Breach) -> Deletion:
    doomed = list(log.segments)[:count]
    if count == len(log.segments):
        try:
            log.roll()
        except LogStorageError as error:
            if log.failure is not None or count == 1:
                raise
            if log.on_disk_error is not None:
                log.on_disk_error(error)
            # A full disk has no room for a new segment. The sealed ones make some.
            doomed.pop()
    survivor = log.segments.after(doomed[-1].base_offset)
    assert survivor is not None
    # The start moves before the files go: readers see an offset out of range, never a missing
    # file.
    log.raise_log_start_offset(max(log.log_start_offset, survivor.base_offset))
    with _failing(log, "deletion"):
        for segment in doomed:
            log.segments.remove(segment.base_offset)
            discard(log, segment)
        # From here on the first file's name records the start, and the next checkpoint omits it.
        # Deleted files must not reappear after power loss.
        log.fs.fsync_dir(log.directory)
    freed = sum(segment.size for segment in doomed)
    return Deletion(reason, len(doomed), freed, log.log_start_offset)


def discard(
    log: PartitionLog, segment: Segment, *, with_snapshot: bool = True, is_cut: bool = False
) -> None:
    """Renames a segment's files aside and schedules their removal."""
    unlink_later(log, _set_aside(log, segment, with_snapshot=with_snapshot), is_cut=is_cut)


def _set_aside(log: PartitionLog, segment: Segment, *, with_snapshot: bool) -> list[str]:
    suffix = _free_suffix(log, segment.base_offset)
    segment.change_suffix(suffix)
    paths = segment.paths()
    segment.forget()
    if with_snapshot:
        aside = log.snapshots.set_aside(segment.base_offset, suffix)
        if aside is not None:
            paths.append(aside)
    return paths


def _free_suffix(log: PartitionLog, base_offset: int) -> str:
    """A suffix that no waiting file of this base has; files that have one are unlinked early."""
    now_ms, waiting = log.clock.now_ms(), log.deleted_files
    number = 0
    while True:
        suffix = aside_suffix(number)
        paths = [join(log.directory, file_name(base_offset, kind, suffix)) for kind in Kind]
        if not any(map(waiting.is_taken, paths)):
            return suffix
        waiting.hasten(paths, now_ms=now_ms)
        number += 1


def unlink_later(log: PartitionLog, paths: Sequence[str], *, is_cut: bool = False) -> None:
    due_ms = log.clock.now_ms() + log.config.file_delete_delay_ms
    log.deleted_files.add(list(paths), due_ms=due_ms, is_cut=is_cut)


def swap_segments(log: PartitionLog, *, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    """Puts cleaned segments in the place of their sources, which are made durable first.

    A cleaned segment may end early, so no `.follows` mark may be left that calls that a loss. To
    avoid waiting here, flush before."""
    following = log.segments.after(max(segment.base_offset for segment in old))
    log.flush(log.log_end_offset if following is None else following.base_offset)
    put_in_place(log, new=new, old=old)


def put_in_place(log: PartitionLog, *, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    """The first source's snapshot stays: it belongs to the base offset the new segment keeps."""
    kept_bases = {segment.base_offset for segment in new}
    with _failing(log, "swap"):
        replace_segments(
            log.fs,
            log.segments,
            new=new,
            old=old,
            discard=lambda segment: discard(
                log, segment, with_snapshot=segment.base_offset not in kept_bases
            ),
        )


def rename_in_place(
    log: PartitionLog, *, new: Sequence[Segment], old: Sequence[Segment]
) -> tuple[str, ...]:
    """As `put_in_place`, but syncs nothing, for callers that must not wait.

    The new files, their names and the old files are already durable. The caller syncs the
    directory, then passes the returned paths to `unlink_later`."""
    kept_bases = {segment.base_offset for segment in new}
    aside: list[str] = []

    def set_aside(segment: Segment) -> None:
        with_snapshot = segment.base_offset not in kept_bases
        aside.extend(_set_aside(log, segment, with_snapshot=with_snapshot))

    with _failing(log, "swap"):
        rename_segments(log.segments, new=new, old=old, set_aside=set_aside)
    return tuple(aside)


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """Drops every batch that holds or follows `offset`; False if there was none."""
    if offset >= log.log_end_offset:
        if log.epochs.truncate_from_end(offset):
            log.epochs_were_cut()
        return False
    if log.segments.first.base_offset > offset:
        truncate_fully_and_start_at(log, offset)
        return True
    _find_cut(log, offset)
    with _failing(log, "truncation"):
        # Highest first. Crash here: the rest is a prefix of the log, without holes.
        for segment in reversed(log.segments.starting_from(offset + 1)):
            log.segments.remove(segment.base_offset)
            discard(log, segment, is_cut=True)
        # Sync their removal before cutting bytes below them: the disk does not keep the order of
        # name and data changes.
        log.fs.fsync_dir(log.directory)
        active = log.segments.active
        active.truncate_to(offset, now_ms=log.clock.now_ms())
        active.file.fsync()
        log.snapshots.remove_where(above=offset)
        log.follows.remove_where(above=offset)
        # As a restart finds it: an end inside a batch that was dropped is remembered by no file.
        _end_at(log, active.next_offset())
    return True


def _find_cut(log: PartitionLog, offset: int) -> None:
    """A wrong index is rebuilt, and damage told, while the log is whole."""
    segment = log.segments.floor(offset)
    if segment is not None and segment.size:
        for each in (offset - 1, offset):
            mending(log, partial(segment.find, each))


def truncate_fully_and_start_at(log: PartitionLog, offset: int) -> None:
    """Drops everything and starts an empty log at `offset`."""
    with _failing(log, "truncation"):
        for segment in reversed(list(log.segments)):
            log.segments.remove(segment.base_offset)
            discard(log, segment, is_cut=True)
        log.segments.add(new_segment(log, offset))
        # The new log shares nothing with the old one: no producers, no epochs.
        log.snapshots.remove_where(above=NO_OFFSET)
        log.follows.remove_where(above=NO_OFFSET)
        if log.epochs.clear():
            log.epoch_checkpoint.write([])
        log.log_start_offset = offset
        _end_at(log, offset)


def _end_at(log: PartitionLog, offset: int) -> None:
    log.log_end_offset = offset
    log.log_start_offset = min(log.log_start_offset, offset)
    log.high_watermark = min(log.high_watermark, offset)
    log.high_watermark = max(log.high_watermark, log.log_start_offset)
    log.recovery_point = min(log.recovery_point, offset)
    log.truncations += 1
    _cut_epochs(log, offset)
    # After this nothing cut can reappear, as a file or in a snapshot.
    log.fs.fsync_dir(log.directory)
    reload_producers(log.producers, log.snapshots, log.segments, end_offset=offset)
    log.producers.on_high_watermark(log.high_watermark)


def _cut_epochs(log: PartitionLog, offset: int) -> None:
    if log.epochs.truncate_from_end(offset):
        log.epoch_checkpoint.write(log.epochs.entries())
