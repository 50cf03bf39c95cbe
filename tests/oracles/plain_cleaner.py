"""A cleaning pass with a dict for a map and a loop for everything. An oracle for tests.

It follows cleaner/README.md the slow way: one batch at a time, every record an object, keys by
their bytes. It was held against Apache Kafka's cleaned segments before the real pass existed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ledgerstone.cleaner.plan import CleaningPlan, SourceSegment
from ledgerstone.records.batch import BatchHeader, iter_headers
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.records.kernels import BatchAction
from ledgerstone.records.record import Record, iter_records
from ledgerstone.storage import offset_index, time_index
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT32_MAX
from tests.oracles.plain_windows import plain_rewrite


class PlainSegment(NamedTuple):
    """The files of one cleaned segment."""

    source_bases: tuple[int, ...]
    log: bytes
    offset_index: bytes
    time_index: bytes
    aborted: list[AbortedTxnEntry]


class PlainPass(NamedTuple):
    end_offset: int
    segments: dict[int, PlainSegment]


class _Batch(NamedTuple):
    header: BatchHeader
    data: bytes

    @property
    def records(self) -> list[Record]:
        return list(iter_records(self.data))


class _Map(NamedTuple):
    offsets: dict[bytes, int]
    latest_offset: int


class _Txns:
    def __init__(self, entries: Sequence[AbortedTxnEntry]) -> None:
        self.waiting = sorted(entries, key=lambda entry: entry.first_offset)
        self.ongoing: dict[int, tuple[AbortedTxnEntry, list[int]]] = {}
        self.committing: list[int] = []
        self.kept: list[AbortedTxnEntry] = []

    def can_discard(self, batch: _Batch) -> bool:
        header = batch.header
        while self.waiting and self.waiting[0].first_offset <= header.last_offset:
            entry = self.waiting.pop(0)
            self.ongoing.setdefault(entry.producer_id, (entry, []))
        if header.is_control:
            return self._end(batch)
        if not header.is_transactional:
            return False
        if header.producer_id in self.ongoing:
            self.ongoing[header.producer_id][1].append(header.last_offset)
            return True
        self.committing.append(header.producer_id)
        return False

    def _end(self, batch: _Batch) -> bool:
        header = batch.header
        if header.record_count == 0:
            return True
        kind = read_control_record(batch.data).type
        if kind is ControlType.COMMIT:
            had_data = header.producer_id in self.committing
            self.committing = [p for p in self.committing if p != header.producer_id]
            return not had_data
        if kind is ControlType.ABORT:
            entry, seen = self.ongoing.pop(header.producer_id, (None, []))
            if entry is not None and seen:
                self.kept.append(entry)
                return False
            return True
        return False


def plain_clean(
    plan: CleaningPlan, logs: Mapping[int, bytes], aborted: Sequence[AbortedTxnEntry]
) -> PlainPass:
    """`logs` are the log files by base offset, `aborted` every entry of the transaction indexes."""
    key_map = _build_map(plan, logs, aborted)
    end_offset = key_map.latest_offset + 1
    reached = [source for source in plan.segments if source.base_offset < end_offset]
    first_base = plan.segments[0].base_offset if plan.segments else 0
    txns = _Txns([entry for entry in aborted if entry.last_offset >= first_base])
    segments = {}
    for group in _groups(plan, reached):
        out: list[bytes] = []
        for source in group:
            for batch in _batches(logs[source.base_offset]):
                left = _cleaned(batch, plan, key_map, txns)
                out += [left] if left else []
        base = group[0].base_offset
        bases = tuple(source.base_offset for source in group)
        segments[base] = PlainSegment(bases, b"".join(out), *_indexes(plan, base, out), txns.kept)
        txns.kept = []
    return PlainPass(end_offset, segments)


def _batches(content: bytes) -> Iterator[_Batch]:
    for position, header in iter_headers(content):
        yield _Batch(header, content[position : position + header.size])


def _build_map(
    plan: CleaningPlan, logs: Mapping[int, bytes], aborted: Sequence[AbortedTxnEntry]
) -> _Map:
    first_dirty = plan.first_dirty_offset
    limit = int(plan.dedupe_buffer_bytes // 24 * plan.load_factor)
    txns = _Txns([entry for entry in aborted if entry.last_offset >= first_dirty])
    offsets: dict[bytes, int] = {}
    latest = first_dirty - 1
    for source in plan.segments:
        if source.end_offset <= first_dirty:
            continue
        for batch in _batches(logs[source.base_offset]):
            if batch.header.last_offset < first_dirty:
                continue
            if not txns.can_discard(batch) and not batch.header.is_control:
                for record in batch.records:
                    if record.key is None or record.offset < first_dirty:
                        continue
                    if len(offsets) >= limit:
                        return _Map(offsets, latest)
                    offsets[record.key] = latest = record.offset
            latest = batch.header.last_offset
        latest = source.end_offset - 1
    return _Map(offsets, latest)


def _groups(plan: CleaningPlan, sources: Sequence[SourceSegment]) -> list[list[SourceSegment]]:
    groups: list[list[SourceSegment]] = []
    for at, source in enumerate(sources):
        grown = [*(groups[-1] if groups else []), source]
        end = plan.first_uncleanable_offset if at == len(sources) - 1 else source.end_offset
        fits = (
            sum(one.size_bytes for one in grown) <= plan.segment_bytes
            and sum(one.offset_index_bytes for one in grown) <= plan.segment_index_bytes
            and sum(one.time_index_bytes for one in grown) <= plan.segment_index_bytes
            and (source.size_bytes == 0 or end - 1 - grown[0].base_offset <= INT32_MAX)
        )
        if groups and fits:
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _cleaned(batch: _Batch, plan: CleaningPlan, key_map: _Map, txns: _Txns) -> bytes:
    header = batch.header
    can_discard = txns.can_discard(batch)
    horizon = header.delete_horizon_ms
    discard = can_discard
    if header.is_control:
        is_past = horizon is not None and horizon <= plan.now_ms
        discard = can_discard and is_past and header.last_offset < plan.removable_to
    keep = [header.is_control or _stays(record, header, plan, key_map) for record in batch.records]
    action = BatchAction.RETAIN_EMPTY if _must_stay(header, plan) else BatchAction.NONE
    if discard:
        action |= BatchAction.DISCARD
    if header.is_control and can_discard:
        action |= BatchAction.STAMP
    new_horizon = plan.now_ms + plan.delete_retention_ms
    return plain_rewrite(batch.data, keep, [action], new_horizon)


def _must_stay(header: BatchHeader, plan: CleaningPlan) -> bool:
    if header.next_offset == plan.first_uncleanable_offset:
        return True
    last = plan.producers.get(header.producer_id)
    if header.producer_id < 0 or last is None:
        return False
    if last.last_data_offset is not None:
        return last.last_data_offset == header.last_offset
    return header.is_control and last.producer_epoch == header.producer_epoch


def _stays(record: Record, header: BatchHeader, plan: CleaningPlan, key_map: _Map) -> bool:
    if record.offset > key_map.latest_offset:
        return True
    if record.key is None or record.offset < key_map.offsets.get(record.key, -1):
        return False
    if record.value is not None:
        return True
    horizon = header.delete_horizon_ms
    if horizon is None or plan.now_ms < horizon:
        return True
    if record.offset >= plan.removable_to:
        return True
    if plan.held_from_offset is None or record.offset < plan.held_from_offset:
        return False
    return plan.now_ms < horizon + plan.hold_max_ms


def _indexes(plan: CleaningPlan, base_offset: int, batches: Sequence[bytes]) -> tuple[bytes, bytes]:
    entries: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    position = since = 0
    newest = (-1, base_offset)
    for data in batches:
        ((_, header),) = iter_headers(data)
        if header.max_timestamp > newest[0]:
            newest = (header.max_timestamp, header.last_offset)
        full = len(entries) >= plan.segment_index_bytes // offset_index.ENTRY_BYTES
        full = full or len(times) >= plan.segment_index_bytes // time_index.ENTRY_BYTES - 1
        if since > plan.index_interval_bytes and not full:
            entries.append((header.last_offset - base_offset, position))
            if newest[0] > (times[-1][0] if times else -1):
                times.append((newest[0], newest[1] - base_offset))
            since = 0
        position += len(data)
        since += len(data)
    if newest[0] > (times[-1][0] if times else -1):
        times.append((newest[0], newest[1] - base_offset))
    return (
        b"".join(offset_index.ENTRY.pack(*entry) for entry in entries),
        b"".join(time_index.ENTRY.pack(*entry) for entry in times),
    )
