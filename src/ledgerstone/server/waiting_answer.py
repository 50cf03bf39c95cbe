"""The answer of a handler that asked a question first, which may be answered in this turn or later.

Grade D, through the broker.
"""

from typing import Protocol

from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


class Finishes(Protocol):
    """The broker."""

    def finish(self, request: Request, answer: Answer | Exception) -> None: ...


class WaitingAnswer:
    """`answer` is called once, by whoever has the answer; the handler returns `now_or_later`."""

    __slots__ = ("_answer", "_finishes", "_is_answered", "_request", "is_left")

    def __init__(self, finishes: Finishes, request: Request) -> None:
        self._finishes = finishes
        self._request = request
        self._answer: Answer | Exception = None
        self._is_answered = False
        # The handler has returned.
        self.is_left = False

    def answer(self, answer: Answer | Exception) -> None:
        assert not self._is_answered, "answered twice"
        self._answer, self._is_answered = answer, True
        if self.is_left:
            self._finishes.finish(self._request, answer)

    def now_or_later(self) -> Answer:
        if not self._is_answered:
            self.is_left = True
            return ANSWERED_LATER
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer
