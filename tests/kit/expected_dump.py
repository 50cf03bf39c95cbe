"""A model of a log that predicts what Kafka's dump tool must show for its files.

It gets the same calls as the log and follows the rules of storage/README.md on its own: where
segments begin, which batches get index entries, what a snapshot holds. It never reads files; only
the size and CRC of a batch are passed in, because they depend on the codec.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from golden.kafka_tools import (
    DumpedAbortedTxn,
    DumpedBatch,
    DumpedIndexEntry,
    DumpedProducer,
    DumpedRecord,
    DumpedTimeIndexEntry,
    FileDump,
)
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.storage.log_config import LogConfig

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


@dataclass(slots=True)
class SegmentModel:
    """One segment: its batches in order, and the entries each index must have."""

    base_offset: int
    batches: list[DumpedBatch] = field(default_factory=list)
    index: list[DumpedIndexEntry] = field(default_factory=list)
    time_index: list[DumpedTimeIndexEntry] = field(default_factory=list)
    aborted: list[DumpedAbortedTxn] = field(default_factory=list)
    bytes_since_entry: int = 0
    # The largest timestamp, and the last offset of the first batch that carries it.
    newest: tuple[int, int] = (-1, -1)
    # Made with the first entry; what is cut off later leaves an empty file.
    has_txn_index: bool = False

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.batches)

    @property
    def next_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset

    def indexes_are_full(self, config: LogConfig) -> bool:
        slots = config.segment_index_bytes // OFFSET_ENTRY_BYTES
        time_slots = config.segment_index_bytes // TIME_ENTRY_BYTES
        return len(self.index) >= slots or len(self.time_index) >= time_slots - 1

    def add(self, batch: DumpedBatch, config: LogConfig) -> None:
        position = self.size
        if batch.max_timestamp > self.newest[0]:
            self.newest = (batch.max_timestamp, batch.last_offset)
        due = self.bytes_since_entry > config.index_interval_bytes
        if due and not self.indexes_are_full(config):
            self.index.append(DumpedIndexEntry(offset=batch.last_offset, position=position))
            self.add_time_entry()
            self.bytes_since_entry = 0
        self.batches.append(replace(batch, position=position))
        self.bytes_since_entry += batch.size

    def add_time_entry(self) -> None:
        """Time entries rise: the same largest timestamp again is no news."""
        timestamp, offset = self.newest
        if timestamp > max((entry.timestamp for entry in self.time_index), default=-1):
            self.time_index.append(DumpedTimeIndexEntry(timestamp=timestamp, offset=offset))

    def add_aborted(self, *entries: DumpedAbortedTxn) -> None:
        self.aborted.extend(entries)
        self.has_txn_index = self.has_txn_index or bool(entries)

    def cut(self, offset: int) -> None:
        """Drops batches that hold or follow `offset`; counting restarts."""
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self.index = [entry for entry in self.index if entry.offset < offset]
        self.time_index = [entry for entry in self.time_index if entry.offset < offset]
        self.aborted = [entry for entry in self.aborted if entry.last_offset < offset]
        self.bytes_since_entry = 0
        self.newest = (-1, -1)
        for batch in self.batches:
            if batch.max_timestamp > self.newest[0]:
                self.newest = (batch.max_timestamp, batch.last_offset)

    def files(self) -> Iterator[FileDump]:
        offsets = [record.offset for batch in self.batches for record in batch.records]
        gaps = [pair for pair in pairwise(offsets) if pair[1] != pair[0] + 1]
        yield FileDump(name=self._name(Kind.LOG), batches=self.batches, gaps=gaps)
        yield FileDump(name=self._name(Kind.INDEX), index=self.index)
        yield FileDump(name=self._name(Kind.TIME_INDEX), time_index=self.time_index)
        if self.has_txn_index:
            yield FileDump(name=self._name(Kind.TXN_INDEX), aborted_txns=self.aborted)

    def _name(self, kind: Kind) -> str:
        return file_name(self.base_offset, kind)


@dataclass(slots=True)
class LogModel:
    """A whole partition. `append` decides by itself when a new segment begins."""

    config: LogConfig
    segments: list[SegmentModel] = field(default_factory=lambda: [SegmentModel(0)])
    producers: dict[int, DumpedProducer] = field(default_factory=dict)
    snapshots: dict[int, list[DumpedProducer]] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0

    @property
    def active(self) -> SegmentModel:
        return self.segments[-1]

    @property
    def batches(self) -> list[DumpedBatch]:
        return [batch for segment in self.segments for batch in segment.batches]

    @property
    def records(self) -> list[DumpedRecord]:
        """What a reader of the whole log is given."""
        return [
            record
            for batch in self.batches
            if not batch.is_control
            for record in batch.records
            if record.offset >= self.start_offset
        ]

    @property
    def committed(self) -> list[DumpedRecord]:
        """The same for a reader that wants decided transactions only."""
        aborted = [entry for segment in self.segments for entry in segment.aborted]
        hidden = {
            batch.base_offset
            for batch in self.batches
            for entry in aborted
            if batch.is_transactional
            and batch.producer_id == entry.producer_id
            and entry.first_offset <= batch.base_offset < entry.last_offset
        }
        return [
            record
            for batch in self.batches
            if not batch.is_control and batch.base_offset not in hidden
            for record in batch.records
            if self.start_offset <= record.offset < self.last_stable_offset
        ]

    @property
    def last_stable_offset(self) -> int:
        return max(self.start_offset, min(self._open_transactions(), default=self.end_offset))

    def _open_transactions(self) -> list[int]:
        firsts = [producer.current_txn_first_offset for producer in self.producers.values()]
        return [first for first in firsts if first is not None]

    # -- what happens to a log ----------------------------------------------------------------

    def append(self, *batches: DumpedBatch) -> None:
        """Batches that are written with one call, and so land in one segment."""
        size = sum(batch.size for batch in batches)
        too_large = self.active.size + size > self.config.segment_bytes
        if too_large or self.active.indexes_are_full(self.config):
            self.roll(batches[0].base_offset)
        for batch in batches:
            epoch = batch.partition_leader_epoch
            if not self.epochs or epoch > self.epochs[-1][0]:
                self.epochs.append((epoch, batch.base_offset))
            self._account(batch)

    def _account(self, batch: DumpedBatch) -> None:
        self.active.add(batch, self.config)
        aborted = self._remember(batch)
        if aborted is not None:
            self.active.add_aborted(aborted)
        self.end_offset = batch.last_offset + 1

    def roll(self, at_offset: int | None = None) -> None:
        base_offset = self.end_offset if at_offset is None else at_offset
        if self.active.base_offset == base_offset:
            return
        self.active.add_time_entry()
        self.segments.append(SegmentModel(base_offset))
        self._take_snapshot(base_offset)

    def close(self) -> None:
        self.active.add_time_entry()
        self._take_snapshot(self.end_offset)

    def reopen(self) -> None:
        """After a clean stop the bytes since the last entry are not known any more."""
        self.active.bytes_since_entry = 0
        self._load()

    def recover(self, recovery_point: int) -> None:
        """An unclean start scans the segments from there on and rebuilds their indexes."""
        ends = [segment.base_offset for segment in self.segments[1:]] + [self.end_offset + 1]
        flushed = sum(end <= recovery_point for end in ends)
        self._scan(self.segments[flushed:])
        self._load()

    def _scan(self, old: Sequence[SegmentModel]) -> None:
        self.segments = self.segments[: -len(old)]
        self._reload_producers(old[0].base_offset)
        for segment in old:
            again = SegmentModel(segment.base_offset, has_txn_index=segment.has_txn_index)
            self.segments.append(again)
            for batch in segment.batches:
                self._account(batch)
            again.add_time_entry()

    def rescanned(self) -> "LogModel":
        """What can be derived from the batches alone."""
        scan = LogModel(self.config, segments=list(self.segments))
        scan._scan(self.segments)
        return scan

    def _load(self) -> None:
        """Files are all that a start knows: a log that was cut inside a batch ends before it."""
        active = self.active
        self.end_offset = active.base_offset
        if active.batches:
            self.end_offset = active.batches[-1].last_offset + 1
        if self.end_offset < self.start_offset:
            self.start_at(self.start_offset)
            return
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end_offset]
        # Kept are the snapshots at a segment's base, and that of the last stop.
        bases = [segment.base_offset for segment in self.segments]
        kept = {*bases, max([*self.snapshots, active.base_offset])}
        self.snapshots = {
            at: taken
            for at, taken in self.snapshots.items()
            if at in kept and at <= self.end_offset
        }

    def truncate(self, offset: int) -> None:
        self.segments = [segment for segment in self.segments if segment.base_offset <= offset]
        self.active.cut(offset)
        # A batch that holds the offset goes whole, and the log ends where its data ends.
        offset = self.active.next_offset
        self.end_offset = offset
        self.snapshots = {at: taken for at, taken in self.snapshots.items() if at <= offset}
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        self._reload_producers(offset)

    def start_at(self, offset: int) -> None:
        """Everything is forgotten and an empty log begins."""
        self.segments = [SegmentModel(offset)]
        self.producers, self.snapshots, self.epochs = {}, {}, []
        self.start_offset = self.end_offset = offset

    def delete_before(self, offset: int) -> None:
        """DeleteRecords, and the segments that lie wholly below the new start."""
        self.start_offset = offset
        ends = [segment.base_offset for segment in self.segments[1:]] + [self.end_offset + 1]
        gone = [s for s, end in zip(self.segments, ends, strict=True) if end <= offset]
        self.segments = self.segments[len(gone) :]
        for segment in gone:
            self.snapshots.pop(segment.base_offset, None)
        kept = [entry for entry in self.epochs if entry[1] > offset]
        begun = [entry for entry in self.epochs if entry[1] <= offset]
        self.epochs = [(begun[-1][0], offset), *kept] if begun else kept

    def replace(self, sources: list[SegmentModel], batches: Iterable[DumpedBatch]) -> None:
        """Cleaned batches take the place of whole segments."""
        cleaned = SegmentModel(sources[0].base_offset)
        for batch in batches:
            cleaned.add(batch, self.config)
        cleaned.add_time_entry()
        cleaned.add_aborted(*[entry for source in sources for entry in source.aborted])
        at = self.segments.index(sources[0])
        self.segments[at : at + len(sources)] = [cleaned]
        for source in sources[1:]:
            self.snapshots.pop(source.base_offset, None)

    # -- producers ----------------------------------------------------------------------------

    def _reload_producers(self, end_offset: int) -> None:
        """From the newest snapshot and the batches after it: older ones may be deleted."""
        newest = max((at for at in self.snapshots if at <= end_offset), default=0)
        self.producers = {p.producer_id: p for p in self.snapshots.get(newest, ())}
        for batch in self.batches:
            if newest <= batch.base_offset < end_offset:
                self._remember(batch)

    def _remember(self, batch: DumpedBatch) -> DumpedAbortedTxn | None:
        """Takes note of a producer's batch; what the transaction index must learn from it."""
        if batch.producer_id < 0:
            return None
        known = self.producers.get(batch.producer_id)
        if known is None or known.producer_epoch != batch.producer_epoch:
            known = _in_new_epoch(batch, known)
        first = known.current_txn_first_offset
        if batch.is_control:
            return self._end_transaction(batch, known)
        if batch.is_transactional and first is None:
            first = batch.base_offset
        self.producers[batch.producer_id] = replace(
            known,
            current_txn_first_offset=first,
            last_timestamp=batch.max_timestamp,
            first_sequence=batch.base_sequence,
            last_sequence=batch.last_sequence,
            last_offset=batch.last_offset,
            offset_delta=batch.last_offset - batch.base_offset,
        )
        return None

    def _end_transaction(
        self, marker: DumpedBatch, known: DumpedProducer
    ) -> DumpedAbortedTxn | None:
        if not marker.records:
            # The cleaner emptied it: it ends nothing any more.
            return None
        [record] = marker.records
        assert record.coordinator_epoch is not None
        first = known.current_txn_first_offset
        self.producers[marker.producer_id] = replace(
            known,
            coordinator_epoch=record.coordinator_epoch,
            current_txn_first_offset=None,
            last_timestamp=marker.max_timestamp,
        )
        if record.control_type == "COMMIT" or first is None:
            return None
        return DumpedAbortedTxn(
            version=0,
            producer_id=marker.producer_id,
            first_offset=first,
            last_offset=marker.base_offset,
            last_stable_offset=min(self._open_transactions(), default=marker.base_offset + 1),
        )

    def _take_snapshot(self, offset: int) -> None:
        """A snapshot has one timestamp: the producer's last, which the tool shows twice."""
        self.snapshots[offset] = [
            replace(
                producer,
                timestamp=None if producer.last_offset is None else producer.last_timestamp,
            )
            for _, producer in sorted(self.producers.items())
        ]

    # -- files --------------------------------------------------------------------------------

    def files(self) -> dict[str, FileDump]:
        """Every file the dump tool reads, as it must read it."""
        dumps = [dump for segment in self.segments for dump in segment.files()]
        for offset, producers in self.snapshots.items():
            dumps.append(FileDump(name=file_name(offset, Kind.SNAPSHOT), producers=producers))
        return {dump.name: dump for dump in sorted(dumps, key=lambda dump: dump.name)}


def _in_new_epoch(batch: DumpedBatch, known: DumpedProducer | None) -> DumpedProducer:
    """A producer in a new epoch: its batches are forgotten, an open transaction is not."""
    return DumpedProducer(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        coordinator_epoch=-1 if known is None else known.coordinator_epoch,
        current_txn_first_offset=None if known is None else known.current_txn_first_offset,
        last_timestamp=-1,
        first_sequence=None,
        last_sequence=None,
        last_offset=None,
        offset_delta=None,
        timestamp=None,
    )
