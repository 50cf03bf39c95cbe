"""A client as one generator: it yields what it waits for and is resumed with the answer.

answer = yield Asking(wire, request, version, timeout_ms)  # None: no answer came
yield Resting(200)
answers = yield AskingTogether([Asking(...), ...])  # sent at once, answered in order
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.sim.clients.gate import ClientProcess
from ledgerstone.sim.clients.wire import Wire


class Asking(NamedTuple):
    wire: Wire
    message: ApiMessage
    version: int
    timeout_ms: int


class Resting(NamedTuple):
    ms: int


class AskingTogether(NamedTuple):
    asks: list[Asking]


Step = Asking | Resting | AskingTogether
T = TypeVar("T")
# What it yields, what it is resumed with, what it returns at its end.
Script = Generator[Step, Any, T]


class Player:
    """Plays one script on one process. It ends with the process, wherever it stands."""

    def __init__(self, gate: ClientProcess, script: Script[None]) -> None:
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
            case Resting(ms):
                self._gate.after(ms, f"{self._gate.name} goes on", lambda: self._go_on(None))
            case Asking():
                self._send(step, self._go_on)
            case AskingTogether(asks):
                self._gather(asks)

    def _send(self, ask: Asking, then: Callable[[ApiMessage | None], None]) -> None:
        ask.wire.ask(ask.message, ask.version, then, ask.timeout_ms)

    def _gather(self, asks: list[Asking]) -> None:
        answers: list[ApiMessage | None] = [None] * len(asks)
        left = [len(asks)]

        def answered(place: int, message: ApiMessage | None) -> None:
            answers[place] = message
            left[0] -= 1
            if not left[0]:
                self._go_on(answers)

        for place, ask in enumerate(asks):
            self._send(ask, partial(answered, place))
