"""One partition that a fetcher follows, and what the fetcher says about it. Pure."""

import enum
from typing import Final, NamedTuple, Protocol

from ledgerstone.dataclasses import dataclass
from ledgerstone.replication.fetch_session import PartitionKey
from ledgerstone.replication.fetching.replica import Replica
from ledgerstone.replication.fetching.session import Wish
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition

# Pauses that are shorter than the configured one; each is twice as long as the one before.
_SHORT_PAUSES: Final = 5


class FetchStage(enum.Enum):
    FETCHING = enum.auto()
    # Out of the leader's range: its end decides, then its start.
    ASKS_LATEST = enum.auto()
    ASKS_EARLIEST = enum.auto()


@dataclass(slots=True, eq=False, kw_only=True)
class FollowedPartition:
    key: PartitionKey
    topic_partition: TopicPartition
    replica: Replica
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    stage: FetchStage = FetchStage.FETCHING
    # Records between the leader's high watermark and our end; None before its first answer.
    lag: int | None = None
    _pauses: int = 0

    @property
    def wish(self) -> Wish:
        wish = Wish(
            self.fetch_offset,
            self.leader_epoch,
            self.last_fetched_epoch,
            self.replica.log.log_start_offset,
        )
        report = self.replica.removal_report()
        if report is None:
            return wish
        return wish._replace(clean_to=report.clean_to, removed_to=report.removed_to)

    def take_pause_ms(self, longest_ms: int) -> int:
        """How long to wait before the next question. The first pauses are short: a leader that has
        not answered yet may hear of its partition any moment, and producers wait for us."""
        if self.lag is not None or self._pauses >= _SHORT_PAUSES:
            return longest_ms
        self._pauses += 1
        return longest_ms >> (_SHORT_PAUSES + 1 - self._pauses)

    @property
    def may_be_throttled(self) -> bool:
        """A throttle slows replicas that catch up. It never pushes one out of the ISR."""
        return not self.replica.is_in_sync and self.lag != 0

    def truncate_to(self, offset: int, outcome: "FetchOutcome", reason: str) -> None:
        """Cuts the log, and goes on where it ends then."""
        log = self.replica.log
        end_offset = log.log_end_offset
        self.replica.truncate_to(offset)
        if offset < end_offset:
            text = f"from {end_offset} to {log.log_end_offset}: {reason}"
            outcome.notes.append(FetchNote(FetchNoteKind.TRUNCATED, self.topic_partition, text))
        self.go_on_at_end()

    def go_on_at_end(self) -> None:
        """The log was cut or restarted: its end and its last epoch are what to ask for now."""
        log = self.replica.log
        epoch = log.epochs.latest_epoch
        self.fetch_offset = log.log_end_offset
        self.last_fetched_epoch = NO_LEADER_EPOCH if epoch is None else epoch


class FetchNoteKind(enum.Enum):
    TRUNCATED = "log truncated"
    RESTARTED = "log restarted"
    REBUILT = "log rebuilt"
    DELAYED = "fetch delayed"
    FAILED = "fetch stopped"


class FetchNote(NamedTuple):
    """Something an operator may want to read."""

    kind: FetchNoteKind
    topic_partition: TopicPartition
    reason: str
    error: Exception | None = None


class Grown(NamedTuple):
    topic_partition: TopicPartition
    size_bytes: int


class FetchOutcome:
    """What an answer has changed here."""

    __slots__ = ("committed", "grown", "notes")

    def __init__(self) -> None:
        # Partitions whose high watermark moved.
        self.committed: list[TopicPartition] = []
        self.grown: list[Grown] = []
        self.notes: list[FetchNote] = []


class HoldsBack(Protocol):
    @property
    def is_active(self) -> bool:
        """False: nothing is held back, and nobody is asked about single partitions."""
        ...

    def holds(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Whether the partition is left out of the next request."""
        ...


class HoldsNothing:
    is_active = False

    def holds(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        return False
