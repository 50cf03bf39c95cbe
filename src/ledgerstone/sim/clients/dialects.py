"""Which versions a transactional client speaks, and what answers mean to it."""

from typing import Final, NamedTuple

from ledgerstone.protocol.error_codes import ErrorCode

LATER: Final = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
})  # fmt: skip
# The group has moved on: this transaction cannot commit.
REGROUPED: Final = frozenset({
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
})  # fmt: skip
# The producer cannot go on under its id and epoch.
OVER: Final = frozenset({
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
})  # fmt: skip


class Dialect(NamedTuple):
    """Versions that a client speaks. `ends_epoch`: the second protocol."""

    produce: int
    init: int
    add: int
    offsets: int
    end: int
    ends_epoch: bool = False


LIBRDKAFKA: Final = Dialect(produce=10, init=4, add=0, offsets=3, end=1)
JAVA_3: Final = Dialect(produce=11, init=4, add=3, offsets=4, end=4)
JAVA_4: Final = Dialect(produce=12, init=5, add=4, offsets=5, end=5, ends_epoch=True)


class Fenced(Exception):
    """The producer must start again; how its transaction ended is for the logs to say."""


class CannotCommit(Exception):
    """The transaction cannot commit; the producer can go on."""
