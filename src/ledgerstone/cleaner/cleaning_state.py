"""Who may touch a partition's segments: nobody, one pass, or whoever has paused cleaning. Pure.

One table, Kafka's. A partition that is in no state is free. Differs from Kafka: nobody blocks until
a worker notices that it was aborted, so pauses and resumes are counted while it has not noticed.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ledgerstone.errors import InvariantViolation
from ledgerstone.types import TopicPartition


class State(enum.Enum):
    FREE = "free"
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"  # a worker may still be at it; nothing of what it wrote will be used
    PAUSED = "paused"


class Event(enum.Enum):
    GRAB = "grab"
    DONE = "done"
    ABORT_AND_PAUSE = "abort and pause"
    RESUME = "resume"


class _Step(NamedTuple):
    state: State
    pauses: int  # added to the count


_TABLE: Final[Mapping[tuple[State, Event], _Step]] = {
    (State.FREE, Event.GRAB): _Step(State.IN_PROGRESS, 0),
    (State.FREE, Event.ABORT_AND_PAUSE): _Step(State.PAUSED, 1),
    (State.IN_PROGRESS, Event.DONE): _Step(State.FREE, 0),
    (State.IN_PROGRESS, Event.ABORT_AND_PAUSE): _Step(State.ABORTED, 1),
    (State.ABORTED, Event.DONE): _Step(State.PAUSED, 0),
    (State.ABORTED, Event.ABORT_AND_PAUSE): _Step(State.ABORTED, 1),
    (State.ABORTED, Event.RESUME): _Step(State.ABORTED, -1),
    (State.PAUSED, Event.ABORT_AND_PAUSE): _Step(State.PAUSED, 1),
    (State.PAUSED, Event.RESUME): _Step(State.PAUSED, -1),
}


class Standing(NamedTuple):
    state: State
    pauses: int


_FREE: Final = Standing(State.FREE, 0)


@dataclass(slots=True)
class CleaningStates:
    """Invariant: a partition that is kept here is not free."""

    _standings: dict[TopicPartition, Standing] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[TopicPartition, Standing]]:
        return iter(list(self._standings.items()))

    def of(self, topic_partition: TopicPartition) -> Standing:
        return self._standings.get(topic_partition, _FREE)

    def is_free(self, topic_partition: TopicPartition) -> bool:
        return topic_partition not in self._standings

    def is_cleaned(self, topic_partition: TopicPartition) -> bool:
        """Whether a pass is at work whose results will be used."""
        return self.of(topic_partition).state is State.IN_PROGRESS

    def grab(self, topic_partition: TopicPartition) -> None:
        self._apply(topic_partition, Event.GRAB)

    def done(self, topic_partition: TopicPartition) -> bool:
        """The worker has let go. True if what it did counts, False if it was aborted."""
        was_cleaned = self.is_cleaned(topic_partition)
        self._apply(topic_partition, Event.DONE)
        return was_cleaned

    def abort_and_pause(self, topic_partition: TopicPartition) -> bool:
        """True if a pass was at work."""
        was_cleaned = self.is_cleaned(topic_partition)
        self._apply(topic_partition, Event.ABORT_AND_PAUSE)
        return was_cleaned

    def resume(self, topic_partition: TopicPartition) -> None:
        self._apply(topic_partition, Event.RESUME)

    def abort(self, topic_partition: TopicPartition) -> bool:
        """Ends a pass without keeping the next one away. True if a pass was at work."""
        was_cleaned = self.abort_and_pause(topic_partition)
        self.resume(topic_partition)
        return was_cleaned

    def _apply(self, topic_partition: TopicPartition, event: Event) -> None:
        before = self.of(topic_partition)
        step = _TABLE.get((before.state, event))
        pauses = before.pauses + (step.pauses if step else 0)
        if step is None or pauses < 0:
            raise InvariantViolation(
                f"{topic_partition}: {event.value} while {before.state.value}, "
                f"{before.pauses} pauses"
            )
        if step.state is State.FREE or (step.state is State.PAUSED and pauses == 0):
            self._standings.pop(topic_partition, None)
        else:
            self._standings[topic_partition] = Standing(step.state, pauses)

    def check_invariants(self) -> None:
        for topic_partition, standing in self._standings.items():
            assert standing.state is not State.FREE, topic_partition
            assert standing.pauses >= 0, topic_partition
            assert standing.state is not State.PAUSED or standing.pauses > 0, topic_partition
            assert standing.state is not State.IN_PROGRESS or standing.pauses == 0, topic_partition
