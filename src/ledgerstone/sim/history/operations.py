"""What clients did and what they saw: the lines of a history. Pure.

Times are milliseconds of one clock, that of the driver; its zero does not matter. An operation that
never ended has `end_ms` None. Every record that a client writes has an id of its own, which travels
in the record (in its value; a tombstone carries it in a header), so a reader can name what it saw.
"""

import enum
import math
from typing import NamedTuple, TypeAlias

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.types import TopicPartition


class OpOutcome(enum.StrEnum):
    """What the client knows when its operation is over."""

    # The broker promised it.
    OK = "ok"
    # It did not happen and never will. A timeout or a lost connection is not this.
    FAILED = "failed"
    # It may have happened, or may happen later.
    UNKNOWN = "unknown"


class Seen(NamedTuple):
    """A record that a reader met."""

    offset: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What a topic promises. Topics without this line are plain: nothing is ever removed."""

    topic: str
    compacted: bool = False
    delete_retention_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    client: str
    start_ms: float
    end_ms: float | None

    @property
    def over_ms(self) -> float:
        return math.inf if self.end_ms is None else self.end_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Timed):
    """One record. With `txn` it counts once that transaction is committed.

    `order` numbers the records of a client that keeps order (an idempotent producer) by its calls
    of `send`; records of one client and partition must lie in the log in that order.
    """

    place: TopicPartition
    id: str
    outcome: OpOutcome
    offset: int | None = None
    key: str | None = None
    deletes: bool = False
    txn: str | None = None
    order: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnEnded(Timed):
    """A commit or an abort that a client asked for. A transaction without this line is unknown.

    A commit with outcome FAILED says that the transaction was aborted, as after a fence or an
    abortable error that the client followed up with an abort.
    """

    txn: str
    commits: bool
    outcome: OpOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned(Timed):
    """A consumer starts to read here: after an assignment, a seek, or an offset reset."""

    place: TopicPartition
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRead(Timed):
    """Records that a consumer read, and the positions before and after."""

    place: TopicPartition
    position: int
    next_position: int
    records: tuple[Seen, ...] = ()
    committed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted(Timed):
    """A group's position, stored. With `txn` it counts once that transaction is committed."""

    group: str
    place: TopicPartition
    offset: int
    outcome: OpOutcome
    txn: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetched(Timed):
    """A group's position, as OffsetFetch answered; -1 for none."""

    group: str
    place: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed(Timed):
    """Records below `offset` may be gone from then on: DeleteRecords, whatever its outcome."""

    place: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead(Timed):
    """A whole log, from its start to its high watermark, as one reader or one replica has it.

    `replica` names a broker whose own copy this is. `final` logs are read after everything else
    ended: every promise is held against them.
    """

    place: TopicPartition
    start_offset: int
    high_watermark: int
    records: tuple[Seen, ...] = ()
    committed: bool = False
    replica: int | None = None
    final: bool = True


Operation: TypeAlias = (
    TopicFacts
    | Sent
    | TxnEnded
    | Assigned
    | RecordsRead
    | OffsetCommitted
    | OffsetFetched
    | Trimmed
    | LogRead
)


@dataclass(slots=True)
class ClientHistory:
    """Operations in any order, though those of one client come in the order of their calls."""

    operations: list[Operation] = field(default_factory=list)

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
