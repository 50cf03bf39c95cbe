"""The broker's HTTP API, called on its own loop instead of over a socket. Shell.

The same paths, bodies and refusals as in `server.http.api`.
"""

import json
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from ledgerstone.errors import LedgerstoneError
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.http.api import PREFIX, begin
from ledgerstone.server.http.server import HttpRequest, Page, SlowPage
from ledgerstone.testing.on_the_loop import OnTheLoop

_PAUSE_S: Final = 0.005


class CallRefused(LedgerstoneError):
    """The broker refused, with its reason."""


class LocalApi:
    def __init__(self, broker: OnTheLoop) -> None:
        self._broker = broker

    def get(self, path: str) -> dict[str, Any]:
        return self._ask("GET", path, b"")

    def post(self, path: str, **content: object) -> dict[str, Any]:
        return self._ask("POST", path, json.dumps(content).encode())

    def _ask(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        request = HttpRequest(method, f"{PREFIX}{path}", {}, {}, body)
        page = self._broker.on_the_loop(_asking(request))
        while not isinstance(page, Page):
            # It waits for other brokers of the cluster.
            page = self._broker.on_the_loop(_going_on(page))
            time.sleep(_PAUSE_S)
        content: dict[str, Any] = json.loads(page.body)
        if page.status != 200:
            raise CallRefused(f"{request.method} {request.path}: {content.get('error')}")
        return content


def _asking(request: HttpRequest) -> Callable[[RunningBroker], Page | SlowPage]:
    def ask(running: RunningBroker) -> Page | SlowPage:
        page = begin(running.broker, request)
        # The call may have made something due.
        running.runtime.wake()
        assert page is not None, request.path
        return page

    return ask


def _going_on(page: SlowPage) -> Callable[[RunningBroker], Page | SlowPage]:
    def go_on(running: RunningBroker) -> Page | SlowPage:
        try:
            next(page)
        except StopIteration as end:
            made: Page = end.value
            return made
        finally:
            running.runtime.wake()
        return page

    return go_on


def topic_path(topic: str, what: str) -> str:
    return f"topics/{quote(topic, safe='')}/{what}"
