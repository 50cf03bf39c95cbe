"""Work that stops in the middle and goes on when the world says so.

Cleaning passes and scans are plain functions that call back. In a real broker they run in another
process; here each runs in a thread, strictly in turn with the world: exactly one of the two is ever
running, so that nothing depends on how the system schedules threads.
"""

import threading
from collections.abc import Callable
from typing import Any


class Cancelled(BaseException):
    """The process that did the work is gone. Not an Exception, so that no border reports it."""


class Stepwise:
    """`resume` runs the work to its next `pause`, and returns what was said there."""

    def __init__(self, work: Callable[[Callable[[object], None]], object]) -> None:
        self._work = work
        # Bare locks, taken here and released over there: a semaphore costs ten times as much.
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._said: object = None
        self._error: BaseException | None = None
        self._is_cancelled = False
        self.is_done = False
        self.result: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def resume(self) -> object:
        self._said = None
        self._go.release()
        self._back.acquire()
        if self._error is not None and not self._is_cancelled:
            raise self._error
        return self._said

    def cancel(self) -> None:
        """Unwinds the work where it stands."""
        if not self.is_done:
            self._is_cancelled = True
            self.resume()
            assert self.is_done, "cancelled work went on"

    def _pause(self, what: object) -> None:
        if self._is_cancelled:
            raise Cancelled
        self._said = what
        self._back.release()
        self._go.acquire()
        if self._is_cancelled:
            raise Cancelled

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self._is_cancelled:
                self.result = self._work(self._pause)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever resumed
            self._error = error
        finally:
            self.is_done = True
            self._back.release()
