"""Ends transactions by their producers, for callers that know no transactional ids. Grade D."""

from typing import NamedTuple

from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.server.transactions.shards import TransactionShards


class TransactionEnds(NamedTuple):
    agent: Transactions
    shards: TransactionShards

    def abort(self, producer_id: int) -> None:
        """Aborts the open transaction of a producer, if it has one, and fences the producer."""
        found = self.shards.of_producer(producer_id)
        if found is not None:
            self.agent.abort(found.transactional_id)
