"""How a client reacts to an error code: give up, wait, or look up the right broker. Pure."""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from ledgerstone.protocol.error_codes import RETRIABLE, ErrorCode
from ledgerstone.protocol.message import Struct


class Reaction(Enum):
    FAIL = "the same request would get the same answer"
    WAIT = "the same broker will be able to answer soon"
    REFRESH_METADATA = "another broker leads now, or the cluster has changed"
    FIND_COORDINATOR = "another broker coordinates now"


_MOVED: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # a broker may learn of a new topic later than we do
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)
_COORDINATOR_MOVED: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)

_REACTIONS: Final[Mapping[int, Reaction]] = MappingProxyType(
    {
        **dict.fromkeys(map(int, sorted(RETRIABLE)), Reaction.WAIT),
        **dict.fromkeys(map(int, _MOVED), Reaction.REFRESH_METADATA),
        **dict.fromkeys(map(int, _COORDINATOR_MOVED), Reaction.FIND_COORDINATOR),
    }
)

# For a request that names several things, these codes mean that it reached the wrong broker, or
# came too early, and nothing was done. Any other code belongs to one of the things it names.
_WHOLE_REQUEST: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


_CODE_FIELDS: Final = ("error_code", "partition_error_code")


def reaction_to(code: int) -> Reaction:
    return _REACTIONS.get(code, Reaction.FAIL)


def refusal_in(response: object) -> int | None:
    """The first code in a response that means that nothing was done."""
    return next((code for code in _codes_in(response) if code in _WHOLE_REQUEST), None)


def _codes_in(message: object) -> Iterator[int]:
    if not isinstance(message, Struct):
        return
    for name in message.__slots__:
        value = getattr(message, name)
        if name in _CODE_FIELDS:
            yield value
        elif isinstance(value, list):
            for each in value:
                yield from _codes_in(each)
