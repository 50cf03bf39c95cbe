"""The input of a consumer under test, and the interface it must offer. Grade P."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ledgerstone.dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class ConsumerTask:
    """One topic to read. The same object is passed again when the consumer resumes."""

    bootstrap: str
    topic: str
    group: str
    # Read everything below these, by partition. Updated before each run.
    end_offsets: dict[int, int] = field(default_factory=dict)
    # For anything the consumer keeps between runs, as in a database: state, offsets.
    memory: dict[str, Any] = field(default_factory=dict)
    # The broker's HTTP port, for a consumer that asks whether it has missed a delete.
    http: str = ""

    def is_done(self, positions: Mapping[int, int]) -> bool:
        """Whether a reader whose next offsets are these, by partition, has read everything."""
        return all(positions.get(each, 0) >= end for each, end in self.end_offsets.items())


class RunningConsumer(Protocol):
    """A consumer that runs until it is stopped, in its own thread or process."""

    def state(self) -> Mapping[bytes, bytes]:
        """Its current state: each live key and its value."""
        ...

    def stop(self) -> None:
        """Stops it, as a deployment would. It may be started again with the same task."""
        ...


State = Mapping[bytes, bytes]
# Reads up to `end_offsets` and returns its state; may be a coroutine function.
Consume = Callable[[ConsumerTask], State | Awaitable[State]]
Start = Callable[[ConsumerTask], RunningConsumer]
