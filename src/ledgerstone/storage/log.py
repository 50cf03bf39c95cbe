"""One partition's log: append, roll, flush and close, each step in its order.

Grade D: files through the `Filesystem`, time through the `Clock`, jitter through the `Dice` it was
given. Reading lives in log_reader, shrinking (retention, truncation, swap) in log_shrink, opening
in log_loader. Validation is records.validation, idempotence and transactions producer_state.

Invariant: log_start_offset <= high_watermark <= log_end_offset, and
recovery_point <= log_end_offset. Memory changes only after the write has returned, so a failed
append leaves the log as it was.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, NoReturn

from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import (
    CorruptRecord,
    Damage,
    InvalidRecord,
    InvariantViolation,
    LogStorageError,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from ledgerstone.fs import Filesystem, join
from ledgerstone.records.batch import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    BatchHeader,
    placed,
    stamp_offset_and_epoch,
)
from ledgerstone.records.compression import Codecs
from ledgerstone.records.control import ControlRecord, read_control_record
from ledgerstone.records.kernels import inspect_records
from ledgerstone.records.own_batch import OwnBatch
from ledgerstone.records.record import plain_inspect_records
from ledgerstone.records.records_facts import NearTombstones
from ledgerstone.records.validation import (
    Origin,
    check_replicated,
    validate_own,
    validate_produced,
)
from ledgerstone.storage.checkpoints import LeaderEpochCheckpoint
from ledgerstone.storage.deleted_files import DeletedFiles
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.storage.follows import Follows
from ledgerstone.storage.leader_epochs import LeaderEpochs
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.producer_entry import BatchMeta
from ledgerstone.storage.producer_replay import apply_batch
from ledgerstone.storage.producer_snapshots import ProducerSnapshots
from ledgerstone.storage.producer_state import ProducerStateTable
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.segments import Segments
from ledgerstone.storage.sync_plan import DirectoryAt, Syncable, sync_all
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import (
    INT32_MAX,
    INT64_MAX,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Buffer,
    TopicPartition,
    WritableBuffer,
)

_LOG: Final = logging.getLogger(__name__)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class AppendResult(NamedTuple):
    """Where an append landed. For a duplicate: where the first attempt landed."""

    first_offset: int
    last_offset: int
    log_append_time: int  # -1 when records keep the producer's time
    log_start_offset: int
    max_timestamp: int
    duplicate: bool = False
    tombstone_count: int = 0
    near: NearTombstones | None = None  # records that resemble tombstones, on a compacted topic


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPlan:
    """What makes the log durable below `up_to` once synced; may be synced off the loop."""

    up_to: int
    syncs: tuple[Syncable, ...]
    # The log's end when the plan was made; the plan does not cover later appends.
    names_made: int
    truncations: int
    # Of the segment that was written to then; sealing writes to it once more.
    active_base: int


@dataclass(slots=True, kw_only=True)
class PartitionLog:
    """Made by a loader; see `log_loader.open_log`."""

    fs: Filesystem
    clock: Clock
    dice: Dice
    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    segments: Segments
    producers: ProducerStateTable
    snapshots: ProducerSnapshots
    epochs: LeaderEpochs
    epoch_checkpoint: LeaderEpochCheckpoint
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    high_watermark: int
    deleted_files: DeletedFiles
    follows: Follows
    # Shared by the log directory: memory for one batch at a time serves all its logs.
    codecs: Codecs = field(default_factory=Codecs, repr=False)
    # Set by a failed write or fsync: the state on disk is unknown, so nothing is appended.
    failure: str | None = None
    # Called with damage found while reading; the log directory keeps notes of it.
    damage: tuple[Damage, ...] | None = None
    on_damage: Callable[["PartitionLog", Sequence[Damage]], None] | None = field(
        default=None, repr=False
    )
    # Called when the disk refused a write or an fsync; the log directory may go offline over it.
    on_disk_error: Callable[[BaseException], None] | None = field(default=None, repr=False)
    last_flush_ms: int = 0  # monotonic
    # A flush plan older than a truncation would vouch for bytes written after it.
    truncations: int = 0
    # Count of new names in the directory, and how many of them an fsync has made durable.
    _names_made: int = field(default=1, repr=False)
    _names_synced: int = field(default=0, repr=False)
    # This log is led in an epoch that has no batch yet.
    _has_unwritten_epoch: bool = field(default=False, repr=False)

    # -- offsets ------------------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        offset = self.producers.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided and replicated."""
        if self.producers.first_unstable_offset is None:
            # Nearly always, and every Fetch asks.
            return self.high_watermark
        unstable = self.first_unstable_offset
        assert unstable is not None
        return min(unstable, self.high_watermark)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def advance_high_watermark(self, offset: int) -> bool:
        """Raises the high watermark, bounded by the log's end; never lowers it."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.first_unstable_offset is not None:
            self.producers.on_high_watermark(offset)
        return True

    def raise_log_start_offset(self, offset: int) -> bool:
        """For DeleteRecords, or as the leader says: records below are no longer readable."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"log start offset {offset} of {self.topic_partition} lies above the high "
                f"watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self.epochs_were_cut()
        return True

    # -- append -------------------------------------------------------------------------------

    def append_as_leader(
        self,
        data: WritableBuffer | OwnBatch,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        terms: TxnTerms | None = None,
    ) -> AppendResult:
        """Validates one batch, gives it its offsets in place and writes it."""
        if self.failure is not None:
            self._check_writable()
        now_ms = self.clock.now_ms()
        config = self.config
        marker = None
        if isinstance(data, OwnBatch):
            marker = data.marker
            batch = validate_own(data, config.append_rules, now_ms=now_ms, codecs=self.codecs)
        else:
            # Coordinators write small batches now and then: not worth loading the kernels.
            inspect = inspect_records if origin is Origin.CLIENT else plain_inspect_records
            batch = validate_produced(
                data,
                config.append_rules,
                now_ms=now_ms,
                origin=origin,
                inspect=inspect,
                codecs=self.codecs,
            )
        header = batch.header
        has_append_time = header.attributes & LOG_APPEND_TIME_FLAG
        if header.producer_id > NO_PRODUCER_ID:
            if marker is None and header.attributes & CONTROL_FLAG:
                marker = read_control_record(batch.data)
            known = self._check_producer(header, marker, origin, terms)
            if known is not None:
                first_time = known.timestamp if has_append_time else NO_TIMESTAMP
                return self._result(
                    known.first_offset, known.last_offset, known.timestamp, first_time, True
                )
        if len(batch.data) > config.segment_bytes:
            raise RecordListTooLarge(
                f"{len(batch.data)} bytes do not fit segment.bytes={config.segment_bytes}"
            )
        base_offset = self.log_end_offset
        if base_offset + header.last_offset_delta >= INT64_MAX:
            raise InvalidRecord(
                f"{self.topic_partition} ends at offset {base_offset}: no offsets are left for "
                f"{header.last_offset_delta + 1} records"
            )
        stamp_offset_and_epoch(batch.data, 0, base_offset=base_offset, leader_epoch=leader_epoch)
        header = placed(header, base_offset=base_offset, leader_epoch=leader_epoch)
        self._append_one(batch.data, header, now_ms, marker)
        return AppendResult(
            base_offset,
            base_offset + header.last_offset_delta,
            now_ms if has_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            header.max_timestamp,
            False,
            batch.tombstone_count,
            batch.near,
        )

    def _check_producer(
        self,
        header: BatchHeader,
        marker: ControlRecord | None,
        origin: Origin,
        terms: TxnTerms | None,
    ) -> BatchMeta | None:
        """The earlier batch this one repeats, if any; raises if the producer state refuses it."""
        if marker is not None:
            self.producers.check_marker(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=0 if terms is None else terms.transaction_version,
            )
            return None
        return self.producers.check_append(header, origin=origin, terms=terms)

    def append_as_follower(self, data: Buffer, leader_epoch: int | None = None) -> AppendResult:
        """Writes a leader's batches as they are; their offsets must continue this log.

        Batches of a later epoch than `leader_epoch` are left out, and all that follow: the leader
        was replaced after it had been asked, and may have appended them to a log that was cut."""
        self._check_writable()
        batches = check_replicated(data)
        if leader_epoch is not None:
            batches = list(takewhile(lambda each: each[1].leader_epoch <= leader_epoch, batches))
        if not batches:
            return self._result(self.log_end_offset, self.log_end_offset - 1, NO_TIMESTAMP)
        expected = self.log_end_offset
        for _, header in batches:
            if header.base_offset < expected:
                raise OffsetOutOfRange(
                    f"replicated batch at {header.base_offset} of {self.topic_partition} "
                    f"lies below the expected offset {expected}"
                )
            expected = header.next_offset
        if expected > INT64_MAX:
            raise CorruptRecord(
                f"replicated batches of {self.topic_partition} end at {expected}, beyond the last "
                "offset that there is"
            )
        highest, now_ms = max(header.max_timestamp for _, header in batches), self.clock.now_ms()
        first, last = batches[0][1], batches[-1][1]
        if last.last_offset - first.base_offset <= INT32_MAX:
            self._append(data, batches, highest, now_ms)
        else:
            # Compaction has left a gap that no segment spans.
            for at, header in batches:
                self._append_one(memoryview(data)[at : at + header.size], header, now_ms)
        return self._result(first.base_offset, last.last_offset, highest)

    def _append_one(
        self, data: Buffer, header: BatchHeader, now_ms: int, marker: ControlRecord | None = None
    ) -> None:
        """`_append` for a single batch, as leaders append. `marker` is what a control batch says,
        if that is known."""
        next_offset = header.base_offset + header.last_offset_delta + 1
        try:
            self.note_leader_epoch(header.leader_epoch, header.base_offset)
            segment = self.segments.active
            if self._must_roll(segment, next_offset - 1, len(data), header.max_timestamp, now_ms):
                segment = self.roll(header.base_offset)
            segment.append(data, (header,))
            if header.producer_id > NO_PRODUCER_ID:
                self._keep_producer(segment, header, data, marker)
            self.producers.map_end_offset = next_offset
        except OSError as error:
            self._give_up(error)
        except LogStorageError as error:
            self._refused(error)
        self.log_end_offset = next_offset
        if next_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _append(
        self, data: Buffer, batches: list[tuple[int, BatchHeader]], highest: int, now_ms: int
    ) -> None:
        """`highest` is the largest timestamp of the batches."""
        headers = [header for _, header in batches]
        last_at, last = batches[-1]
        end = last_at + LOG_OVERHEAD + last.batch_length
        whole = data if len(data) == end else memoryview(data)[:end]
        next_offset = last.base_offset + last.last_offset_delta + 1
        try:
            for header in headers:
                self.note_leader_epoch(header.leader_epoch, header.base_offset)
            segment = self.segments.active
            if self._must_roll(segment, next_offset - 1, end, highest, now_ms):
                segment = self.roll(headers[0].base_offset)
            segment.append(whole, headers)
            for at, header in batches:
                if header.producer_id > NO_PRODUCER_ID:
                    batch = memoryview(data)[at : at + header.size]
                    self._keep_producer(segment, header, batch)
            self.producers.map_end_offset = next_offset
        except OSError as error:
            self._give_up(error)
        except LogStorageError as error:
            self._refused(error)
        self.log_end_offset = next_offset
        if next_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def _keep_producer(
        self,
        segment: Segment,
        header: BatchHeader,
        batch: Buffer,
        marker: ControlRecord | None = None,
    ) -> None:
        aborted = apply_batch(self.producers, header, batch, marker)
        if aborted is not None:
            segment.add_aborted_txn(aborted)

    def _give_up(self, error: OSError) -> NoReturn:
        """A step before or after the write was left half done.

        A failed write that was undone is a LogStorageError and does not come here: the log is
        unchanged, and a full disk may have room again."""
        self.fail(f"append failed: {error}", error)
        raise LogStorageError(f"{self.topic_partition}: append failed: {error}") from error

    def _refused(self, error: LogStorageError) -> NoReturn:
        """The batch was not written, and the log is as it was."""
        if self.failure is None and self.on_disk_error is not None:
            self.on_disk_error(error)
        raise error

    def note_leader_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """A batch of this epoch is about to be written. Crash here: an entry past the log's end is
        cut at load."""
        begins = leader_epoch >= 0 and self.epochs.assign(leader_epoch, start_offset)
        if begins or self._has_unwritten_epoch:
            self.epoch_checkpoint.write(self.epochs.entries())
            self._has_unwritten_epoch = False

    def epochs_were_cut(self) -> None:
        """Where the disk refuses, the file follows with the next batch: until then a load cuts the
        same entries, as they lie outside of the log."""
        try:
            self.epoch_checkpoint.write(self.epochs.entries())
        except OSError as error:
            self._has_unwritten_epoch = True
            _LOG.warning(
                "leader epochs not written partition=%s reason=%s", self.topic_partition, error
            )
            if self.on_disk_error is not None:
                self.on_disk_error(error)

    def lead_from(self, leader_epoch: int, start_offset: int) -> None:
        """The metadata says so. Written with the first batch, as a load cuts an epoch without one:
        a broker is given all its partitions at once, and must not wait for as many syncs."""
        if leader_epoch >= 0 and self.epochs.assign(leader_epoch, start_offset):
            self._has_unwritten_epoch = True

    def _result(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time: int = NO_TIMESTAMP,
        duplicate: bool = False,
    ) -> AppendResult:
        start_offset = self.log_start_offset
        return AppendResult(
            first_offset, last_offset, log_append_time, start_offset, max_timestamp, duplicate
        )

    # -- roll ---------------------------------------------------------------------------------

    def _must_roll(
        self, active: Segment, last_offset: int, size: int, timestamp: int, now_ms: int
    ) -> bool:
        config = self.config
        if active.size > config.segment_bytes - size:
            return True
        if active.size > 0:
            waited = _waited_ms(active, timestamp, now_ms)
            if waited > config.max_segment_ms - active.roll_jitter_ms:
                return True
        return active.is_full or not active.fits(last_offset)

    def roll(self, at_offset: int | None = None) -> Segment:
        """Seals the active segment and opens a new one at the log's end."""
        base_offset = max(self.log_end_offset, at_offset or 0)
        active = self.segments.active
        if active.base_offset == base_offset:
            if active.size > 0:
                raise InvariantViolation(
                    f"segment {base_offset} of {self.topic_partition} exists and is not empty"
                )
            # An empty segment is as good as a new one. Its file stays: if it is the only one, its
            # name is the only record of the log's end.
            return active
        try:
            return self._roll_to(base_offset)
        except OSError as error:
            if not (error.errno in _NO_ROOM and self._undo_roll(base_offset)):
                # The old segment is sealed and the new one incomplete: neither may be appended to.
                self.fail(f"roll failed: {error}", error)
            raise LogStorageError(f"{self.topic_partition}: roll failed: {error}") from error

    def _roll_to(self, base_offset: int) -> Segment:
        """The new segment counts once everything has its file; what is there before may be made
        again."""
        active = self.segments.active
        active.seal()
        if self.recovery_point >= self.log_end_offset:
            # No later flush covers it: what sealing wrote must be synced separately.
            try:
                active.flush()
            except OSError as error:
                self._give_up_sync(error)
        end_offset = active.next_offset()
        if active.size > 0 and self.recovery_point < end_offset:
            self.follows.add(end_offset)
        segment = new_segment(self, base_offset)
        if self.producers.map_end_offset <= base_offset:
            self.producers.map_end_offset = base_offset
        self.snapshots.take(base_offset, self.producers.entries())
        self.segments.add(segment)
        self._names_made += 1
        return segment

    def _undo_roll(self, base_offset: int) -> bool:
        """The disk is full and may have room again: the next append then rolls anew."""
        path = join(self.directory, file_name(base_offset, Kind.LOG))
        try:
            if self.fs.exists(path):
                self.fs.unlink(path)
        except OSError:
            return False
        return True

    def reconfigure(self, config: LogConfig) -> None:
        """New settings apply from now on; existing segments keep their limits."""
        self.config = config
        self.segments.active.config = config

    # -- flush, fail, close -------------------------------------------------------------------

    def plan_flush(self, up_to: int | None = None) -> FlushPlan | None:
        """The syncs after which everything below `up_to` survives power loss."""
        # Especially after a failed fsync: the next one would succeed and prove nothing.
        self._check_writable()
        end = self.log_end_offset if up_to is None else up_to
        if end <= self.recovery_point:
            return None
        syncs = self.snapshots.take_unsynced()
        for segment in self.segments.holding_from(self.recovery_point):
            if segment.base_offset < end:
                syncs.extend(segment.files_to_sync())
        if self._names_synced < self._names_made:
            syncs.append(DirectoryAt(self.directory))
        return FlushPlan(
            up_to=end,
            syncs=tuple(syncs),
            names_made=self._names_made,
            truncations=self.truncations,
            active_base=self.segments.active.base_offset,
        )

    def flush_done(self, plan: FlushPlan) -> None:
        self._names_synced = max(self._names_synced, plan.names_made)
        if plan.truncations != self.truncations:
            return
        up_to = min(plan.up_to, self.log_end_offset)
        rolled_to = self.segments.after(plan.active_base)
        if rolled_to is not None:
            # Sealed since: the ends of its indexes may not be durable. A recovery point inside it
            # lets the next flush sync it as a whole.
            up_to = min(up_to, rolled_to.base_offset - 1)
        self.recovery_point = max(self.recovery_point, up_to)
        self.last_flush_ms = self.clock.monotonic_ms()
        self.follows.remove_where(at_most=self.recovery_point)

    def flush(self, up_to: int | None = None) -> None:
        plan = self.plan_flush(up_to)
        if plan is None:
            return
        try:
            sync_all(self.fs, plan.syncs)
            self.flush_done(plan)
        except OSError as error:
            self._give_up_sync(error)

    def _give_up_sync(self, error: OSError) -> NoReturn:
        """After a failed fsync the kernel may mark the lost pages clean: a retry proves nothing."""
        self.fail(f"fsync failed: {error}", error)
        raise LogStorageError(f"{self.topic_partition}: fsync failed: {error}") from error

    def fail(self, reason: str, cause: BaseException | None = None) -> None:
        """`cause` is the disk's error; None for damage, which concerns this log alone."""
        if self.failure is None:
            self.failure = reason
            _LOG.error("log takes no writes partition=%s reason=%s", self.topic_partition, reason)
        if cause is not None and self.on_disk_error is not None:
            self.on_disk_error(cause)

    def damaged(self, damages: Sequence[Damage]) -> None:
        """The files differ from what was written: no appends until an operator acknowledges it."""
        self.damage = (*(self.damage or ()), *damages)
        if self.on_damage is not None:
            self.on_damage(self, damages)
        self.fail(f"damaged: {damages[0]}")

    def _check_writable(self) -> None:
        if self.failure is not None:
            raise LogStorageError(f"{self.topic_partition} takes no writes: {self.failure}")

    def close(self) -> None:
        """A clean stop: everything durable, indexes trimmed, a snapshot at the log's end."""
        if self.failure is None:
            try:
                self._make_all_durable()
            except OSError as error:
                self.fail(f"close failed: {error}", error)
                raise LogStorageError(f"{self.topic_partition}: close failed: {error}") from error
        for segment in self.segments:
            segment.forget()

    def _make_all_durable(self) -> None:
        self.segments.active.seal()
        self.snapshots.take(self.log_end_offset, self.producers.entries())
        for segment in self.segments.holding_from(self.recovery_point):
            segment.flush()
        self.snapshots.sync()
        self.follows.remove_where(at_most=self.log_end_offset)
        self.fs.fsync_dir(self.directory)
        self.recovery_point = self.log_end_offset

    def take_files_of(self, copy: "PartitionLog") -> None:
        """The log was moved to another directory: from now on it reads and writes `copy`'s files.
        What is in memory only, such as guards of transactions, stays."""
        for segment in self.segments:
            segment.forget()
        self.directory = copy.directory
        self.segments, self.snapshots = copy.segments, copy.snapshots
        self.epoch_checkpoint, self.follows = copy.epoch_checkpoint, copy.follows
        self.deleted_files, self.codecs = copy.deleted_files, copy.codecs
        self.recovery_point = copy.recovery_point
        # A flush that is under way syncs the old files: it vouches for nothing here.
        self.truncations += 1
        self._names_made += 1
        self._names_synced = 0

    def check_invariants(self) -> None:
        assert self.log_start_offset <= self.high_watermark <= self.log_end_offset
        assert self.recovery_point <= self.log_end_offset
        assert self.segments.first.base_offset <= self.log_end_offset
        assert self.segments.active.base_offset <= self.log_end_offset
        self.segments.check_invariants()
        self.epochs.check_invariants()
        self.producers.check_invariants()


def new_segment(log: PartitionLog, base_offset: int) -> Segment:
    """An empty segment with its own draw of the roll jitter. Differs from Kafka, which bounds the
    draw by segment.ms alone: above a shorter max.compaction.lag.ms every batch would roll."""
    jitter_bound = min(log.config.segment_jitter_ms, log.config.max_segment_ms)
    segment = Segment(
        log.fs,
        log.directory,
        base_offset,
        log.config,
        created_ms=log.clock.now_ms(),
        roll_jitter_ms=log.dice.below(jitter_bound) if jitter_bound > 0 else 0,
    )
    segment.create()
    return segment


def _waited_ms(active: Segment, timestamp: int, now_ms: int) -> int:
    """Record time decides if records have one; otherwise the wall clock does."""
    first = active.first_timestamp
    if first is not None and first >= 0:
        return timestamp - first
    return now_ms - active.created_ms
