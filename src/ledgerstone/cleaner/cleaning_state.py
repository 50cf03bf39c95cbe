"""Whether a partition is free, being cleaned, or paused. Pure.

One table, Kafka's. A partition without an entry is free. Differs from Kafka: callers do not wait
until a worker notices that it was aborted, so pauses and resumes are counted meanwhile.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import InvariantViolation
from ledgerstone.types import TopicPartition


class CleaningState(enum.Enum):
    FREE = "free"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"  # a worker may still be running, but its output is discarded
    PAUSED = "paused"


class CleaningEvent(enum.Enum):
    GRAB = "grab"
    DONE = "done"
    ABORT_AND_PAUSE = "abort and pause"
    RESUME = "resume"


class _Step(NamedTuple):
    state: CleaningState
    pauses: int  # added to the count


_TABLE: Final[Mapping[tuple[CleaningState, CleaningEvent], _Step]] = {
    (CleaningState.FREE, CleaningEvent.GRAB): _Step(CleaningState.IN_PROGRESS, 0),
    (CleaningState.FREE, CleaningEvent.ABORT_AND_PAUSE): _Step(CleaningState.PAUSED, 1),
    (CleaningState.IN_PROGRESS, CleaningEvent.DONE): _Step(CleaningState.FREE, 0),
    (CleaningState.IN_PROGRESS, CleaningEvent.ABORT_AND_PAUSE): _Step(CleaningState.ABORTED, 1),
    (CleaningState.ABORTED, CleaningEvent.DONE): _Step(CleaningState.PAUSED, 0),
    (CleaningState.ABORTED, CleaningEvent.ABORT_AND_PAUSE): _Step(CleaningState.ABORTED, 1),
    (CleaningState.ABORTED, CleaningEvent.RESUME): _Step(CleaningState.ABORTED, -1),
    (CleaningState.PAUSED, CleaningEvent.ABORT_AND_PAUSE): _Step(CleaningState.PAUSED, 1),
    (CleaningState.PAUSED, CleaningEvent.RESUME): _Step(CleaningState.PAUSED, -1),
}


class CleaningStanding(NamedTuple):
    state: CleaningState
    pauses: int


_FREE: Final = CleaningStanding(CleaningState.FREE, 0)


@dataclass(slots=True)
class CleaningStates:
    """Invariant: a partition in here is not free."""

    _standings: dict[TopicPartition, CleaningStanding] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[TopicPartition, CleaningStanding]]:
        return iter(list(self._standings.items()))

    def of(self, topic_partition: TopicPartition) -> CleaningStanding:
        return self._standings.get(topic_partition, _FREE)

    def is_free(self, topic_partition: TopicPartition) -> bool:
        return topic_partition not in self._standings

    def is_cleaned(self, topic_partition: TopicPartition) -> bool:
        """Whether a pass is running whose results will be used."""
        return self.of(topic_partition).state is CleaningState.IN_PROGRESS

    def grab(self, topic_partition: TopicPartition) -> None:
        self._apply(topic_partition, CleaningEvent.GRAB)

    def done(self, topic_partition: TopicPartition) -> bool:
        """The worker has finished. True if its work counts, False if it was aborted."""
        was_cleaned = self.is_cleaned(topic_partition)
        self._apply(topic_partition, CleaningEvent.DONE)
        return was_cleaned

    def abort_and_pause(self, topic_partition: TopicPartition) -> bool:
        """True if a pass was running."""
        was_cleaned = self.is_cleaned(topic_partition)
        self._apply(topic_partition, CleaningEvent.ABORT_AND_PAUSE)
        return was_cleaned

    def resume(self, topic_partition: TopicPartition) -> None:
        self._apply(topic_partition, CleaningEvent.RESUME)

    def abort(self, topic_partition: TopicPartition) -> bool:
        """Ends a pass without blocking the next one. True if a pass was running."""
        was_cleaned = self.abort_and_pause(topic_partition)
        self.resume(topic_partition)
        return was_cleaned

    def _apply(self, topic_partition: TopicPartition, event: CleaningEvent) -> None:
        before = self.of(topic_partition)
        step = _TABLE.get((before.state, event))
        pauses = before.pauses + (step.pauses if step else 0)
        if step is None or pauses < 0:
            raise InvariantViolation(
                f"{topic_partition}: {event.value} while {before.state.value}, "
                f"{before.pauses} pauses"
            )
        if step.state is CleaningState.FREE or (step.state is CleaningState.PAUSED and pauses == 0):
            self._standings.pop(topic_partition, None)
        else:
            self._standings[topic_partition] = CleaningStanding(step.state, pauses)

    def check_invariants(self) -> None:
        for topic_partition, standing in self._standings.items():
            assert standing.state is not CleaningState.FREE, topic_partition
            assert standing.pauses >= 0, topic_partition
            assert standing.state is not CleaningState.PAUSED or standing.pauses > 0, (
                topic_partition
            )
            assert standing.state is not CleaningState.IN_PROGRESS or standing.pauses == 0, (
                topic_partition
            )
