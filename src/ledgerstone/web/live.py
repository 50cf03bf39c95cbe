"""Fragments of pages, sent again when they change. Shell.

One task renders each watched fragment once a second, for all its readers that may see the same:
once for all where nobody is asked for rights. A stream ends with what let its reader in. A reader
gets fragments that changed since the last send. The task ends with the last reader. A slow reader
misses versions in between, never the newest: only that one is kept for it.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.server.throttle import LogThrottle, shown

_LOG: Final = logging.getLogger(__name__)

TICK_S: Final = 1.0
# Something is sent at least this often, so that a closed connection is noticed.
KEEP_ALIVE_S: Final = 15.0
MAX_FRAGMENTS: Final = 8
_LINE_END: Final = re.compile("\r\n|\r|\n")
_STILL_HERE: Final = b": still here\n\n"


# A fragment for those who may see the same.
Seen = tuple[tuple[str, str] | None, str]


class _Reader:
    """One stream: the fragments it watches, and those not sent yet."""

    __slots__ = ("asker", "names", "news", "unsent")

    def __init__(self, names: Sequence[str], asker: Asker) -> None:
        self.names = names
        self.asker = asker
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
    """`render` makes a fragment by its name, for an asker; `tick` is called before each round."""

    def __init__(
        self,
        render: Callable[[str, Asker], str],
        tick: Callable[[], None],
        rest: Callable[[], None],
    ) -> None:
        self._render = render
        self._tick = tick
        self._rest = rest
        self._readers: dict[_Reader, None] = {}
        self._sent: dict[Seen, bytes] = {}
        self._task: asyncio.Task[None] | None = None
        self._throttle = LogThrottle()

    @property
    def reader_count(self) -> int:
        return len(self._readers)

    async def follow(
        self, names: Sequence[str], asker: Asker = ANYBODY
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events: first all fragments, then those that change. It ends when what let
        the asker in does not count any more."""
        reader = _Reader(names[:MAX_FRAGMENTS], asker)
        self._readers[reader] = None
        for name in reader.names:
            # Start with what others were sent a moment ago.
            if (asker.shown_key, name) in self._sent:
                reader.give(name, self._sent[asker.shown_key, name])
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        try:
            yield _STILL_HERE
            while asker.is_valid():
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await reader.news.wait()
                except TimeoutError:
                    yield _STILL_HERE
                else:
                    if asker.is_valid():
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
            watched: dict[Seen, Asker] = {}
            for reader in self._readers:
                if not reader.asker.is_valid():
                    # It is to notice that by itself.
                    reader.news.set()
                    continue
                for name in reader.names:
                    watched.setdefault((reader.asker.shown_key, name), reader.asker)
            self._sent = {seen: frame for seen, frame in self._sent.items() if seen in watched}
            for seen, asker in watched.items():
                self._renew(seen, asker)
                # Let requests run between two fragments.
                await asyncio.sleep(0)
            await asyncio.sleep(TICK_S)

    def _renew(self, seen: Seen, asker: Asker) -> None:
        key, name = seen
        try:
            made = frame(name, self._render(name, asker))
        except Exception:  # noqa: BLE001 - a border: one fragment must not stop the others
            suppressed = self._throttle.admit("fragment failed", int(time.monotonic() * 1000))
            if suppressed is not None:
                _LOG.exception("fragment failed name=%s suppressed=%d", shown(name), suppressed)
            return
        if made == self._sent.get(seen):
            return
        self._sent[seen] = made
        for reader in self._readers:
            if name in reader.names and reader.asker.shown_key == key:
                reader.give(name, made)


def frame(name: str, text: str) -> bytes:
    """One event; its name must have no line end, its text may have any."""
    assert "\n" not in name, name
    assert "\r" not in name, name
    lines = [f"event: {name}", *(f"data: {line}" for line in _LINE_END.split(text)), "", ""]
    return "\n".join(lines).encode()
