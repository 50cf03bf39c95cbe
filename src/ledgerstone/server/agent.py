"""The protocol of a broker's agents: parts that act by the clock and through effects.

Grade D, through the effects.

`Broker` composes agents. It ticks them all when the earliest deadline has come, tells them what
changed in the metadata, and routes each result to the agents that its table names for the kind of
effect. Every call returns what the agent wants done; an agent never performs anything itself.
"""

from typing import Protocol

from ledgerstone.metadata.delta import Delta
from ledgerstone.server.effects import ConnectionId, Effect
from ledgerstone.server.results import Result


class Agent(Protocol):
    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` is due next, in monotonic time; None: not before something else happens."""
        ...

    def tick(self) -> list[Effect]:
        """May come early; does what is due."""
        ...

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        """What came of an effect. `results` says which result is the last."""
        ...

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """The broker's image has changed by `delta` already."""
        ...


class DiallingAgent(Agent, Protocol):
    """An agent with connections of its own, opened by `Dial`."""

    def received(self, connection: ConnectionId, data: memoryview) -> list[Effect]:
        """Bytes came, in memory that is used again after the call."""
        ...

    def room(self, connection: ConnectionId) -> memoryview | None:
        """Where to receive the rest of a large answer. Release the view, then call `filled`."""
        ...

    def filled(self, connection: ConnectionId, count: int) -> list[Effect]:
        """As `received`, for bytes put into `room`."""
        ...

    def lost(self, connection: ConnectionId, reason: str) -> list[Effect]:
        """The other side hung up, or the connection broke. Not called after a `Hangup`."""
        ...
