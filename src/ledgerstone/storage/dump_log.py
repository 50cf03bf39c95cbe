"""One log as facts: every batch, every record, and what is wrong with them. Grade D.

Read-only; holds one window of the file at a time. The fields are in docs/dump.md.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import KafkaError
from ledgerstone.fs import File, Filesystem
from ledgerstone.records import kernels
from ledgerstone.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    BatchHeader,
    Codec,
    TimestampType,
    read_header,
    verify_crc,
)
from ledgerstone.records.control import NO_COORDINATOR_EPOCH, ControlRecord, read_control_record
from ledgerstone.records.record import (
    Headers,
    MalformedRecord,
    RecordFault,
    iter_records,
    plain_inspect_records,
    records_payload,
)
from ledgerstone.records.records_facts import RecordsFacts
from ledgerstone.storage.batch_scan import scan_batches
from ledgerstone.storage.dump_facts import FileFact, FileFacts, Problem
from ledgerstone.types import INT32_MAX, NO_TIMESTAMP, Buffer

# Below this size plain Python finishes before the kernels are even loaded.
KERNEL_FILE_BYTES: Final = 4 << 20
_TAIL_CHUNK_BYTES: Final = 1 << 20

Inspect = Callable[..., RecordsFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What to dump. A filter (key or offsets) shows only matching parts of logs."""

    records: bool = False
    deep: bool = False  # for a log directory: every file, not one summary per partition
    verify: bool = False  # check indexes against their logs
    key: bytes | None = None
    offsets: range | None = None

    @property
    def filters(self) -> bool:
        return self.key is not None or self.offsets is not None

    @property
    def shows_records(self) -> bool:
        return self.records or self.filters


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    type: ClassVar[str] = "batch"
    path: str
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    record_count: int
    codec: str
    timestamp_type: str
    base_timestamp_ms: int  # the delete horizon, if the batch has one
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    control_type: str | None  # also None if the marker could not be read
    coordinator_epoch: int | None
    tombstone_count: int | None  # None if the records could not be read
    delete_horizon_ms: int | None
    crc: int
    is_valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    type: ClassVar[str] = "record"
    path: str
    batch_position: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    is_control: bool
    is_tombstone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTotals:
    type: ClassVar[str] = "log_totals"
    path: str
    base_offset: int
    next_offset: int
    batch_bytes: int
    zero_tail_bytes: int  # space that was preallocated
    batch_count: int
    record_count: int
    tombstone_count: int
    pending_horizon_count: int  # batches with a horizon that tombstones or markers wait for
    earliest_delete_horizon_ms: int | None
    max_timestamp_ms: int


LogFact = FileFact | BatchFacts | RecordFacts | LogTotals


def dump_log(fs: Filesystem, named: FileFacts, options: DumpOptions) -> Iterator[LogFact]:
    file = fs.open(named.path)
    try:
        walk = _LogWalk(file, named, options)
        if not options.filters:
            yield named
            yield from walk.facts()
            yield walk.totals()
            return
        # Files without a match are not shown.
        facts = walk.facts()
        for first in facts:
            yield named
            yield first
            yield from facts
    finally:
        file.close()


class _LogWalk:
    """One walk over a log file: `facts` first, then `totals`."""

    def __init__(self, file: File, named: FileFacts, options: DumpOptions) -> None:
        self._file = file
        self._path = named.path
        self._base_offset = named.base_offset or 0
        self._size_bytes = named.size_bytes
        self._options = options
        is_large = named.size_bytes >= KERNEL_FILE_BYTES
        self._inspect: Inspect = kernels.inspect_records if is_large else plain_inspect_records
        self._next_offset = self._base_offset
        self._end = 0  # of the last whole batch
        self._zero_tail_bytes = 0
        self._batch_count = self._record_count = self._tombstone_count = 0
        self._horizon_count = 0
        self._earliest_horizon: int | None = None
        self._max_timestamp = NO_TIMESTAMP

    def facts(self) -> Iterator[LogFact]:
        try:
            for position, header, batch in scan_batches(self._file, 0, self._size_bytes):
                if _overlap(header, self._options.offsets):
                    yield from self._dump_batch(position, header, batch)
                self._next_offset = max(self._next_offset, header.next_offset)
                self._end = position + header.size
        except KafkaError:
            # The scan counts positions from its window; the tail is read again to say where.
            pass
        yield from self._dump_tail()

    def totals(self) -> LogTotals:
        return LogTotals(
            path=self._path,
            base_offset=self._base_offset,
            next_offset=self._next_offset,
            batch_bytes=self._end,
            zero_tail_bytes=self._zero_tail_bytes,
            batch_count=self._batch_count,
            record_count=self._record_count,
            tombstone_count=self._tombstone_count,
            pending_horizon_count=self._horizon_count,
            earliest_delete_horizon_ms=self._earliest_horizon,
            max_timestamp_ms=self._max_timestamp,
        )

    def _dump_batch(self, position: int, header: BatchHeader, batch: Buffer) -> Iterator[LogFact]:
        payload: Buffer = b""
        tombstone_count: int | None = None
        control: ControlRecord | None = None
        reasons = list(self._header_faults(header))
        try:
            verify_crc(batch, 0, header)
            payload = records_payload(batch, 0, header)
            inspected = self._inspect(payload, record_count=header.record_count)
            reasons += _record_faults(header, inspected)
            if inspected.status == RecordFault.NONE:
                tombstone_count = 0 if header.is_control else inspected.tombstone_count
                if header.is_control and header.record_count:
                    control = read_control_record(batch)
        except KafkaError as error:
            reasons.append(str(error))
        self._count(header, tombstone_count or 0)

        records: Iterator[LogFact] = iter(())
        if tombstone_count is not None and self._may_show_records_of(payload):
            records = self._dump_records(position, header, batch)
        first = next(records, None)
        if first is not None or self._options.key is None:
            yield _batch_facts(
                self._path, position, header, tombstone_count, control, is_valid=not reasons
            )
        # Also if the key was not found: it may be in the unreadable part.
        for reason in reasons:
            yield Problem(path=self._path, position=position, reason=reason)
        if first is not None:
            yield first
            yield from records

    def _header_faults(self, header: BatchHeader) -> Iterator[str]:
        if header.base_offset < self._next_offset:
            yield f"base offset {header.base_offset}, expected {self._next_offset} or more"
        if header.last_offset - self._base_offset > INT32_MAX:
            yield f"last offset {header.last_offset} is too far from {self._base_offset}"
        if header.last_offset_delta < 0:
            yield f"last offset delta {header.last_offset_delta}"
        elif header.record_count > header.last_offset_delta + 1:
            yield f"{header.record_count} records for {header.last_offset_delta + 1} offsets"

    def _count(self, header: BatchHeader, tombstone_count: int) -> None:
        self._batch_count += 1
        self._record_count += max(header.record_count, 0)
        self._tombstone_count += tombstone_count
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        horizon = header.delete_horizon_ms
        # A horizon outlives the tombstones it was set for; then nothing waits for it.
        if horizon is not None and (tombstone_count or (header.is_control and header.record_count)):
            self._horizon_count += 1
            earliest = self._earliest_horizon
            self._earliest_horizon = horizon if earliest is None else min(earliest, horizon)

    def _may_show_records_of(self, payload: Buffer) -> bool:
        if not self._options.shows_records:
            return False
        # Searching the bytes is far cheaper than decoding the records.
        return self._options.key is None or self._options.key in bytes(payload)

    def _dump_records(self, position: int, header: BatchHeader, batch: Buffer) -> Iterator[LogFact]:
        options = self._options
        try:
            for record in iter_records(batch):
                if options.offsets is not None and record.offset not in options.offsets:
                    continue
                if options.key is not None and record.key != options.key:
                    continue
                yield RecordFacts(
                    path=self._path,
                    batch_position=position,
                    offset=record.offset,
                    timestamp_ms=record.timestamp,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                    is_control=header.is_control,
                    is_tombstone=record.value is None and not header.is_control,
                )
        except KafkaError as error:
            yield Problem(path=self._path, position=position, reason=str(error))

    def _dump_tail(self) -> Iterator[LogFact]:
        """Bytes after the last whole batch: none, preallocated zeros, or debris of a crash."""
        left = self._size_bytes - self._end
        if left == 0:
            return
        chunks = range(self._end, self._size_bytes, _TAIL_CHUNK_BYTES)
        if not any(any(self._file.pread(_TAIL_CHUNK_BYTES, start)) for start in chunks):
            self._zero_tail_bytes = left
            return
        try:
            header = read_header(self._file.pread(HEADER_SIZE, self._end))
            reason = f"incomplete batch: {left} bytes of {header.size}"
        except KafkaError as error:
            # Its position is relative to the bytes just read.
            reason = str(error).removeprefix("batch at position 0: ")
        yield Problem(path=self._path, position=self._end, reason=reason)


def _overlap(header: BatchHeader, offsets: range | None) -> bool:
    if offsets is None:
        return True
    return header.base_offset < offsets.stop and header.last_offset >= offsets.start


def _record_faults(header: BatchHeader, inspected: RecordsFacts) -> Iterator[str]:
    if inspected.status != RecordFault.NONE:
        fault = RecordFault(inspected.status)
        yield str(MalformedRecord(fault, inspected.fault_index, inspected.fault_position))
        return
    if inspected.last_offset_delta > header.last_offset_delta:
        last_offset = header.base_offset + inspected.last_offset_delta
        yield f"last record has offset {last_offset}, the batch ends at {header.last_offset}"
    max_timestamp = header.base_timestamp + inspected.max_timestamp_delta
    is_create_time = header.timestamp_type is TimestampType.CREATE_TIME
    if header.record_count and is_create_time and max_timestamp > header.max_timestamp:
        yield f"a record has timestamp {max_timestamp}, the batch at most {header.max_timestamp}"


def _batch_facts(
    path: str,
    position: int,
    header: BatchHeader,
    tombstone_count: int | None,
    control: ControlRecord | None,
    *,
    is_valid: bool,
) -> BatchFacts:
    codec = header.attributes & CODEC_MASK
    has_coordinator = control is not None and control.coordinator_epoch != NO_COORDINATOR_EPOCH
    return BatchFacts(
        path=path,
        position=position,
        size_bytes=header.size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        record_count=header.record_count,
        codec=Codec(codec).name.lower() if codec <= Codec.ZSTD else f"codec_{codec}",
        timestamp_type=header.timestamp_type.name.lower(),
        base_timestamp_ms=header.base_timestamp,
        max_timestamp_ms=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        leader_epoch=header.leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        control_type=None if control is None else control.type.name,
        coordinator_epoch=control.coordinator_epoch if control and has_coordinator else None,
        tombstone_count=tombstone_count,
        delete_horizon_ms=header.delete_horizon_ms,
        crc=header.crc,
        is_valid=is_valid,
    )
