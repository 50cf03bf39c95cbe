"""One producer of one partition: its epoch, its last batches, its open transaction. Pure.

Contract in README.md. `producer_state` holds the table of these.
"""

from typing import Final, NamedTuple, Self

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import InvalidProducerEpoch, OutOfOrderSequence
from ledgerstone.records.batch import BatchHeader, increment_sequence
from ledgerstone.storage.producer_snapshot import SnapshotEntry
from ledgerstone.types import (
    INT16_MAX,
    INT32_MAX,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)

# As many batches as an idempotent producer may have in flight.
REMEMBERED_BATCHES: Final = 5
NO_COORDINATOR_EPOCH: Final = -1


class BatchMeta(NamedTuple):
    """A batch as far as duplicates of it must be recognised and answered."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        return cls(
            header.last_sequence,
            header.last_offset,
            header.last_offset_delta,
            header.max_timestamp,
        )

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & INT32_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerEntry:
    """One producer. A new epoch forgets the batches: sequences start again at 0."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    batches: list[BatchMeta] = field(default_factory=list)  # newest last
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int | None = None
    last_timestamp: int = NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def find_duplicate(self, header: BatchHeader) -> BatchMeta | None:
        if header.producer_epoch != self.epoch:
            return None
        sequences = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if (batch.first_sequence, batch.last_sequence) == sequences:
                return batch
        return None

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def add_batch(self, batch: BatchMeta) -> None:
        if len(self.batches) == REMEMBERED_BATCHES:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def remember_earlier(self, header: BatchHeader) -> None:
        """Adds the batch just before the oldest known one; ignores any other."""
        if header.producer_epoch != self.epoch or not 0 < len(self.batches) < REMEMBERED_BATCHES:
            return
        oldest = self.batches[0]
        continues = increment_sequence(header.last_sequence, 1) == oldest.first_sequence
        if continues and header.last_offset < oldest.first_offset:
            self.batches.insert(0, BatchMeta.of(header))

    def check_epoch(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of producer {self.producer_id} is older than {self.epoch}"
            )

    def has_open_transaction(self, epoch: int) -> bool:
        """One of that epoch: a producer of a newer epoch may have ended the older one."""
        return self.current_txn_first_offset is not None and self.epoch == epoch

    def check_marker_epoch(self, epoch: int, transaction_version: int) -> None:
        """KIP-890: from version 2 on a marker has a newer epoch than the data that it ends, so one
        that has not is late, and must not end the next transaction."""
        if transaction_version < 2 or epoch != self.epoch:
            self.check_epoch(epoch)
            return
        # KAFKA-19999: a coordinator that recovers, or lost our answer, writes its marker again.
        # The largest epoch is the coordinator's own; nothing newer can come.
        is_repeated = self.current_txn_first_offset is None or epoch == INT16_MAX
        if not is_repeated:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of a marker of producer {self.producer_id} is that of its open "
                "transaction, which a newer one has to end"
            )

    def check_sequence(self, header: BatchHeader) -> None:
        """The sequence must continue; a new epoch, or one without data, starts at 0."""
        last = self.last_sequence if header.producer_epoch == self.epoch else NO_SEQUENCE
        expected = increment_sequence(last, 1)
        if header.base_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {self.producer_id} epoch {header.producer_epoch} sent sequence "
                f"{header.base_sequence}, expected {expected} (known epoch {self.epoch}, last "
                f"sequence {self.last_sequence})"
            )

    def to_snapshot(self) -> SnapshotEntry:
        first_offset = self.current_txn_first_offset
        return SnapshotEntry(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            last_sequence=self.last_sequence,
            last_offset=self.last_data_offset,
            offset_delta=self.batches[-1].offset_delta if self.batches else 0,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            current_txn_first_offset=NO_OFFSET if first_offset is None else first_offset,
        )

    @classmethod
    def from_snapshot(cls, saved: SnapshotEntry) -> Self:
        entry = cls(saved.producer_id, saved.producer_epoch)
        if saved.last_offset >= 0:
            entry.add_batch(
                BatchMeta(
                    saved.last_sequence, saved.last_offset, saved.offset_delta, saved.timestamp
                )
            )
        entry.coordinator_epoch = saved.coordinator_epoch
        entry.last_timestamp = saved.timestamp
        if saved.current_txn_first_offset >= 0:
            entry.current_txn_first_offset = saved.current_txn_first_offset
        return entry
