"""Decisions on their way: appended, not committed yet. Pure.

They leave in the order in which they came, each exactly once. A decision without records may rest
on records before it, so it waits for them too.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ledgerstone.metadata.replay import Replayed
from ledgerstone.protocol.message import ApiMessage

# Called once with the answer, in the turn of the request or in a later one.
OnAnswer = Callable[[ApiMessage], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAnswer:
    # Committed together with everything below this offset.
    next_offset: int
    # What the records make of the decided image; None without records.
    applied: Replayed | None = None
    request: ApiMessage | None = None
    response: ApiMessage | None = None
    on_answer: OnAnswer | None = None


class PendingAnswers:
    """All are of one leadership. Invariant: their offsets never fall."""

    __slots__ = ("_unpublished", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[PendingAnswer] = deque()
        # Those with records, until their batch is committed.
        self._unpublished: deque[PendingAnswer] = deque()

    def add(self, proposal: PendingAnswer) -> None:
        assert proposal.next_offset >= self.last_offset, (proposal, self.last_offset)
        self._waiting.append(proposal)
        if proposal.applied is not None:
            self._unpublished.append(proposal)

    @property
    def last_offset(self) -> int:
        """Where the last of them ends; 0 without any."""
        return self._waiting[-1].next_offset if self._waiting else 0

    def take_applied(self, next_offset: int) -> Replayed | None:
        """What the batch that ends there was known to do; None for a batch of another origin."""
        if not self._unpublished or self._unpublished[0].next_offset != next_offset:
            return None
        return self._unpublished.popleft().applied

    def take_committed(self, committed_offset: int) -> PendingAnswer | None:
        """The next one that can be answered."""
        if not self._waiting or self._waiting[0].next_offset > committed_offset:
            return None
        return self._waiting.popleft()

    def take_all(self) -> list[PendingAnswer]:
        """The leadership is lost. The next leader may still commit their records."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._unpublished.clear()
        return taken

    def __len__(self) -> int:
        return len(self._waiting)
