"""Writes to a log on the real disk and tells the model beside it what was asked for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from golden.kafka_tools import DumpedBatch, DumpedRecord
from ledgerstone.records.batch import BatchHeader, Codec, iter_headers
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.kernels import BatchAction, rewrite, walk
from ledgerstone.records.validation import Origin
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.storage.log_recovery import Recovery
from ledgerstone.storage.log_shrink import delete_old_segments, swap_segments
from ledgerstone.storage.segment import Segment
from ledgerstone.types import INT32_MAX, TopicPartition
from tests.kit.expected_dump import LogModel, SegmentModel


class Writer(NamedTuple):
    """Whose batch it is, and its first sequence number."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


NOBODY = Writer()


@dataclass(slots=True)
class Scribe:
    """One partition. Every method does a thing to the log and the same thing to the model."""

    log_dir: LogDir
    clock: VirtualClock
    topic_partition: TopicPartition
    leader_epoch: int = 0
    model: LogModel = field(init=False)

    def __post_init__(self) -> None:
        self.model = LogModel(self.log.config)

    @property
    def log(self) -> PartitionLog:
        return self.log_dir.logs[self.topic_partition]

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    # -- append -------------------------------------------------------------------------------

    def put(
        self, *records: RecordParts, codec: Codec = Codec.NONE, by: Writer = NOBODY
    ) -> AppendResult:
        rules = self.log.config.append_rules
        data = build_batch(records, codec=codec, **by._asdict())
        result = self.log.append_as_leader(data, leader_epoch=self.leader_epoch)
        if not result.duplicate:
            expected = dumped_batch(
                records,
                base_offset=self.model.end_offset,
                leader_epoch=self.leader_epoch,
                codec=codec if rules.codec is None else rules.codec,
                by=by,
                append_time_ms=self.now_ms if rules.timestamp_type else None,
            )
            self._appended(expected)
        return result

    def end_txn(self, by: Writer, *, commit: bool, coordinator_epoch: int = 0) -> None:
        marker = end_txn_marker(
            commit=commit,
            producer_id=by.producer_id,
            producer_epoch=by.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self.now_ms,
        )
        self.log.append_as_leader(marker, leader_epoch=self.leader_epoch, origin=Origin.COORDINATOR)
        unsaid = dumped_batch(
            [(self.now_ms, None, None, ())],
            base_offset=self.model.end_offset,
            leader_epoch=self.leader_epoch,
            by=by._replace(base_sequence=-1),
        )
        said = replace(
            unsaid.records[0],
            control_type="COMMIT" if commit else "ABORT",
            coordinator_epoch=coordinator_epoch,
        )
        self._appended(replace(unsaid, is_control=True, records=(said,)))

    def follow(self, *batches: tuple[int, Sequence[RecordParts]]) -> None:
        """Batches as a leader sends them: with offsets, several at once, holes between them."""
        data = bytearray()
        expected = []
        for base_offset, records in batches:
            epoch = self.leader_epoch
            data += build_batch(records, base_offset=base_offset, leader_epoch=epoch)
            expected.append(
                dumped_batch(records, base_offset=base_offset, leader_epoch=self.leader_epoch)
            )
        self.log.append_as_follower(data)
        self._appended(*expected)

    def _appended(self, *batches: DumpedBatch) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)
        active = self.log.segments.active
        headers = [header for _, header in iter_headers(active.file.pread(active.size, 0))]
        stored = zip(batches, headers[-len(batches) :], strict=True)
        self.model.append(*[_with_size(batch, header) for batch, header in stored])

    # -- what else happens to a log -----------------------------------------------------------

    def roll(self) -> None:
        self.log.roll()
        self.model.roll()

    def truncate(self, offset: int) -> None:
        self.log_dir.truncate_to(self.topic_partition, offset)
        self.model.truncate(offset)

    def start_at(self, offset: int) -> None:
        self.log_dir.truncate_fully_and_start_at(self.topic_partition, offset)
        self.model.start_at(offset)

    def delete_before(self, offset: int) -> None:
        self.log.raise_log_start_offset(offset)
        delete_old_segments(self.log)
        self.model.delete_before(offset)

    def reopen(self) -> None:
        """A clean stop and a start."""
        self.log.close()
        self._open(clean=True)
        self.model.close()
        self.model.reopen()

    def crash(self, *, torn: bytes = b"") -> Recovery:
        """The process dies, perhaps in the middle of a write, and the next one recovers."""
        active = self.log.segments.active
        active.file.pwrite(torn, active.size)
        for segment in self.log.segments:
            segment.forget()
        self.model.recover(self.log.recovery_point)
        return self._open(clean=False)

    def _open(self, *, clean: bool) -> Recovery:
        old = self.log
        self.log_dir.logs[self.topic_partition], recovery = open_log(
            OpenLog(
                fs=old.fs,
                clock=old.clock,
                dice=old.dice,
                directory=old.directory,
                topic_partition=old.topic_partition,
                config=old.config,
                clean=clean,
                recovery_point=old.recovery_point,
                log_start_offset=old.log_start_offset,
                high_watermark=old.high_watermark,
            )
        )
        return recovery

    # -- compaction ---------------------------------------------------------------------------

    def compact(
        self,
        sources: slice,
        *,
        delete_horizon_ms: int | None = None,
        horizon_passed: bool = False,
        stamp: Collection[int] = (),
        empty: Collection[int] = (),
    ) -> None:
        """Puts one segment with the latest record of each key in the place of several.

        `stamp` and `empty` name markers, by offset, that get a horizon or lose their record."""
        models = self.model.segments[sources]
        kept = [
            _compacted(
                batch,
                self._left(batch, empty, horizon_passed=horizon_passed),
                delete_horizon_ms=delete_horizon_ms,
                stamped=batch.base_offset in stamp,
            )
            for model in models
            for batch in model.batches
        ]
        # The last batch stays too, or a reader at the end would wait for offsets that are gone.
        left = [b for b in kept if b.records or self._is_last_of_producer(b) or b is kept[-1]]
        headers = self._rewrite(models, left, delete_horizon_ms, stamp)
        stored = [_with_size(b, h) for b, h in zip(left, headers, strict=True)]
        self.model.replace(models, stored)

    def _left(
        self, batch: DumpedBatch, empty: Collection[int], *, horizon_passed: bool
    ) -> list[DumpedRecord]:
        if batch.is_control:
            return [] if batch.base_offset in empty else list(batch.records)
        data = [batch for batch in self.model.batches if not batch.is_control]
        latest = {record.key: record.offset for each in data for record in each.records}
        expired = horizon_passed and batch.delete_horizon_ms is not None
        return [
            record
            for record in batch.records
            if latest[record.key] == record.offset and not (expired and record.value is None)
        ]

    def _is_last_of_producer(self, batch: DumpedBatch) -> bool:
        """A rebuilt log must still know the producer: its last batch stays, and where it has none
        in its epoch, its marker."""
        known = self.model.producers.get(batch.producer_id)
        if known is None or known.producer_epoch != batch.producer_epoch:
            return False
        return known.last_offset == (None if batch.is_control else batch.last_offset)

    def _rewrite(
        self,
        models: Sequence[SegmentModel],
        left: Sequence[DumpedBatch],
        delete_horizon_ms: int | None,
        stamp: Collection[int],
    ) -> list[BatchHeader]:
        old = [s for model in models if (s := self.log.segments.at_base(model.base_offset))]
        columns = walk(b"".join(segment.file.pread(segment.size, 0) for segment in old))
        offsets = {record.offset for batch in left for record in batch.records}
        bare = {batch.base_offset for batch in left if not batch.records}
        actions = [
            (BatchAction.DISCARD | BatchAction.RETAIN_EMPTY if base in bare else 0)
            | (BatchAction.STAMP if base in stamp else 0)
            for base in columns.batches.base_offset.tolist()
        ]
        rewritten = rewrite(
            columns,
            np.isin(columns.offset, sorted(offsets)).astype(np.uint8),
            actions=np.array(actions, np.uint8),
            delete_horizon_ms=delete_horizon_ms,
        )
        cleaned = _cleaned_segment(self.log, old[0])
        headers = []
        for position, header in iter_headers(rewritten.data):
            cleaned.append(rewritten.data[position : position + header.size], [header])
            headers.append(header)
        for segment in old:
            for entry in segment.txn_index.entries():
                cleaned.add_aborted_txn(entry)
        cleaned.seal()
        swap_segments(self.log, new=[cleaned], old=old)
        return headers


def dumped_batch(
    records: Sequence[RecordParts],
    *,
    base_offset: int,
    leader_epoch: int,
    codec: Codec = Codec.NONE,
    by: Writer = NOBODY,
    append_time_ms: int | None = None,
) -> DumpedBatch:
    """What the tool must say about these records; position, size and CRC come later."""
    kind = "CreateTime" if append_time_ms is None else "LogAppendTime"
    found = []
    for at, (timestamp, key, value, headers) in enumerate(records):
        created = -1 if timestamp is None else timestamp
        found.append(
            DumpedRecord(
                offset=base_offset + at,
                timestamp_type=kind,
                timestamp=created if append_time_ms is None else append_time_ms,
                sequence=_sequence(by.base_sequence, at),
                key=key,
                value=value,
                headers=tuple((name.encode(), content) for name, content in headers),
            )
        )
    return DumpedBatch(
        base_offset=base_offset,
        last_offset=found[-1].offset,
        count=len(found),
        base_sequence=by.base_sequence,
        last_sequence=found[-1].sequence,
        producer_id=by.producer_id,
        producer_epoch=by.producer_epoch,
        partition_leader_epoch=leader_epoch,
        is_transactional=by.transactional,
        is_control=False,
        delete_horizon_ms=None,
        position=-1,
        timestamp_type=kind,
        max_timestamp=max(record.timestamp for record in found),
        size=-1,
        magic=2,
        compresscodec=codec.name.lower(),
        crc=-1,
        isvalid=True,
        records=tuple(found),
    )


def _sequence(base_sequence: int, index: int) -> int:
    return -1 if base_sequence < 0 else (base_sequence + index) & INT32_MAX


def _with_size(batch: DumpedBatch, header: BatchHeader) -> DumpedBatch:
    return replace(batch, size=header.size, crc=header.crc)


def _compacted(
    batch: DumpedBatch,
    left: Sequence[DumpedRecord],
    *,
    delete_horizon_ms: int | None,
    stamped: bool,
) -> DumpedBatch:
    """Offsets and sequences of the batch stay; the horizon is set once."""
    if not left:
        bare = replace(batch, compresscodec="none", delete_horizon_ms=None)
        return replace(bare, count=0, records=())
    dated = stamped or (not batch.is_control and any(record.value is None for record in left))
    horizon_ms = batch.delete_horizon_ms
    if horizon_ms is None and dated:
        horizon_ms = delete_horizon_ms
    return replace(
        batch,
        count=len(left),
        records=tuple(left),
        delete_horizon_ms=horizon_ms,
        max_timestamp=max(record.timestamp for record in left),
    )


def _cleaned_segment(log: PartitionLog, first: Segment) -> Segment:
    cleaned = Segment(
        log.fs,
        log.directory,
        first.base_offset,
        log.config,
        created_ms=first.created_ms,
        suffix=CLEANED,
    )
    cleaned.create()
    return cleaned
