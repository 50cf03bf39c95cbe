"""A partition's log as a list of batches: slow, obvious, and right where the real one is clever."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ledgerstone.records.batch import BatchHeader, read_header
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.records.record import iter_records
from ledgerstone.storage.producer_snapshot import SnapshotEntry

NONE = -1


@dataclass(slots=True)
class ModelProducer:
    """One producer, as replaying its batches gives it."""

    epoch: int = NONE
    batches: list[BatchHeader] = field(default_factory=list)
    timestamp: int = NONE
    coordinator_epoch: int = NONE
    open_since: int = NONE

    def snapshot(self, producer_id: int) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else None
        return SnapshotEntry(
            producer_id=producer_id,
            producer_epoch=self.epoch,
            last_sequence=last.last_sequence if last else NONE,
            last_offset=last.last_offset if last else NONE,
            offset_delta=last.last_offset_delta if last else 0,
            timestamp=self.timestamp,
            coordinator_epoch=self.coordinator_epoch,
            current_txn_first_offset=self.open_since,
        )


@dataclass(frozen=True, slots=True)
class ModelTxn:
    producer_id: int
    first_offset: int
    marker_offset: int
    aborted: bool


@dataclass(slots=True)
class History:
    """What a run of batches says about producers and transactions."""

    producers: dict[int, ModelProducer] = field(default_factory=dict)
    txns: list[ModelTxn] = field(default_factory=list)

    def entries(self) -> list[SnapshotEntry]:
        return [producer.snapshot(pid) for pid, producer in sorted(self.producers.items())]

    def last_stable_offset(self, high_watermark: int, *, decided_from: int = 0) -> int:
        """Transactions decided by a marker below `decided_from` count as replicated."""
        unstable = [p.open_since for p in self.producers.values() if p.open_since != NONE]
        unstable += [
            txn.first_offset
            for txn in self.txns
            if txn.marker_offset >= max(high_watermark, decided_from)
        ]
        return min([high_watermark, *unstable])


def replay(batches: Iterable[bytes]) -> History:
    history = History()
    for batch in batches:
        header = read_header(batch)
        if header.has_producer_id:
            producer = history.producers.setdefault(header.producer_id, ModelProducer())
            if header.producer_epoch != producer.epoch:
                producer.epoch = header.producer_epoch
                producer.batches = []
            producer.timestamp = header.max_timestamp
            if header.is_control:
                _end(history, producer, header, batch)
            else:
                producer.batches.append(header)
                if header.is_transactional and producer.open_since == NONE:
                    producer.open_since = header.base_offset
    return history


def _end(history: History, producer: ModelProducer, header: BatchHeader, batch: bytes) -> None:
    marker = read_control_record(batch)
    producer.coordinator_epoch = marker.coordinator_epoch
    if producer.open_since == NONE:
        return
    aborted = marker.type is ControlType.ABORT
    history.txns.append(
        ModelTxn(header.producer_id, producer.open_since, header.base_offset, aborted)
    )
    producer.open_since = NONE


def first_at_or_after(
    batches: Iterable[bytes], timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record that is not older."""
    for batch in batches:
        for record in iter_records(batch):
            if record.offset >= start_offset and record.timestamp >= timestamp:
                return record.timestamp, record.offset
    return None


@dataclass(frozen=True, slots=True)
class ModelSegment:
    base_offset: int
    end_offset: int
    size_bytes: int
    timestamp: int


def segments_to_delete(
    segments: list[ModelSegment],
    *,
    log_start_offset: int,
    high_watermark: int,
    retention_bytes: int,
    retention_ms: int,
    now_ms: int,
) -> int:
    """How many leading segments the three rules take, one rule after the other."""
    left = list(segments)
    while len(left) > 1 and left[0].end_offset <= min(log_start_offset, high_watermark):
        del left[0]
    # Each of the next two rules may take everything that is not an empty last segment.
    while (
        retention_bytes >= 0
        and left
        and _may_go(left, high_watermark)
        and sum(segment.size_bytes for segment in left[1:]) >= retention_bytes
    ):
        del left[0]
    while (
        retention_ms >= 0
        and left
        and _may_go(left, high_watermark)
        and now_ms - left[0].timestamp > retention_ms
    ):
        del left[0]
    return len(segments) - len(left)


def _may_go(left: list[ModelSegment], high_watermark: int) -> bool:
    empty_last = len(left) == 1 and left[0].size_bytes == 0
    return not empty_last and left[0].end_offset <= high_watermark
