"""What all messages of the quorum share: one topic, one partition, a leader's address. Pure."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from ledgerstone.errors import InvalidRequest
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft.messages import Answer
from ledgerstone.raft.replica import Listener, Peer

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = bytes(15) + b"\x01"
PARTITION: Final = 0

# Said about a whole request, before its partition is looked at.
TOP_LEVEL: Final = (ErrorCode.INCONSISTENT_CLUSTER_ID,)

P = TypeVar("P")


class NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int


class NamedEndpoint(Protocol):
    name: str
    host: str
    port: int


def only_partition(topics: Sequence[tuple[str, int, P]]) -> P:
    """`topics` are (name, index, partition); anything but the one is refused as Kafka does it."""
    if len(topics) != 1 or topics[0][:2] != (TOPIC, PARTITION):
        named = [f"{name}-{index}" for name, index, _ in topics]
        raise InvalidRequest(f"a request of the quorum is about {TOPIC}-{PARTITION}, not {named}")
    return topics[0][2]


def error_of(code: int) -> ErrorCode:
    """A code of a later release means no more than that something failed."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def leader_in(leader_id: int, endpoints: Sequence[NodeEndpoint]) -> Peer | None:
    for each in endpoints:
        if each.node_id == leader_id:
            return Peer(each.node_id, each.host, each.port)
    return None


def listeners_in(endpoints: Sequence[NamedEndpoint]) -> tuple[Listener, ...]:
    return tuple(Listener(each.name, each.host, each.port) for each in endpoints)


def top_level(answer: Answer) -> ErrorCode:
    return answer.error if answer.error in TOP_LEVEL else ErrorCode.NONE
