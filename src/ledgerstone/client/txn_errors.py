"""What an error code means for a transaction: abort it, or give up the producer. Pure.

Codes that a retry fixes never come here: `call` and `rounds` retry them.
"""

from enum import Enum
from typing import Final

from ledgerstone.errors import LedgerstoneError
from ledgerstone.protocol.error_codes import ErrorCode


class TransactionError(LedgerstoneError):
    """A transaction cannot continue. `code` is the broker's, or -1 where there was no answer."""

    def __init__(self, message: str, code: int = int(ErrorCode.UNKNOWN_SERVER_ERROR)) -> None:
        super().__init__(message)
        self.code = code


class MustAbort(TransactionError):
    """The transaction can only be aborted. The producer goes on with the next one."""


class MustClose(TransactionError):
    """Another producer has taken over the transactional id, or the broker refuses this one for
    good. Only a new producer can continue."""


class ErrorSource(Enum):
    """Who answered with an error code: the same code means different things."""

    LEADER = "the leader of a partition"
    COORDINATOR = "the transaction coordinator"
    GROUP_COORDINATOR = "the group coordinator"


_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_REQUEST,
    }
)
# A leader says INVALID_PRODUCER_EPOCH also to a producer whose transaction timed out and was
# aborted. Only a coordinator knows whether another producer has taken over.
_FATAL_FROM_COORDINATORS: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}
)


def is_fatal(code: int, asked: ErrorSource) -> bool:
    return code in _FATAL or (asked is not ErrorSource.LEADER and code in _FATAL_FROM_COORDINATORS)
