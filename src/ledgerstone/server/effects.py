"""What a broker asks the world to do. Grade D: a flush plan holds files.

The list is closed: the runtime matches every kind. Effects are performed in the order given.
`Flush` alone takes time: the runtime performs its plan off the loop and reports back through
`Broker.completed`.
"""

from dataclasses import dataclass

from ledgerstone.protocol.pieces import Piece
from ledgerstone.storage.log import FlushPlan
from ledgerstone.types import TopicPartition

ConnectionId = int


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes for a connection, after everything it was sent before."""

    connection: ConnectionId
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once what it was sent has left, or without waiting for that."""

    connection: ConnectionId
    reason: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Flush:
    """`topic_id` tells a partition from a later one of the same name."""

    topic_partition: TopicPartition
    topic_id: bytes
    plan: FlushPlan


Effect = Send | Close | Flush
