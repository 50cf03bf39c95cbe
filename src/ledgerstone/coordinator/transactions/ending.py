"""EndTxn: what a request to commit or abort means in each state. Pure. The tables are in README.md.

The classic protocol cannot tell a repeated EndTxn from the next one: both have the same epoch. With
version 2 the epoch tells them apart, so every cell of its table is certain.
"""

from typing import Final

from ledgerstone.coordinator.transactions.checks import check_epoch, check_producer_id, fenced
from ledgerstone.coordinator.transactions.metadata import (
    LAST_EPOCH,
    PREPARED,
    Transaction,
    TxnState,
)
from ledgerstone.coordinator.transactions.turn import ProducerRef
from ledgerstone.errors import ConcurrentTransactions, InvalidTxnState

_RESULTS: Final = {TxnState.COMPLETE_COMMIT: True, TxnState.COMPLETE_ABORT: False}
_DECISIONS: Final = {TxnState.PREPARE_COMMIT: True, TxnState.PREPARE_ABORT: False}


def ends_classic(transaction: Transaction, producer: ProducerRef, *, commit: bool) -> bool:
    """EndTxn up to version 4. True: the transaction is to be ended; False: it has been."""
    metadata = transaction.metadata
    check_producer_id(metadata, producer)
    check_epoch(metadata, producer)
    if transaction.pending is not None:
        raise ConcurrentTransactions(f"{producer.transactional_id!r} is changing")
    if metadata.state is TxnState.ONGOING:
        return True
    return _was_ended(metadata.state, commit=commit)


def ends(transaction: Transaction, producer: ProducerRef, *, commit: bool) -> bool:
    """The same from version 5 on."""
    metadata = transaction.metadata
    epoch, asked_epoch = metadata.producer_epoch, producer.producer_epoch
    is_repeated = epoch == asked_epoch + 1
    # The repeated end of the last transaction that the id before this one could have.
    is_of_last_id = (
        metadata.previous_producer_id == producer.producer_id
        and asked_epoch == LAST_EPOCH
        and epoch == 0
    )
    if transaction.pending is not None:
        # First: the producer may use an id already that is only pending here.
        raise ConcurrentTransactions(f"{producer.transactional_id!r} is changing")
    if not is_of_last_id:
        check_producer_id(metadata, producer)
    if metadata.state in (TxnState.ONGOING, TxnState.EMPTY):
        is_known = asked_epoch == epoch
    elif metadata.state in PREPARED:
        is_known = is_repeated
    else:
        is_known = is_repeated or is_of_last_id or asked_epoch == epoch
    if not is_known:
        raise fenced(metadata, producer)
    if metadata.state is TxnState.ONGOING:
        return True
    if is_repeated or is_of_last_id:
        return _was_ended(metadata.state, commit=commit)
    if commit:
        raise InvalidTxnState(f"{metadata.state.shown}: there is nothing to commit")
    # The producer may have sent what never arrived; its epoch is used up all the same.
    return True


def _was_ended(state: TxnState, *, commit: bool) -> bool:
    """False, if the request repeats what has been done."""
    if _RESULTS.get(state) is commit:
        return False
    if _DECISIONS.get(state) is commit:
        raise ConcurrentTransactions(f"{state.shown}: markers are being written")
    raise InvalidTxnState(f"{state.shown}: cannot {'commit' if commit else 'abort'}")
