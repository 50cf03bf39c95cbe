"""InitProducerId with a transactional id: which producer may start, and as what. Pure."""

from ledgerstone.coordinator.transactions.checks import fresh
from ledgerstone.coordinator.transactions.metadata import (
    LAST_EPOCH,
    PREPARED,
    Transaction,
    TransactionMetadata,
)
from ledgerstone.coordinator.transactions.transitions import new_epoch, new_producer_id
from ledgerstone.errors import ConcurrentTransactions, ProducerFenced
from ledgerstone.types import NO_PRODUCER_EPOCH

# The producer id and epoch that a producer says it had.
Expected = tuple[int, int]


def check_may_start(transaction: Transaction, expected: Expected | None) -> None:
    metadata = transaction.metadata
    if transaction.pending is not None:
        raise ConcurrentTransactions(f"{transaction.transactional_id!r} is changing")
    if expected is not None:
        _check_expected(metadata, *expected)
    if metadata.state in PREPARED:
        raise ConcurrentTransactions(f"{metadata.state.shown}: markers are being written")


def _check_expected(metadata: TransactionMetadata, producer_id: int, epoch: int) -> None:
    """It comes from the present producer, or from the one before it whose epochs were used up, and
    which has not heard of its new id. An id that was just made fits any."""
    is_present = producer_id == metadata.producer_id
    was_last = producer_id == metadata.previous_producer_id and epoch >= LAST_EPOCH
    if metadata.producer_epoch != NO_PRODUCER_EPOCH and not is_present and not was_last:
        raise ProducerFenced(f"producer {metadata.producer_id} has the id, not {producer_id}")


def started(
    metadata: TransactionMetadata,
    timeout_ms: int,
    expected: Expected | None,
    fresh_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata:
    """At rest; an open transaction was aborted before."""
    expected_epoch = None if expected is None else expected[1]
    if metadata.is_exhausted and expected_epoch in (None, metadata.producer_epoch):
        return new_producer_id(
            metadata,
            fresh(fresh_producer_id),
            timeout_ms,
            now_ms,
            keeps_last_epoch=expected_epoch is not None,
        )
    return new_epoch(metadata, timeout_ms, expected_epoch, now_ms)
