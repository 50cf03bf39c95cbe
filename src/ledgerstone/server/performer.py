"""The one place that tells effects apart. Grade D through them; `Hands` do the work.

The runtime, the tests' broker in process and the simulator each have hands; the order of things and
the way back are the same for all of them. A kind of effect that is not matched here, and hands
without a method for one, do not pass the type checker.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, assert_never

from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Clean,
    Close,
    Dial,
    Effect,
    Flush,
    FollowUp,
    FreezeSnapshot,
    GiveUp,
    Halt,
    Hangup,
    Persist,
    PersistThen,
    Proceed,
    Resume,
    Send,
    StartScan,
    SyncCopy,
    SyncMetadata,
    SyncSwap,
    Unlink,
    WriteSnapshot,
)
from ledgerstone.server.results import Done, Failed, Result

Completed = Callable[[Effect, Result], list[Effect]]
Synced = Callable[[Done | Failed], None]


class Hands(Protocol):
    """Performs single effects. What has a result calls `Performer.report`, now or later."""

    def send(self, sends: list[Send]) -> None:
        """Side by side in the list of effects: they may leave together."""
        ...

    def close(self, effect: Close) -> None: ...

    def resume(self, effect: Resume) -> None: ...

    def dial(self, effect: Dial) -> None: ...

    def hang_up(self, effect: Hangup) -> None: ...

    def persist(self, effect: Persist, synced: Synced) -> None:
        """Syncs `effect.syncs`, then calls `synced` instead of `Performer.report`."""
        ...

    def write_snapshot(self, effect: WriteSnapshot) -> None: ...

    def halt(self, effect: Halt) -> None: ...

    def unlink(self, effect: Unlink) -> None: ...

    def clean(self, effect: Clean) -> None: ...

    def proceed(self, effect: Proceed) -> None: ...

    def give_up(self, effect: GiveUp) -> None: ...

    def scan(self, effect: StartScan) -> None: ...

    def ask_verifier(self, effect: AskVerifier) -> None: ...

    def analyse(self, effect: Analyse) -> None: ...


class Performer:
    def __init__(self, hands: Hands, completed: Completed) -> None:
        self._hands = hands
        self._completed = completed

    def perform(self, effects: Iterable[Effect]) -> None:
        """In the order given; Sends that stand side by side are handed over as one."""
        sends: list[Send] = []
        for effect in effects:
            if type(effect) is Send:
                sends.append(effect)
                continue
            if sends:
                self._hands.send(sends)
                sends = []
            self._perform(effect)
        if sends:
            self._hands.send(sends)

    def report(self, effect: Effect, result: Result) -> None:
        """The way back, for hands: performs what the broker wants done next."""
        self.perform(self._completed(effect, result))

    def _perform(self, effect: Effect) -> None:
        hands = self._hands
        match effect:
            case Send():
                hands.send([effect])
            case Close():
                hands.close(effect)
            case Resume():
                hands.resume(effect)
            case FollowUp():
                self.report(effect, Done())
            case Dial():
                hands.dial(effect)
            case Hangup():
                hands.hang_up(effect)
            case Flush() | SyncSwap() | SyncMetadata() | FreezeSnapshot() | SyncCopy():
                self._persist(effect, ())
            case PersistThen(persist, then):
                self._persist(persist, then)
            case WriteSnapshot():
                hands.write_snapshot(effect)
            case Halt():
                hands.halt(effect)
            case Unlink():
                hands.unlink(effect)
            case Clean():
                hands.clean(effect)
            case Proceed():
                hands.proceed(effect)
            case GiveUp():
                hands.give_up(effect)
            case StartScan():
                hands.scan(effect)
            case AskVerifier():
                hands.ask_verifier(effect)
            case Analyse():
                hands.analyse(effect)
            case _:
                assert_never(effect)

    def _persist(self, effect: Persist, then: tuple[Send, ...]) -> None:
        def synced(result: Done | Failed) -> None:
            held = then if isinstance(result, Done) else ()
            self.perform((*held, *self._completed(effect, result)))

        self._hands.persist(effect, synced)
