"""From one value of a transactional id to the next. Pure. The table is in README.md.

Whether a change is allowed was asked before; what is asked here is only that the states fit.
"""

from collections.abc import Iterable
from typing import TypedDict, Unpack

from ledgerstone.coordinator.transactions.metadata import (
    AT_REST,
    EPOCH_PER_TRANSACTION,
    FENCING_EPOCH,
    PREDECESSORS,
    Partitions,
    TransactionMetadata,
    TxnState,
)
from ledgerstone.dataclasses import replace
from ledgerstone.errors import InvariantViolation, ProducerFenced
from ledgerstone.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition


class _Changes(TypedDict, total=False):
    """Fields of `TransactionMetadata` that a step changes, beside those that each one does."""

    producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    next_producer_id: int
    timeout_ms: int
    partitions: Partitions
    start_ms: int
    client_version: int


def new_epoch(
    before: TransactionMetadata, timeout_ms: int, expected_epoch: int | None, now_ms: int
) -> TransactionMetadata:
    """InitProducerId. ProducerFenced where the producer's epoch is not the last one given."""
    epoch, last_epoch = before.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected_epoch is not None:
        if before.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            last_epoch = before.producer_epoch
        elif expected_epoch == before.last_producer_epoch:
            # Asked again: the answer was lost.
            epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
        else:
            raise ProducerFenced(
                f"epoch {expected_epoch} is neither {before.producer_epoch} nor the one before it, "
                f"{before.last_producer_epoch}"
            )
    return _initialised(
        before,
        timeout_ms,
        now_ms,
        producer_id=before.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
    )


def new_producer_id(
    before: TransactionMetadata,
    producer_id: int,
    timeout_ms: int,
    now_ms: int,
    *,
    keeps_last_epoch: bool,
) -> TransactionMetadata:
    """InitProducerId where the epochs of the present id are used up."""
    return _initialised(
        before,
        timeout_ms,
        now_ms,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=before.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH,
    )


def _initialised(
    before: TransactionMetadata,
    timeout_ms: int,
    now_ms: int,
    *,
    producer_id: int,
    producer_epoch: int,
    last_producer_epoch: int,
) -> TransactionMetadata:
    return _next(
        before,
        TxnState.EMPTY,
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=timeout_ms,
        partitions={},
        start_ms=NO_TIMESTAMP,
    )


def with_partitions(
    before: TransactionMetadata,
    partitions: Iterable[TopicPartition],
    client_version: int,
    now_ms: int,
) -> TransactionMetadata:
    return _next(
        before,
        TxnState.ONGOING,
        now_ms,
        partitions={**before.partitions, **dict.fromkeys(partitions)},
        start_ms=now_ms if before.state in AT_REST else before.start_ms,
        client_version=client_version,
    )


def prepared(
    before: TransactionMetadata,
    *,
    commit: bool,
    client_version: int,
    next_producer_id: int,
    now_ms: int,
) -> TransactionMetadata:
    """The decision to commit or abort. Version 2 raises the epoch, so that what the producer sent
    for this transaction and comes late does not land in the next one."""
    state = TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT
    epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    if client_version >= EPOCH_PER_TRANSACTION:
        last_epoch = epoch
        # The highest epoch that fits is stored only by accident; its abort must pass all the same.
        if epoch != FENCING_EPOCH:
            epoch += 1
    return _next(
        before,
        state,
        now_ms,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        # The abort of a transaction that was never heard of begins with it.
        start_ms=now_ms if before.state in AT_REST else before.start_ms,
        client_version=client_version,
    )


def fenced(before: TransactionMetadata, *, has_failed_before: bool) -> TransactionMetadata:
    """The epoch that shuts out the producer of the classic protocol, before its transaction is
    aborted. Raised once only, however often the record of the abort is refused."""
    epoch = before.producer_epoch
    if not has_failed_before and epoch != FENCING_EPOCH:
        epoch += 1
    return replace(before, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)


def completed(before: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Every marker is written."""
    is_commit = before.state is TxnState.PREPARE_COMMIT
    producer_id, epoch = producer_after(before)
    return _next(
        before,
        TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT,
        now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions={},
    )


def producer_after(prepared: TransactionMetadata) -> tuple[int, int]:
    """Producer id and epoch once the transaction is completed."""
    is_raised = prepared.client_version >= EPOCH_PER_TRANSACTION
    if is_raised and prepared.next_producer_id != NO_PRODUCER_ID:
        return prepared.next_producer_id, 0
    return prepared.producer_id, prepared.producer_epoch


def _next(
    before: TransactionMetadata, state: TxnState, now_ms: int, **changes: Unpack[_Changes]
) -> TransactionMetadata:
    """One copy with all that changes: every step of every transaction comes here."""
    if before.state not in PREDECESSORS[state]:
        raise InvariantViolation(f"{state.shown} does not follow {before.state.shown}")
    return replace(
        before,
        state=state,
        previous_producer_id=before.producer_id,
        last_update_ms=now_ms,
        **changes,
    )
