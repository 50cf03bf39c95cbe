"""One line on a terminal that is written anew while a command works. Shell.

Only on a terminal, and on standard error: what a program reads stays as it is.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

_EVERY_S: Final = 0.5
_CLEAR: Final = "\r\x1b[K"


class LiveLine:
    """`said` returns the text; empty text is no line. Other output goes between `pause` calls."""

    def __init__(self, said: Callable[[], str]) -> None:
        self._said = said
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_shown = False

    @contextmanager
    def shown(self) -> Iterator["LiveLine"]:
        if not sys.stderr.isatty():
            yield self
            return
        thread = threading.Thread(target=self._paint, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()
            self._clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The line is away while something else is written."""
        with self._lock:
            self._clear()
            yield

    def _paint(self) -> None:
        while not self._ended.wait(_EVERY_S):
            text = ""
            # What it asks may be gone before this thread is.
            with suppress(Exception):
                text = self._said()
            with self._lock:
                if text:
                    sys.stderr.write(f"{_CLEAR}{text}")
                    sys.stderr.flush()
                    self._is_shown = True

    def _clear(self) -> None:
        if self._is_shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._is_shown = False
