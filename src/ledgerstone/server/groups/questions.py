"""A request as group shards are asked it: whole, or in parts that several shards answer. Pure.

A part is answered in the turn in which it was asked, or in any later one; the request is answered
once all of its parts are.
"""

from collections.abc import Callable, Sequence

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.request import Request

# Makes the answer of the answers of the parts, which are in the order they were asked in.
Combine = Callable[[Sequence[ApiMessage]], ApiMessage]


@dataclass(slots=True, eq=False)
class Question:
    request: Request
    combine: Combine | None = None  # None: one part, whose answer is the request's
    answers: list[ApiMessage | None] = field(default_factory=list)
    unanswered: int = 0
    # Its handler has returned: the answer has to find its own way.
    is_left: bool = False

    def part(self) -> "Part":
        self.answers.append(None)
        self.unanswered += 1
        return Part(self, len(self.answers) - 1)

    def whole_answer(self) -> ApiMessage:
        """Of a question without unanswered parts."""
        answers = [each for each in self.answers if each is not None]
        assert len(answers) == len(self.answers)
        return answers[0] if self.combine is None else self.combine(answers)


@dataclass(slots=True, eq=False)
class Part:
    """The token that a shard is given, and gives back with its answer."""

    question: Question
    index: int

    def answered(self, response: ApiMessage) -> bool:
        """True where that was the last part."""
        question = self.question
        assert question.answers[self.index] is None, "answered twice"
        question.answers[self.index] = response
        question.unanswered -= 1
        return question.unanswered == 0


@dataclass(slots=True, eq=False)
class MarkerToken:
    """The token of a marker that no request of a client asked for."""

    on_written: Callable[[int], None]
