"""Opens a directory as a `PartitionLog`: cleans up after a crash, loads, recovers, truncates.

Grade D. The order follows README.md, "Opening a log". The table there lists the crash points of the
swap protocol; `settle_interrupted_swap` is its right-hand column.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.errors import CorruptFile, CorruptRecord, Damage, DamagedLog
from ledgerstone.fs import Filesystem, join
from ledgerstone.records.compression import Codecs
from ledgerstone.storage.checkpoints import LeaderEpochCheckpoint
from ledgerstone.storage.deleted_files import DeletedFiles
from ledgerstone.storage.filenames import (
    CLEANED,
    DELETED,
    FOLLOWS,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SWAP,
    TMP,
    Kind,
    ParsedName,
    file_name,
    parse_file_name,
)
from ledgerstone.storage.follows import Follows
from ledgerstone.storage.leader_epochs import LeaderEpochs
from ledgerstone.storage.log import PartitionLog, new_segment
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_gaps import (
    check_end,
    check_gaps,
    check_segments_at_stop,
    missing_logs,
)
from ledgerstone.storage.log_recovery import Circumstances, OffsetsOutOfReach, Recovery, recover
from ledgerstone.storage.log_shrink import put_in_place
from ledgerstone.storage.producer_replay import reload_producers
from ledgerstone.storage.producer_snapshots import ProducerSnapshots
from ledgerstone.storage.producer_state import (
    DEFAULT_PRODUCER_EXPIRATION_MS,
    ProducerStateTable,
)
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.segment_split import has_overflow, split_overflowed
from ledgerstone.storage.segments import Segments
from ledgerstone.types import INT64_MAX, TopicPartition

_LOG: Final = logging.getLogger(__name__)


_INDEXES: Final = (Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLog:
    """What is needed to open a log. Offsets come from the log directory's checkpoints."""

    fs: Filesystem
    clock: Clock
    dice: Dice
    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    clean: bool = False  # the directory was closed cleanly: nothing to recover
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    producer_id_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS
    codecs: Codecs = field(default_factory=Codecs)
    # For judging damage: see `log_recovery.Circumstances`.
    may_have_lost_power: bool = True
    is_synced_in_order: bool = False
    may_have_gaps: bool = True
    is_only_replica: bool = False
    is_thorough: bool = False
    # Sizes of the log files at the last clean stop, by base offset; None if unknown.
    sizes_at_stop: Mapping[int, int] | None = None
    index_sizes_at_stop: Mapping[int, Sequence[int]] | None = None
    # Paths acknowledged as missing: a gap there is expected.
    accepted_gaps: frozenset[str] = frozenset()
    # A recovery has found that offsets of the last segment outgrew it.
    has_overflow: bool = False

    @property
    def may_split(self) -> bool:
        """Where there is no other replica, offsets that far away are damage, and judged as such."""
        return not (self.is_only_replica and self.is_thorough)

    @property
    def circumstances(self) -> Circumstances:
        return Circumstances(
            clean=self.clean,
            recovery_point=self.recovery_point,
            may_have_lost_power=self.may_have_lost_power,
            is_synced_in_order=self.is_synced_in_order,
            is_gapless=not self.may_have_gaps,
            high_watermark=self.high_watermark,
            is_thorough=self.is_thorough,
            index_sizes=self.index_sizes_at_stop if self.clean else None,
            may_overflow=self.may_split and not self.has_overflow,
        )


def open_log(request: OpenLog) -> tuple[PartitionLog, Recovery]:
    """Opens the log, creating it if there is none; returns what recovery did.

    DamagedLog if recovery would lose synced data: nothing is cut then."""
    try:
        try:
            return _open_log(request)
        except OffsetsOutOfReach:
            return _open_log(replace(request, has_overflow=True))
    except (CorruptRecord, CorruptFile) as error:
        if request.is_thorough:
            raise DamagedLog([Damage(request.directory, 0, 0, str(error))]) from error
        # A wrong index points between batches. If that is all, it gets rebuilt.
        _LOG.warning("checking log partition=%s reason=%s", request.topic_partition, error)
        synced = INT64_MAX if request.clean else request.recovery_point
        thorough = replace(request, clean=False, recovery_point=synced, is_thorough=True)
        return _open_log(replace(thorough, has_overflow=True))


def _open_log(request: OpenLog) -> tuple[PartitionLog, Recovery]:
    fs, directory = request.fs, request.directory
    fs.make_dir(directory)
    was_swapping = settle_interrupted_swap(fs, directory)
    _unlink_temporary(fs, directory)
    names = _parsed_names(fs, directory)
    log = _bare_log(request, names)
    is_gapless = not request.may_have_gaps and not request.accepted_gaps
    _load_segments(log, names, request.accepted_gaps, is_gapless=is_gapless)
    if request.sizes_at_stop is not None and not was_swapping:
        check_segments_at_stop(log, request.sizes_at_stop)
    if request.may_split and _split_overflowed_segments(log, request):
        names = _parsed_names(fs, directory)
    log.snapshots.remove_strays(log.segments.bases())
    recovery = recover(log, names, circumstances=request.circumstances)
    if not request.may_have_gaps and not request.clean:
        check_gaps(log, request.accepted_gaps)
    _settle_offsets(log, request)
    _settle_epochs(log)
    if log.producers.map_end_offset != log.log_end_offset:
        reload_producers(log.producers, log.snapshots, log.segments, end_offset=log.log_end_offset)
    log.producers.remove_expired(request.clock.now_ms(), request.producer_id_expiration_ms)
    log.producers.on_high_watermark(log.high_watermark)
    if not request.clean:
        # Data cut or unlinked above must not reappear beside new appends.
        fs.fsync_dir(directory)
    return log, recovery


def _parsed_names(fs: Filesystem, directory: str) -> list[ParsedName]:
    return [
        parsed for name in fs.list_dir(directory) if (parsed := parse_file_name(name)) is not None
    ]


def _bare_log(request: OpenLog, names: Sequence[ParsedName]) -> PartitionLog:
    fs, directory = request.fs, request.directory
    snapshot_offsets = [name.offset for name in names if name.kind is Kind.SNAPSHOT]
    return PartitionLog(
        fs=fs,
        clock=request.clock,
        dice=request.dice,
        directory=directory,
        topic_partition=request.topic_partition,
        config=request.config,
        segments=Segments(),
        producers=ProducerStateTable(),
        snapshots=ProducerSnapshots(fs, directory, snapshot_offsets),
        epochs=LeaderEpochs(),
        epoch_checkpoint=LeaderEpochCheckpoint(fs, join(directory, LEADER_EPOCH_CHECKPOINT)),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        high_watermark=0,
        deleted_files=DeletedFiles(fs),
        follows=Follows(fs, directory, [name.offset for name in names if name.suffix == FOLLOWS]),
        codecs=request.codecs,
    )


# -- files a crash left behind ------------------------------------------------------------------


def settle_interrupted_swap(fs: Filesystem, directory: str) -> bool:
    """Undoes an undecided swap, finishes a decided one, unlinks deleted files. Returns whether
    segments were swapped in."""
    names = _parsed_names(fs, directory)
    cleaned = [name for name in names if name.suffix == CLEANED]
    swapped = [name for name in names if name.suffix == SWAP]
    if _unlink_deleted(fs, directory, names):
        names = _parsed_names(fs, directory)
    if cleaned:
        # A `.cleaned` file means that the renames to `.swap`, from the highest base down, did not
        # finish: every `.swap` at or above it belongs to the same unfinished swap.
        lowest = min(name.offset for name in cleaned)
        undecided = [name for name in swapped if name.offset >= lowest]
        _unlink(fs, directory, undecided)
        swapped = [name for name in swapped if name.offset < lowest]
        _unlink(fs, directory, cleaned)
    if swapped:
        _finish_swap(fs, directory, names, swapped)
    return bool(swapped)


def _unlink_deleted(fs: Filesystem, directory: str, names: Sequence[ParsedName]) -> bool:
    """A crash may have interrupted the renames of a segment, which start with the log file. Its
    indexes go first, since an index alone means that a log file is missing."""
    gone = [name for name in names if name.suffix in (DELETED, TMP)]
    logs = {name.offset for name in names if name.kind is Kind.LOG and not name.suffix}
    deleted = {name.offset for name in gone if name.kind is Kind.LOG} - logs
    _unlink(
        fs,
        directory,
        [
            name
            for name in names
            if not name.suffix and name.kind in _INDEXES and name.offset in deleted
        ],
    )
    _unlink(fs, directory, gone)
    if gone:
        # Whatever is set aside is gone for good once the log is open: receipts rely on it.
        fs.fsync_dir(directory)
    return bool(gone)


def _finish_swap(
    fs: Filesystem, directory: str, names: Sequence[ParsedName], swapped: Sequence[ParsedName]
) -> None:
    logs = [name.offset for name in swapped if name.kind is Kind.LOG]
    if logs:
        first = min(logs)
        end = max(_swap_end(fs, directory, base) for base in logs)
        replaced = [
            name
            for name in names
            # An emptied segment has no range of its own, but its source's files must go.
            if not name.suffix and (first <= name.offset < end or name.offset in logs)
        ]
        doomed = [name for name in replaced if not _survives(name, logs)]
        # Log files last: an index alone means that a log file is missing.
        _unlink(fs, directory, sorted(doomed, key=lambda name: name.kind is Kind.LOG))
    for name in swapped:
        target = file_name(name.offset, name.kind)
        fs.rename(join(directory, target + SWAP), join(directory, target))
    fs.fsync_dir(directory)


def _survives(name: ParsedName, swapped_bases: Sequence[int]) -> bool:
    """A snapshot at a surviving base describes the state below it, which did not change."""
    return name.kind is Kind.SNAPSHOT and name.offset in swapped_bases


def _swap_end(fs: Filesystem, directory: str, base: int) -> int:
    size = fs.size_of(join(directory, file_name(base, Kind.LOG, SWAP)))
    segment = Segment(fs, directory, base, LogConfig(), created_ms=0, suffix=SWAP, size=size)
    return segment.next_offset()


def _unlink_temporary(fs: Filesystem, directory: str) -> None:
    """New versions of checkpoints that a crash interrupted; the old ones are still there."""
    for name in (LEADER_EPOCH_CHECKPOINT + TMP, PARTITION_METADATA + TMP):
        path = join(directory, name)
        if fs.exists(path):
            fs.unlink(path)


def _unlink(fs: Filesystem, directory: str, names: Sequence[ParsedName]) -> None:
    for name in names:
        fs.unlink(join(directory, file_name(*name)))


# -- segments -----------------------------------------------------------------------------------


def _load_segments(
    log: PartitionLog,
    names: Sequence[ParsedName],
    accepted_gaps: frozenset[str],
    *,
    is_gapless: bool,
) -> None:
    bases = {name.offset for name in names if name.kind is Kind.LOG and not name.suffix}
    orphans = [
        name
        for name in names
        if name.kind in _INDEXES and not name.suffix and name.offset not in bases
    ]
    missing = missing_logs(log.directory, orphans, accepted_gaps)
    if missing:
        raise DamagedLog(missing)
    _unlink(log.fs, log.directory, orphans)
    now_ms = log.clock.now_ms()
    for base in sorted(bases):
        path = join(log.directory, file_name(base, Kind.LOG))
        size = log.fs.size_of(path)
        segment = Segment(log.fs, log.directory, base, log.config, created_ms=now_ms, size=size)
        segment.doubt()
        segment.is_gapless = is_gapless
        log.segments.add(segment)


def _split_overflowed_segments(log: PartitionLog, request: OpenLog) -> bool:
    """Whether there were some. Only other brokers' files can overflow: we roll before. Offsets may
    also be damaged, as the checksum does not cover them.

    The last segment is recovered after an unclean stop, which reads all of it: only if something is
    wrong with it are its headers read for this as well."""
    has_split = False
    for segment in log.segments:
        # An overflow is only possible if the next base is more than 31 bits away.
        following = log.segments.after(segment.base_offset)
        if following is not None and segment.fits(following.base_offset - 1):
            continue
        if following is None and not request.clean and not request.has_overflow:
            continue
        if not has_overflow(segment, trust_index=request.clean):
            continue
        if request.is_only_replica:
            reason = "an offset is beyond the segment's range"
            raise CorruptFile(segment.path(Kind.LOG), 0, reason)
        put_in_place(log, new=split_overflowed(log.fs, segment), old=[segment])
        has_split = True
    return has_split


def _settle_offsets(log: PartitionLog, request: OpenLog) -> None:
    """Derives every offset from the files and the checkpoints."""
    if not len(log.segments):
        log.segments.add(new_segment(log, request.log_start_offset))
    end_offset = log.segments.active.next_offset()
    check_end(log, request.circumstances, end_offset, request.log_start_offset)
    if end_offset < request.log_start_offset:
        # The log now ends below its start: nothing in it is readable any more.
        for segment in reversed(list(log.segments)):
            log.segments.remove(segment.base_offset)
            segment.unlink()
        log.snapshots.remove_where(at_most=request.log_start_offset - 1)
        log.epochs = LeaderEpochs()
        log.epoch_checkpoint.write([])
        log.segments.add(new_segment(log, request.log_start_offset))
        end_offset = request.log_start_offset
    log.log_end_offset = end_offset
    log.log_start_offset = max(request.log_start_offset, log.segments.first.base_offset)
    log.recovery_point = end_offset if request.clean else min(request.recovery_point, end_offset)
    log.high_watermark = min(max(request.high_watermark, log.log_start_offset), end_offset)
    log.snapshots.remove_where(above=end_offset)
    log.follows.remove_where(at_most=log.recovery_point, above=end_offset)


def _rebuild_epochs(log: PartitionLog, epochs: LeaderEpochs, trouble: str) -> None:
    """Each batch carries the epoch it was appended in."""
    for segment in log.segments:
        for header in segment.headers():
            if header.leader_epoch >= 0:
                epochs.assign(header.leader_epoch, header.base_offset)
    if epochs.entries():
        _LOG.warning(
            "leader epochs rebuilt partition=%s file=%s reason=%s",
            log.topic_partition,
            log.epoch_checkpoint.path,
            trouble,
        )


def _settle_epochs(log: PartitionLog) -> None:
    trouble = "missing or empty"
    try:
        checkpointed = log.epoch_checkpoint.read()
    except CorruptFile as error:
        checkpointed, trouble = [], str(error)
    epochs = LeaderEpochs()
    for epoch, start_offset in checkpointed:
        epochs.assign(epoch, start_offset)
    if not checkpointed and log.log_end_offset > log.log_start_offset:
        _rebuild_epochs(log, epochs, trouble)
    epochs.truncate_from_end(log.log_end_offset)
    # Recovery may have found epochs whose checkpoint a crash lost. Only newer ones count: a scan
    # that begins inside an epoch does not know where that epoch began.
    for epoch, start_offset in log.epochs.entries():
        if epochs.latest_epoch is None or epoch > epochs.latest_epoch:
            epochs.assign(epoch, start_offset)
    epochs.truncate_from_start(log.log_start_offset)
    log.epochs = epochs
    if epochs.entries() != checkpointed:
        log.epoch_checkpoint.write(epochs.entries())
