"""Fragments of pages, sent again when they change. Shell.

One task renders each watched fragment once a second, for all its readers. A reader gets fragments
that changed since the last send. The task ends with the last reader. A slow reader misses versions
in between, never the newest: only that one is kept for it.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from ledgerstone.server.throttle import LogThrottle, shown

_LOG: Final = logging.getLogger(__name__)

TICK_S: Final = 1.0
# Something is sent at least this often, so that a closed connection is noticed.
KEEP_ALIVE_S: Final = 15.0
MAX_FRAGMENTS: Final = 8
_LINE_END: Final = re.compile("\r\n|\r|\n")
_STILL_HERE: Final = b": still here\n\n"


class _Reader:
    """One stream: the fragments it watches, and those not sent yet."""

    __slots__ = ("names", "news", "unsent")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.unsent: dict[str, bytes] = {}
        self.news = asyncio.Event()

    def give(self, name: str, frame: bytes) -> None:
        self.unsent[name] = frame
        self.news.set()

    def take(self) -> bytes:
        frames = b"".join(self.unsent.values())
        self.unsent.clear()
        self.news.clear()
        return frames


class Live:
    """`render` makes a fragment by its name; `tick` is called before each round."""

    def __init__(
        self, render: Callable[[str], str], tick: Callable[[], None], rest: Callable[[], None]
    ) -> None:
        self._render = render
        self._tick = tick
        self._rest = rest
        self._readers: dict[_Reader, None] = {}
        self._sent: dict[str, bytes] = {}
        self._task: asyncio.Task[None] | None = None
        self._throttle = LogThrottle()

    @property
    def reader_count(self) -> int:
        return len(self._readers)

    async def follow(self, names: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Server-sent events: first all fragments, then those that change."""
        reader = _Reader(names[:MAX_FRAGMENTS])
        self._readers[reader] = None
        for name in reader.names:
            # Start with what others were sent a moment ago.
            if name in self._sent:
                reader.give(name, self._sent[name])
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        try:
            yield _STILL_HERE
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await reader.news.wait()
                except TimeoutError:
                    yield _STILL_HERE
                else:
                    yield reader.take()
        finally:
            del self._readers[reader]
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = None
                self._sent.clear()
                self._rest()

    async def _work(self) -> None:
        while True:
            self._tick()
            watched = dict.fromkeys(name for each in self._readers for name in each.names)
            self._sent = {name: frame for name, frame in self._sent.items() if name in watched}
            for name in watched:
                self._renew(name)
                # Let requests run between two fragments.
                await asyncio.sleep(0)
            await asyncio.sleep(TICK_S)

    def _renew(self, name: str) -> None:
        try:
            made = frame(name, self._render(name))
        except Exception:  # noqa: BLE001 - a border: one fragment must not stop the others
            suppressed = self._throttle.admit("fragment failed", int(time.monotonic() * 1000))
            if suppressed is not None:
                _LOG.exception("fragment failed name=%s suppressed=%d", shown(name), suppressed)
            return
        if made == self._sent.get(name):
            return
        self._sent[name] = made
        for reader in self._readers:
            if name in reader.names:
                reader.give(name, made)


def frame(name: str, text: str) -> bytes:
    """One event; its name must have no line end, its text may have any."""
    assert "\n" not in name, name
    assert "\r" not in name, name
    lines = [f"event: {name}", *(f"data: {line}" for line in _LINE_END.split(text)), "", ""]
    return "\n".join(lines).encode()
