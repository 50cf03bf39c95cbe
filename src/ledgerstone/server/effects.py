"""What a broker asks the world to do. Grade D: a flush plan holds files.

The list is closed: the runtime matches every kind. Effects are performed in the order given.
Two of them take time and are performed off the loop. `Flush` is reported back through
`Broker.completed`. `Clean` goes to a worker: each group it writes is reported through
`Broker.group_cleaned` and answered by a `Proceed`, its end through `Broker.cleaning_ended`.
"""

from dataclasses import dataclass

from ledgerstone.cleaner.plan import CleaningPlan
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


@dataclass(frozen=True, slots=True)
class Clean:
    """A pass for a worker. `number` names it from here to its end."""

    number: int
    plan: CleaningPlan


@dataclass(frozen=True, slots=True)
class Proceed:
    """The owner has put a group in its place, or the pass is no longer wanted.

    Without `go_on` it may come at any time; the worker stops and drops what it has not reported."""

    number: int
    go_on: bool


Effect = Send | Close | Flush | Clean | Proceed
