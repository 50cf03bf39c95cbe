"""Stages that a request passes before its handler: authenticated, authorised, audited, quota. Pure.

A stage wraps a handler once, at the first request for it, and may leave an API alone by returning
its handler as it is. Stages that are off cost nothing.

What a stage can do is what a handler can: answer instead of it, answer later (`Parked`), raise
`Disconnect`, mute the connection (`Broker.mute`), or pass the request on and look at the answer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ledgerstone.server.request import Answer, Request

B = TypeVar("B")
# Takes the broker, the request and its message; the message's class follows from the API key.
Handler = Callable[[B, Request, Any], Answer]
# Takes an API key and the handler behind it.
Stage = Callable[[int, Handler[B]], Handler[B]]


class Stages(NamedTuple):
    """In the order in which a request meets them; None: not active."""

    authenticated: Stage[Any] | None = None
    authorised: Stage[Any] | None = None
    audited: Stage[Any] | None = None
    quota: Stage[Any] | None = None


class StagedHandlers(dict[int, Handler[B]]):
    """By API key, the handlers behind the active stages; each is put there by its first request.

    `find` raises KeyError for keys that are not served, and so does looking one up here.
    """

    def __init__(self, find: Callable[[int], Handler[B]], stages: Stages) -> None:
        super().__init__()
        self._find = find
        self._stages = stages

    def __missing__(self, api_key: int) -> Handler[B]:
        handler = self._find(api_key)
        # The last stage is wrapped first, and so stands closest to the handler.
        for stage in filter(None, reversed(self._stages)):
            handler = stage(api_key, handler)
        self[api_key] = handler
        return handler
