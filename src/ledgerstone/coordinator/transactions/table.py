"""The transactional ids of a shard, and what they hold. Pure."""

from collections.abc import Iterator

from ledgerstone.coordinator.transactions.memory import (
    TransactionMemory,
    id_bytes,
    partitions_bytes,
)
from ledgerstone.coordinator.transactions.metadata import (
    AT_REST,
    PREPARED,
    Transaction,
    TransactionMetadata,
    TxnState,
)
from ledgerstone.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class TransactionTable:
    """Invariant: `_ongoing` are those in state Ongoing, and `memory` counts what all hold."""

    __slots__ = ("_all", "_ongoing", "memory")

    def __init__(self, memory: TransactionMemory) -> None:
        self.memory = memory
        self._all: dict[str, Transaction] = {}
        self._ongoing: dict[str, Transaction] = {}

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def ongoing(self) -> Iterator[Transaction]:
        return iter(self._ongoing.values())

    def find(self, transactional_id: str) -> Transaction | None:
        return self._all.get(transactional_id)

    def known(self) -> Iterator[Transaction]:
        """Without those whose first record is not committed yet."""
        return (each for each in self if each.metadata.producer_epoch != NO_PRODUCER_EPOCH)

    def existing(self, transactional_id: str) -> Transaction:
        return self._all[transactional_id]

    def new(self, transaction: Transaction) -> Transaction:
        """PolicyViolation where there is no room for one more."""
        transactional_id = transaction.transactional_id
        self.memory.check(transactional_id, 0, id_bytes(transactional_id))
        self.put(transaction)
        return transaction

    def put(self, transaction: Transaction) -> None:
        self.remove(transaction.transactional_id)
        self._all[transaction.transactional_id] = transaction
        self.changed(transaction)

    def remove(self, transactional_id: str) -> None:
        transaction = self._all.pop(transactional_id, None)
        self._ongoing.pop(transactional_id, None)
        if transaction is not None:
            self.memory.count(-transaction.counted_bytes)
            transaction.counted_bytes, transaction.counted = 0, None

    def clear(self) -> None:
        for transactional_id in list(self._all):
            self.remove(transactional_id)

    def check_room(self, transaction: Transaction, more: int) -> None:
        self.memory.check(transaction.transactional_id, transaction.counted_bytes, more)

    def change_begun(self, transaction: Transaction, after: TransactionMetadata) -> None:
        """Counts what it will hold; `changed` counts what it does hold."""
        self._count(transaction, after)

    def changed(self, transaction: Transaction) -> None:
        self._count(transaction, transaction.metadata)
        if transaction.metadata.state is TxnState.ONGOING:
            self._ongoing[transaction.transactional_id] = transaction
        else:
            self._ongoing.pop(transaction.transactional_id, None)

    def _count(self, transaction: Transaction, metadata: TransactionMetadata) -> None:
        if metadata.partitions is transaction.counted:
            return  # Most steps of a transaction leave its partitions as they are.
        transaction.counted = metadata.partitions
        holds = id_bytes(transaction.transactional_id) + partitions_bytes(metadata.partitions)
        self.memory.count(holds - transaction.counted_bytes)
        transaction.counted_bytes = holds

    def check_invariants(self) -> None:
        for transactional_id, each in self._all.items():
            metadata = each.metadata
            assert each.transactional_id == transactional_id
            assert metadata.producer_id != NO_PRODUCER_ID, transactional_id
            assert metadata.state is not TxnState.DEAD, transactional_id
            if metadata.state in AT_REST:
                assert not metadata.partitions, transactional_id
            if metadata.state in PREPARED:
                assert each.pending in (
                    TxnState.COMPLETE_COMMIT,
                    TxnState.COMPLETE_ABORT,
                )
            else:
                assert not each.unmarked, transactional_id
            if metadata.producer_epoch == NO_PRODUCER_EPOCH:
                assert each.pending is TxnState.EMPTY, transactional_id
        ongoing = [
            key for key, each in self._all.items() if each.metadata.state is TxnState.ONGOING
        ]
        assert sorted(ongoing) == sorted(self._ongoing)
