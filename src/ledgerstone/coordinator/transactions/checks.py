"""Questions that several requests have to answer first. Pure."""

from ledgerstone.coordinator.transactions.metadata import (
    EPOCH_PER_TRANSACTION,
    PREPARED,
    TransactionMetadata,
)
from ledgerstone.coordinator.transactions.turn import ProducerRef, TransactionConfig
from ledgerstone.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
)
from ledgerstone.types import INT32_MAX


def raises_epoch(version: int) -> bool:
    """Whether each transaction has an epoch of its own (KIP-890)."""
    return version >= EPOCH_PER_TRANSACTION


def check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequest("a transactional id must not be empty")


def check_timeout(timeout_ms: int, config: TransactionConfig) -> None:
    longest = config.transaction_max_timeout_ms
    if not 0 < timeout_ms <= longest:
        raise InvalidTransactionTimeout(f"{timeout_ms} ms is not in [1, {longest}]")


def check_producer(metadata: TransactionMetadata, producer: ProducerRef) -> None:
    """For requests inside a transaction: the right producer, and no transaction that is ending."""
    check_producer_id(metadata, producer)
    check_epoch(metadata, producer)
    if metadata.state in PREPARED:
        raise ConcurrentTransactions(f"{metadata.state.shown}: markers are being written")


def check_producer_id(metadata: TransactionMetadata, producer: ProducerRef) -> None:
    if metadata.producer_id != producer.producer_id:
        raise InvalidProducerIdMapping(
            f"{producer.transactional_id!r} belongs to producer {metadata.producer_id}, "
            f"not {producer.producer_id}"
        )


def check_epoch(metadata: TransactionMetadata, producer: ProducerRef) -> None:
    if metadata.producer_epoch != producer.producer_epoch:
        raise fenced(metadata, producer)


def fenced(metadata: TransactionMetadata, producer: ProducerRef) -> ProducerFenced:
    return ProducerFenced(
        f"{producer.transactional_id!r} is at epoch {metadata.producer_epoch}, "
        f"not {producer.producer_epoch}"
    )


def is_timed_out(metadata: TransactionMetadata, now_ms: int) -> bool:
    """Counted from the first partition; nothing extends it. The largest time-out means: never,
    since two-phase commits wait for somebody else's word."""
    if metadata.timeout_ms == INT32_MAX:
        return False
    return metadata.start_ms + metadata.timeout_ms < now_ms


def fresh(producer_id: int | None) -> int:
    if producer_id is None:
        raise CoordinatorLoadInProgress("no producer id is at hand")
    return producer_id
