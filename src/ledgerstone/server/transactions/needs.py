"""What transactions need of the broker's other parts, beside what groups need too. Grade D."""

from collections.abc import Callable, Iterable
from typing import Protocol

from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ledgerstone.server.effects import Effect

OnMarkersWritten = Callable[[WriteTxnMarkersResponse], None]


class WritesMarkers(Protocol):
    """The leaders of partitions, as the coordinator asks them to end a transaction."""

    def write_markers(self, request: WriteTxnMarkersRequest, on_answer: OnMarkersWritten) -> None:
        """Answers in this turn or in later ones, perhaps in several parts; each partition once."""
        ...


class ActsInTurn(Protocol):
    def act(self, effects: Iterable[Effect]) -> None:
        """They leave with this turn's effects, behind the answers given so far."""
        ...


class DrawsProducerIds(Protocol):
    def draw(self, on_drawn: Callable[[int | None], None]) -> None:
        """With None where the controller has given no block."""
        ...
