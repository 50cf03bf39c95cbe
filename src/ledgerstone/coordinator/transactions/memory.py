"""How much memory transactional ids hold, and which requests may make them hold more. Pure.

An id lives for days after its last transaction, so an error that clients repeat would be repeated
for days: whoever finds no room gets POLICY_VIOLATION, which clients take for final. What is
replayed from the log is counted and never refused, and a transaction can always be ended.
"""

from collections.abc import Iterable
from typing import Final

from ledgerstone.coordinator.memory import text_bytes
from ledgerstone.coordinator.transactions.turn import TransactionConfig
from ledgerstone.errors import PolicyViolation
from ledgerstone.types import TopicPartition

# What CPython needs for the objects themselves, with their places in dicts; measured by
# tests/unit/coordinator/transactions/test_memory.py and rounded up.
ID_BYTES: Final = 896
PARTITION_BYTES: Final = 256


def id_bytes(transactional_id: str) -> int:
    return ID_BYTES + text_bytes(transactional_id)


def partitions_bytes(partitions: Iterable[TopicPartition]) -> int:
    return sum(PARTITION_BYTES + text_bytes(topic) for topic, _ in partitions)


class TransactionMemory:
    """One for all shards of a broker. Invariant: the sum of what their transactions count."""

    __slots__ = ("_config", "held_bytes", "refusal")

    def __init__(self, config: TransactionConfig) -> None:
        self._config = config
        self.held_bytes = 0
        # Why a request was last refused; whoever reports it sets it back.
        self.refusal: str | None = None

    def count(self, change: int) -> None:
        self.held_bytes += change

    def check(self, transactional_id: str, held: int, more: int) -> None:
        """`held` and `more` are bytes of this id."""
        own, all_ids = (
            self._config.ledgerstone_transaction_max_bytes,
            self._config.ledgerstone_transactions_max_bytes,
        )
        if held + more > own:
            self._refuse(
                f"ledgerstone.transaction.max.bytes={own}: "
                f"transaction {transactional_id[:64]!r} holds {held} bytes",
                more,
            )
        if self.held_bytes + more > all_ids:
            self._refuse(
                f"ledgerstone.transactions.max.bytes={all_ids}: "
                f"transactional ids hold {self.held_bytes} bytes",
                more,
            )

    def _refuse(self, reason: str, more: int) -> None:
        self.refusal = reason
        raise PolicyViolation(f"{reason}, {more} more are asked for")
