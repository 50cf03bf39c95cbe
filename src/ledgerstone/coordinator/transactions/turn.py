"""What goes into one call of the transaction machine and what comes out of it. Pure.

Contract with the shell: append the records of an outcome's changes as one batch, wait until it is
committed, call `committed` with the outcome, settle what that returns, then give the answers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.config.broker_keys import BROKER_DEFAULTS as _DEFAULT
from ledgerstone.coordinator.transactions.metadata import TransactionMetadata
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

# Names what waits for an answer. The shell's own object; never looked into.
Token = object


class TransactionConfig(NamedTuple):
    """The broker's settings for transactions, under Kafka's names."""

    transaction_max_timeout_ms: int = _DEFAULT["transaction.max.timeout.ms"]
    transactional_id_expiration_ms: int = _DEFAULT["transactional.id.expiration.ms"]
    ledgerstone_transactions_max_bytes: int = _DEFAULT["ledgerstone.transactions.max.bytes"]
    ledgerstone_transaction_max_bytes: int = _DEFAULT["ledgerstone.transaction.max.bytes"]


class ProducerRef(NamedTuple):
    """Who a request says it comes from."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Decided(NamedTuple):
    """The answer to a request. With an error the id and the epoch are -1."""

    error_code: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class DecidedAnswer(NamedTuple):
    token: Token
    decided: Decided


class TxnChange(NamedTuple):
    """The next value of a transactional id; without one, its tombstone."""

    transactional_id: str
    metadata: TransactionMetadata | None
    # Ends a transaction whose producer is shut out; matters if the record is refused.
    is_fence: bool = False


class UnwrittenMarkers(NamedTuple):
    """What is still to be written to end a transaction, as Kafka's WriteTxnMarkers says it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class TxnOutcome(NamedTuple):
    """`to_mark` are ids whose markers are to be written, or whose end is to be tried again."""

    changes: Sequence[TxnChange] = ()
    answers: Sequence[DecidedAnswer] = ()
    to_mark: Sequence[str] = ()


def refused(answers: Sequence[DecidedAnswer], code: int) -> list[DecidedAnswer]:
    """The same answers without their success; what is a refusal already stays as it is."""
    return [
        each
        if each.decided.error_code not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
        else DecidedAnswer(each.token, Decided(code))
        for each in answers
    ]
