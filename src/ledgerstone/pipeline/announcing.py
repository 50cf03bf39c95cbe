"""Commits a run's positions to its group, and with them how the run is. Shell over a `Client`.

The time in a commit is that of the last read, also where a commit only says that a run has failed:
it tells the next run how long the table was away, and must not look younger than it is.
"""

import logging

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import BrokerUnreachable, CallTimedOut
from ledgerstone.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from ledgerstone.errors import KafkaError, LedgerstoneError
from ledgerstone.pipeline.announced import BEAT_MS, Announced, metadata_text
from ledgerstone.pipeline.connecting import log_starts
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import DeletesMissed, RecordRefused, TopicChanged
from ledgerstone.pipeline.status import RunStatus
from ledgerstone.pipeline.tables.target import Positions
from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.progress import published_at_ms
from ledgerstone.types import TopicPartition

# Their texts name topics, offsets and brokers, never a part of a record or of a row.
_TOLD = (DeletesMissed, TopicChanged, DataLoss, KafkaError, BrokerUnreachable, CallTimedOut)

logger = logging.getLogger(__name__)


class Announcer:
    """Of one run. A commit that fails is logged: it must not stop the run."""

    def __init__(self, client: Client, pipeline: Pipeline) -> None:
        self._client = client
        self._pipeline = pipeline
        self._offsets: dict[TopicPartition, int] = {}
        self._read_ms: dict[TopicPartition, int] = {}
        self._said_ms = 0
        self._changes = 0

    def begin(self, status: RunStatus) -> None:
        """A topic that was never read is at its start, so that the pipeline is seen at once."""
        try:
            group = self._pipeline.source.group
            committed = committed_offsets(self._client, group)
            self._read_ms = published_at_ms(self._client, group)
            for topic in self._pipeline.source.names:
                known = {at: each for at, each in committed.items() if at.topic == topic}
                if known:
                    self._offsets |= {at: each.offset for at, each in known.items()}
                else:
                    starts = log_starts(self._client, topic).items()
                    self._offsets |= {TopicPartition(topic, n): at for n, at in starts}
        except LedgerstoneError as error:
            logger.warning("pipeline=%s cannot be announced: %s", self._pipeline.name, error)
            return
        self.say(status)

    def moved(self, topic: str, positions: Positions, status: RunStatus, *, has_read: bool) -> None:
        """`has_read` is false for a table that only tells where it is, before anything is read."""
        now_ms = self._client.clock.now_ms()
        for number, offset in positions.items():
            at = TopicPartition(topic, number)
            self._offsets[at] = offset
            if has_read:
                self._read_ms[at] = now_ms
        self.say(status)

    def now_ms(self) -> int:
        return self._client.clock.now_ms()

    def beat(self, status: RunStatus) -> None:
        """The table has everything: said now and then, as long as nothing comes."""
        now_ms = self._client.clock.now_ms()
        if now_ms - self._said_ms >= BEAT_MS:
            self._read_ms = dict.fromkeys(self._offsets, now_ms)
            self.say(status)

    def say(self, status: RunStatus, error: BaseException | None = None) -> None:
        if not self._offsets:
            return
        now_ms = self._client.clock.now_ms()
        announced = self._announced(status, now_ms, error)
        self._said_ms, self._changes = now_ms, status.changes
        seen: set[str] = set()
        commits = {}
        for at in sorted(self._offsets):
            # Once for each topic is enough; a commit of many partitions stays small.
            said = None if at.topic in seen else announced
            seen.add(at.topic)
            text = metadata_text(self._read_ms.get(at, now_ms), said)
            commits[at] = CommittedOffset(self._offsets[at], metadata=text)
        try:
            commit_offsets(self._client, self._pipeline.source.group, commits)
        except LedgerstoneError as failure:
            group = self._pipeline.source.group
            logger.warning("group=%s cannot be told where the table is: %s", group, failure)

    def _announced(self, status: RunStatus, now_ms: int, error: BaseException | None) -> Announced:
        target = self._pipeline.target
        since_ms = now_ms - (self._said_ms or status.started_ms)
        return Announced(
            name=self._pipeline.name,
            table=f"{target.type.value} {target.name}",
            state=status.state,
            said_ms=now_ms,
            lag=status.lag,
            rows_per_s=round((status.changes - self._changes) * 1000 / max(since_ms, 1), 1),
            error=None if error is None else public_words(error),
        )


def public_words(error: BaseException) -> str:
    """What may be told to everybody who may see the group."""
    if isinstance(error, _TOLD):
        return str(error)
    if isinstance(error, RecordRefused):
        return "a record does not fit the definition; `ledgerstone pipeline status` says which"
    return f"{type(error).__name__}; `ledgerstone pipeline status` says more"
