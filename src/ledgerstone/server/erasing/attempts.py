"""Calls that other brokers have passed on, tried until they are answered. Grade D."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.server.erasing.work import NotYet

_AGAIN_MS: Final = 10
# Shorter than the broker waits that passed the call on, which may have waited already.
_LIMIT_MS: Final = 15_000
# Of calls at a time.
MAX_ATTEMPTS: Final = 1_000

T = TypeVar("T")


@dataclass(slots=True)
class Attempts(Generic[T]):
    """`on_end` gets the answer, or why there is none, once."""

    clock: Clock
    _waiting: list[tuple[int, Callable[[], T], Callable[[T | str], None]]] = field(
        default_factory=list
    )
    _due_ms: int | None = None

    def add(self, attempt: Callable[[], T], on_end: Callable[[T | str], None]) -> None:
        if len(self._waiting) >= MAX_ATTEMPTS:
            on_end(f"{MAX_ATTEMPTS} calls are waiting already")
            return
        self._waiting.append((self.clock.monotonic_ms() + _LIMIT_MS, attempt, on_end))
        self._due_ms = 0

    @property
    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def tick(self) -> None:
        now_ms = self.clock.monotonic_ms()
        if self._due_ms is None or now_ms < self._due_ms:
            return
        waiting, self._waiting = self._waiting, []
        for deadline_ms, attempt, on_end in waiting:
            try:
                answer = attempt()
            except NotYet as reason:
                if now_ms >= deadline_ms:
                    on_end(f"not in time: {reason}")
                else:
                    self._waiting.append((deadline_ms, attempt, on_end))
            else:
                on_end(answer)
        self._due_ms = now_ms + _AGAIN_MS if self._waiting else None
