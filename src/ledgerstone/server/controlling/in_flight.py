"""What one leadership has appended and not seen committed, and the answers that wait. Pure.

Answers leave in the order in which their requests came, each exactly once. A decision without
records may rest on records before it, so its answer waits for them too.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ledgerstone.metadata.replay import Replayed
from ledgerstone.protocol.message import ApiMessage

# Called once with the answer, in the turn of the request or in a later one.
OnAnswer = Callable[[ApiMessage], None]


class WaitingCaller(NamedTuple):
    request: ApiMessage
    response: ApiMessage
    on_answer: OnAnswer


class ProposalsInFlight:
    """Invariant: neither the ends of batches nor the offsets that answers wait for ever fall."""

    __slots__ = ("_answers", "_batches", "_end")

    def __init__(self) -> None:
        # Where each batch ends, and what it makes of the decided image.
        self._batches: deque[tuple[int, Replayed]] = deque()
        self._answers: deque[tuple[int, WaitingCaller]] = deque()
        self._end = 0

    def appended(self, next_offset: int, applied: Replayed) -> None:
        assert next_offset > self._end, (next_offset, self._end)
        self._end = next_offset
        self._batches.append((next_offset, applied))

    def answer_later(self, caller: WaitingCaller) -> None:
        """Once everything that was appended so far is committed."""
        self._answers.append((self._end, caller))

    def take_batch(self, next_offset: int) -> Replayed | None:
        """What the committed batch that ends there does; None if it was not appended here."""
        if not self._batches or self._batches[0][0] != next_offset:
            return None
        return self._batches.popleft()[1]

    def take_answer(self, committed_offset: int) -> WaitingCaller | None:
        """The next one that may leave."""
        if not self._answers or self._answers[0][0] > committed_offset:
            return None
        return self._answers.popleft()[1]

    def drop(self) -> list[WaitingCaller]:
        """The leadership is lost. The next leader may still commit the batches."""
        callers = [caller for _, caller in self._answers]
        self._answers.clear()
        self._batches.clear()
        self._end = 0
        return callers

    @property
    def batch_count(self) -> int:
        return len(self._batches)

    def __len__(self) -> int:
        """How many callers wait."""
        return len(self._answers)
