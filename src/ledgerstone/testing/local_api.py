"""The broker's HTTP API, called on its own loop instead of over a socket. Shell.

The same paths, bodies and refusals as in `server.http.api`.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ledgerstone.errors import LedgerstoneError
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.http.api import PREFIX, handle
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.testing.on_the_loop import OnTheLoop


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
        return self._broker.on_the_loop(_asking(request))


def _asking(request: HttpRequest) -> Callable[[RunningBroker], dict[str, Any]]:
    def ask(running: RunningBroker) -> dict[str, Any]:
        page = handle(running.broker, request)
        # The call may have made something due.
        running.runtime.wake()
        assert page is not None, request.path
        content: dict[str, Any] = json.loads(page.body)
        if page.status != 200:
            raise CallRefused(f"{request.method} {request.path}: {content.get('error')}")
        return content

    return ask


def topic_path(topic: str, what: str) -> str:
    return f"topics/{quote(topic, safe='')}/{what}"
