"""What is known of one transactional id, and the table of its states. Pure.

The names and numbers are Kafka's: the state is a byte of the record, and tools show its name.
"""

import enum
from collections.abc import Mapping
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TopicPartition,
)

# The largest epoch a producer may use; the one above it is kept for fencing that producer.
LAST_EPOCH: Final = 32_766
FENCING_EPOCH: Final = 32_767

# Levels of the feature transaction.version. Clients of the classic protocol count as 0.
CLASSIC: Final = 0
FLEXIBLE_RECORDS: Final = 1
EPOCH_PER_TRANSACTION: Final = 2


class TxnState(enum.IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # Its tombstone is in flight; never in a record.
    PREPARE_EPOCH_FENCE = 7  # Kafka's memory only: here a fence is an abort from the start.

    @property
    def shown(self) -> str:
        """As Kafka's tools name it."""
        return _SHOWN[self]


_SHOWN: Final = {state: state.name.title().replace("_", "") for state in TxnState}
BY_NAME: Final[Mapping[str, TxnState]] = {name: state for state, name in _SHOWN.items()}

# Nothing is open: the next transaction may begin, and the id may expire.
AT_REST: Final = (
    TxnState.EMPTY,
    TxnState.COMPLETE_COMMIT,
    TxnState.COMPLETE_ABORT,
)
# The result is decided, and final.
PREPARED: Final = (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

# From which states each one is entered.
PREDECESSORS: Final[Mapping[TxnState, tuple[TxnState, ...]]] = {
    TxnState.EMPTY: AT_REST,
    TxnState.ONGOING: (TxnState.ONGOING, *AT_REST),
    TxnState.PREPARE_COMMIT: (TxnState.ONGOING,),
    # At rest: version 2 aborts a transaction that the coordinator never heard of.
    TxnState.PREPARE_ABORT: (TxnState.ONGOING, *AT_REST),
    TxnState.COMPLETE_COMMIT: (TxnState.PREPARE_COMMIT,),
    TxnState.COMPLETE_ABORT: (TxnState.PREPARE_ABORT,),
    TxnState.DEAD: AT_REST,
}

Partitions = Mapping[TopicPartition, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One value of the log. `last_producer_epoch` is not in the log: it tells a repeated
    InitProducerId from the next one, and only as long as this coordinator lives."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    # The id that takes over when this transaction has exhausted the epochs of the present one.
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TxnState = TxnState.EMPTY
    partitions: Partitions = field(default_factory=dict)
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    client_version: int = CLASSIC

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH


@dataclass(slots=True, eq=False)
class Transaction:
    """A transactional id in memory.

    Invariant: at most one change is under way. `pending` is set from the decision until its record
    is committed; for Complete* from the moment that Prepare* is committed, so that nothing comes
    between the two."""

    transactional_id: str
    metadata: TransactionMetadata
    pending: TxnState | None = None
    # Partitions whose marker has not been acknowledged; only while prepared.
    unmarked: dict[TopicPartition, None] = field(default_factory=dict)
    # Every marker is acknowledged, and the record of Complete* is in flight.
    is_completing: bool = False
    # A fence of the classic protocol raised the epoch, and its record was refused.
    has_failed_epoch_fence: bool = False
    # What its memory was last counted as, and which partitions that were.
    counted_bytes: int = 0
    counted: Partitions | None = None
