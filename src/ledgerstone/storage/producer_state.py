"""A partition's producer state: sequences, epochs, open transactions. Pure.

Decides whether a batch continues its producer's sequence, repeats an earlier batch or is refused,
and below which offset every transaction is decided. Contract in README.md.

Checking and updating are two steps. Leaders check before they write (`check_append`,
`check_marker`); leaders and followers update after the write (`update`, `end_transaction`). An
update never fails: what is in the log happened. So followers and replay skip the checks, and the
gaps that compaction leaves in a sequence are no errors for them.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from ledgerstone.errors import InvalidTxnState, TransactionCoordinatorFenced
from ledgerstone.records.batch import BatchHeader
from ledgerstone.records.validation import Origin
from ledgerstone.storage.producer_entry import REMEMBERED_BATCHES, BatchMeta, ProducerEntry
from ledgerstone.storage.producer_snapshot import SnapshotEntry
from ledgerstone.storage.verification import TxnTerms, VerificationGuard, Verifications
from ledgerstone.types import NO_PRODUCER_ID

# A client may use ids that no broker allocated, a new one with each batch, and each entry lives for
# producer.id.expiration.ms. About a kilobyte each.
MAX_PRODUCERS: Final = 10_000
# Kafka's default of producer.id.expiration.ms.
DEFAULT_PRODUCER_EXPIRATION_MS: Final = 86_400_000


class CompletedTxn(NamedTuple):
    """A transaction with data whose marker, at `last_offset`, is now in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class LastRecord(NamedTuple):
    """What the cleaner must keep of a producer, so that a rebuilt log still has it."""

    last_data_offset: int | None  # None when only markers are known
    producer_epoch: int


class ProducerStateTable:
    """The producers of one partition, by id.

    Invariant: `_ongoing` maps the first offset of each open transaction to its producer, and each
    such producer's entry says the same. `_unreplicated` maps the first offset of each decided
    transaction to its marker's offset, in the order of the markers, as long as the high watermark
    has not passed the marker.
    """

    __slots__ = (
        "_ongoing",
        "_producers",
        "_unreplicated",
        "first_unstable_offset",
        "map_end_offset",
        "verifications",
    )

    def __init__(self, map_end_offset: int = 0) -> None:
        # Batches below this offset are accounted for. Every append moves it, because batches
        # without a producer id never come here.
        self.map_end_offset = map_end_offset
        # No transaction is undecided, or decided but not replicated, below it; None without any.
        # Stored, not computed, because every fetch reads it and few appends change it.
        self.first_unstable_offset: int | None = None
        self._producers: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}
        # Of transactions that have no batch here yet. In memory alone.
        self.verifications = Verifications()

    @property
    def is_empty(self) -> bool:
        return not self._producers

    def last_entry(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def entries(self) -> list[SnapshotEntry]:
        """The entries of a snapshot, by producer id."""
        return [entry.to_snapshot() for _, entry in sorted(self._producers.items())]

    def open_transactions(self) -> dict[int, int]:
        """Producer ids by the first offset of their open transactions, lowest first."""
        return {first: self._ongoing[first] for first in sorted(self._ongoing)}

    def active_producers(self) -> dict[int, LastRecord]:
        return {
            producer_id: LastRecord(entry.last_data_offset if entry.batches else None, entry.epoch)
            for producer_id, entry in sorted(self._producers.items())
        }

    def is_transaction_late(self, now_ms: int, longest_ms: int) -> bool:
        """Whether the oldest open transaction has been silent for longer than any may last: its
        coordinator does not know of it, or cannot end it. By the producer's last timestamp, as in
        Kafka, which says nothing about one from before 1970."""
        if not self._ongoing:
            return False
        last_ms = self._producers[self._ongoing[min(self._ongoing)]].last_timestamp
        return last_ms > 0 and now_ms - last_ms > longest_ms

    # -- before the write ---------------------------------------------------------------------

    def start_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        *,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> VerificationGuard | None:
        """The guard for the coordinator's answer; None if the transaction is known here already."""
        entry = self._producers.get(producer_id)
        if entry is not None:
            entry.check_epoch(producer_epoch)
            if entry.has_open_transaction(producer_epoch):
                return None
        return self.verifications.start(
            producer_id,
            producer_epoch,
            sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=now_ms,
        )

    def check_append(
        self, header: BatchHeader, *, origin: Origin, terms: TxnTerms | None = None
    ) -> BatchMeta | None:
        """The earlier batch this one repeats, None if it may be appended; raises if it may not.

        Coordinators write without sequences that could be checked. Of a control batch only the
        producer epoch can be seen in the header; `check_marker` does the rest.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return None
        entry = self._producers.get(header.producer_id)
        from_client = origin is Origin.CLIENT
        if entry is not None:
            if from_client and (duplicate := entry.find_duplicate(header)) is not None:
                return duplicate
            entry.check_epoch(header.producer_epoch)
        if terms is not None and terms.must_be_verified and header.is_transactional:
            self._check_verified(header, entry, terms.guard)
        if from_client and len(self.verifications):
            verification = self.verifications.get(header.producer_id)
            if verification is not None:
                has_batches = entry is not None and bool(entry.batches)
                verification.check_sequence(header, has_batches=has_batches)
        if entry is None:
            # Retention may have removed all we knew: then any sequence may start.
            return None
        if from_client:
            entry.check_sequence(header)
        in_transaction = entry.current_txn_first_offset is not None
        if in_transaction and not header.is_transactional:
            raise InvalidTxnState(
                f"producer {header.producer_id} has a transaction open since offset "
                f"{entry.current_txn_first_offset} and wrote outside of it"
            )
        return None

    def _check_verified(
        self, header: BatchHeader, entry: ProducerEntry | None, guard: VerificationGuard | None
    ) -> None:
        if entry is None or not entry.has_open_transaction(header.producer_epoch):
            self.verifications.check(header.producer_id, guard)

    def check_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> None:
        """Raises if a newer producer or a newer coordinator has been here already."""
        entry = self._producers.get(producer_id)
        if entry is None:
            return
        entry.check_marker_epoch(producer_epoch, transaction_version)
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"coordinator epoch {coordinator_epoch} of producer {producer_id} is older than "
                f"{entry.coordinator_epoch}"
            )

    # -- after the write ----------------------------------------------------------------------

    def update(self, header: BatchHeader) -> None:
        """Applies a data batch that is now in the log. A control batch here was emptied by the
        cleaner: its transaction is gone and it has no effect."""
        if header.producer_id == NO_PRODUCER_ID or header.is_control:
            return
        entry = self._entry_of(header.producer_id)
        entry.enter_epoch(header.producer_epoch)
        entry.add_batch(BatchMeta.of(header))
        if header.is_transactional:
            self.verifications.data_written(header.producer_id)
            if entry.current_txn_first_offset is None:
                self._begin_transaction(entry, header.base_offset)

    def _begin_transaction(self, entry: ProducerEntry, first_offset: int) -> None:
        entry.current_txn_first_offset = first_offset
        self._ongoing[first_offset] = entry.producer_id
        if self.first_unstable_offset is None:
            # Otherwise an earlier transaction holds it: offsets only rise.
            self.first_unstable_offset = first_offset

    def end_transaction(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        marker_offset: int,
        timestamp: int,
        commit: bool,
    ) -> CompletedTxn | None:
        """Applies a marker that is now in the log; None if the transaction had no data here."""
        self.verifications.marker_written(producer_id, producer_epoch)
        entry = self._entry_of(producer_id)
        entry.enter_epoch(producer_epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.current_txn_first_offset
        if first_offset is None:
            return None
        entry.current_txn_first_offset = None
        del self._ongoing[first_offset]
        self._unreplicated[first_offset] = marker_offset
        return CompletedTxn(producer_id, first_offset, marker_offset, not commit)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset with this marker, replication aside. Call it right after
        `end_transaction`, before any later batch is applied."""
        return min(self._ongoing, default=completed.last_offset + 1)

    def on_high_watermark(self, high_watermark: int) -> None:
        """A decided transaction is stable once its marker is replicated."""
        decided = self._unreplicated.items()
        stable = [first for first, _ in takewhile(lambda txn: txn[1] < high_watermark, decided)]
        if not stable:
            return
        for first_offset in stable:
            del self._unreplicated[first_offset]
        self._refresh_first_unstable_offset()

    # -- life cycle ---------------------------------------------------------------------------

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Removes expired producers without an open transaction; returns their number."""
        expired = [
            producer_id
            for producer_id, entry in self._producers.items()
            if entry.current_txn_first_offset is None
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.remove_expired(now_ms, expiration_ms)
        return len(expired)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.load((), offset)

    def load(self, entries: Iterable[SnapshotEntry], end_offset: int) -> None:
        """Replaces the state by that of a snapshot at `end_offset`."""
        self._producers = {
            entry.producer_id: ProducerEntry.from_snapshot(entry) for entry in entries
        }
        self._ongoing = {
            entry.current_txn_first_offset: producer_id
            for producer_id, entry in self._producers.items()
            if entry.current_txn_first_offset is not None
        }
        self._unreplicated = {}
        self.map_end_offset = end_offset
        self._refresh_first_unstable_offset()

    def remember_earlier(self, header: BatchHeader) -> None:
        """A batch from before the snapshot that was loaded; call from the newest back."""
        entry = self._producers.get(header.producer_id)
        if entry is not None and not header.is_control:
            entry.remember_earlier(header)

    def check_invariants(self) -> None:
        for producer_id, entry in self._producers.items():
            assert entry.producer_id == producer_id, entry
            assert len(entry.batches) <= REMEMBERED_BATCHES, entry
            offsets = [batch.last_offset for batch in entry.batches]
            assert offsets == sorted(offsets), entry
            first_offset = entry.current_txn_first_offset
            assert first_offset is None or self._ongoing[first_offset] == producer_id, entry
        for first_offset, producer_id in self._ongoing.items():
            assert self._producers[producer_id].current_txn_first_offset == first_offset
        for first_offset, marker_offset in self._unreplicated.items():
            assert first_offset < marker_offset
        assert list(self._unreplicated.values()) == sorted(self._unreplicated.values())
        unstable = min([*self._ongoing, *self._unreplicated], default=None)
        assert self.first_unstable_offset == unstable, (self.first_unstable_offset, unstable)

    def _entry_of(self, producer_id: int) -> ProducerEntry:
        entry = self._producers.get(producer_id)
        if entry is None:
            if len(self._producers) >= MAX_PRODUCERS:
                self._forget_oldest()
            entry = self._producers[producer_id] = ProducerEntry(producer_id)
        return entry

    def _forget_oldest(self) -> None:
        """Expires a tenth of the producers, those that wrote longest ago. By offset, because a
        flooding producer could choose late timestamps."""
        settled = [
            entry for entry in self._producers.values() if entry.current_txn_first_offset is None
        ]
        settled.sort(key=lambda entry: entry.last_data_offset)
        for entry in settled[: MAX_PRODUCERS // 10]:
            del self._producers[entry.producer_id]

    def _refresh_first_unstable_offset(self) -> None:
        self.first_unstable_offset = min([*self._ongoing, *self._unreplicated], default=None)
