"""What a consumer under test is told, and what it must offer. Grade P."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(slots=True, kw_only=True)
class ConsumerTask:
    """One topic to read. The same object is given again when the consumer is to go on."""

    bootstrap: str
    topic: str
    group: str
    # Everything below these is to be read, by partition. Set anew before each run.
    end_offsets: dict[int, int] = field(default_factory=dict)
    # For what the consumer keeps between two runs, as its database would: state, offsets.
    memory: dict[str, Any] = field(default_factory=dict)
    # The broker's HTTP port, for a consumer that asks whether it has missed a delete.
    http: str = ""

    def is_done(self, positions: Mapping[int, int]) -> bool:
        """Whether a reader whose next offsets are these, by partition, has read everything."""
        return all(positions.get(each, 0) >= end for each, end in self.end_offsets.items())


class RunningConsumer(Protocol):
    """A consumer that runs until it is told to stop, in a thread or a process of its own."""

    def state(self) -> Mapping[bytes, bytes]:
        """What it has at this moment: each key it takes for live, and its value."""
        ...

    def stop(self) -> None:
        """Ends it, as a deployment would. It may be started again with the same task."""
        ...


State = Mapping[bytes, bytes]
# Reads up to `end_offsets` and returns its state; may be a coroutine function.
Consume = Callable[[ConsumerTask], State | Awaitable[State]]
Start = Callable[[ConsumerTask], RunningConsumer]
