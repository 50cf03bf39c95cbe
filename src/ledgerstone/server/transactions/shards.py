"""The transaction shards hosted here, and what may be read of them by anyone. Grade D.

`agent` opens, asks and closes shards. What is seen here is committed.
"""

from collections.abc import Callable, Iterator

from ledgerstone.cleaner.open_txn import TxnOwner
from ledgerstone.coordinator.transactions.metadata import PREPARED, Transaction, TxnState
from ledgerstone.coordinator.transactions.table import TransactionTable
from ledgerstone.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import TRANSACTION_STATE
from ledgerstone.server.transactions.hosted_shard import HostedTransactions


class TransactionShards:
    def __init__(self, image: Callable[[], MetadataImage], node_id: int) -> None:
        self._image = image
        self._node_id = node_id
        # Of partitions led here; the others have their coordinator elsewhere, or none.
        self.by_number: dict[int, HostedTransactions] = {}

    def loaded(self, number: int) -> HostedTransactions:
        """A coordinator error where this broker does not serve the partition, or not yet."""
        hosted = self.by_number.get(number)
        if hosted is not None and hosted.is_loaded:
            return hosted
        name = f"{TRANSACTION_STATE}-{number}"
        if hosted is not None:
            raise CoordinatorLoadInProgress(f"{name} is not replayed and committed to its end yet")
        state = self._image().partition(TRANSACTION_STATE, number)
        if state is not None and state.leader == self._node_id:
            raise CoordinatorNotAvailable(f"{name} is offline")
        raise NotCoordinator(f"{name} is not led here")

    @property
    def are_loaded(self) -> bool:
        return all(each.is_loaded for each in self.by_number.values())

    def tables(self) -> list[TransactionTable]:
        """The transactional ids of every shard that is loaded."""
        return [hosted.shard.table for _, hosted in self.all_loaded()]

    def all_loaded(self) -> list[tuple[int, HostedTransactions]]:
        """Those that serve, in the order of their numbers."""
        return [each for each in sorted(self.by_number.items()) if each[1].is_loaded]

    def undecided(self) -> Iterator[Transaction]:
        """Open transactions, and those whose markers are not all written."""
        for table in self.tables():
            for each in table:
                if each.metadata.state is TxnState.ONGOING or each.metadata.state in PREPARED:
                    yield each

    def of_producer(self, producer_id: int) -> Transaction | None:
        """The undecided transaction of a producer."""
        return next(
            (each for each in self.undecided() if each.metadata.producer_id == producer_id), None
        )

    def owner_of(self, producer_id: int) -> TxnOwner | None:
        found = self.of_producer(producer_id)
        if found is None:
            return None
        return TxnOwner(found.transactional_id, found.metadata.start_ms)

    def count_by_state(self) -> dict[TxnState, int]:
        """Every state a record can have, also those no id is in."""
        counts = {state: 0 for state in TxnState if state < TxnState.DEAD}
        for table in self.tables():
            for each in table.known():
                counts[each.metadata.state] += 1
        return counts

    def oldest_start_ms(self) -> int | None:
        """Of the open transactions."""
        starts = (each.metadata.start_ms for table in self.tables() for each in table.ongoing())
        return min(starts, default=None)

    def check_invariants(self) -> None:
        for hosted in self.by_number.values():
            assert hosted.partition.is_leader, hosted.partition.topic_partition
        for _, hosted in self.all_loaded():
            hosted.shard.check_invariants()
