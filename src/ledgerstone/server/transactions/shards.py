"""The transaction shards hosted here, and what may be read of them by anyone. Grade D.

`agent` opens, asks and closes shards. What is seen here is committed.
"""

from collections.abc import Iterator

from ledgerstone.cleaner.open_txn import TxnOwner
from ledgerstone.coordinator.transactions.metadata import PREPARED, State, Transaction
from ledgerstone.server.transactions.hosted_shard import HostedShard


class TransactionShards:
    def __init__(self) -> None:
        # Of partitions led here; the others have their coordinator elsewhere, or none.
        self.by_number: dict[int, HostedShard] = {}

    def undecided(self) -> Iterator[Transaction]:
        """Open transactions, and those whose markers are not all written."""
        for hosted in self.by_number.values():
            if hosted.is_loaded:
                for each in hosted.shard.table:
                    if each.metadata.state is State.ONGOING or each.metadata.state in PREPARED:
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
