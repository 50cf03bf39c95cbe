"""A client as one generator: it yields what it waits for and is resumed with the answer.

answer = yield Ask(wire, request, version, timeout_ms)   # None: no answer came
yield Rest(200)
answers = yield Together([Ask(...), Ask(...)])            # sent at once, answered in order
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.sim.clients.gate import Gate
from ledgerstone.sim.clients.wire import Wire


class Ask(NamedTuple):
    wire: Wire
    message: ApiMessage
    version: int
    timeout_ms: int


class Rest(NamedTuple):
    ms: int


class Together(NamedTuple):
    asks: list[Ask]


Step = Ask | Rest | Together
T = TypeVar("T")
# What it yields, what it is resumed with, what it returns at its end.
Script = Generator[Step, Any, T]


class Player:
    """Plays one script on one process. It ends with the process, wherever it stands."""

    def __init__(self, gate: Gate, script: Script[None]) -> None:
        self._gate = gate
        self._script = script
        self.is_done = False
        gate.after(0, f"{gate.name} begins", lambda: self._go_on(None))

    def _go_on(self, answer: object) -> None:
        if self._gate.is_dead or self.is_done:
            return
        try:
            step = self._script.send(answer)
        except StopIteration:
            self.is_done = True
            return
        match step:
            case Rest(ms):
                self._gate.after(ms, f"{self._gate.name} goes on", lambda: self._go_on(None))
            case Ask():
                self._send(step, self._go_on)
            case Together(asks):
                self._gather(asks)

    def _send(self, ask: Ask, then: Callable[[ApiMessage | None], None]) -> None:
        ask.wire.ask(ask.message, ask.version, then, ask.timeout_ms)

    def _gather(self, asks: list[Ask]) -> None:
        answers: list[ApiMessage | None] = [None] * len(asks)
        left = [len(asks)]

        def answered(place: int, message: ApiMessage | None) -> None:
            answers[place] = message
            left[0] -= 1
            if not left[0]:
                self._go_on(answers)

        for place, ask in enumerate(asks):
            self._send(ask, partial(answered, place))
