"""Stages that a request passes before its handler: authenticated, authorised, audited, quota. Pure.

A stage wraps handlers once, when the broker is composed, and may leave an API alone by returning
its handler as it is. With no active stage the table of handlers is used itself, so stages that are
off cost nothing.

What a stage can do is what a handler can: answer instead of it, answer later (`Parked`), raise
`Disconnect`, mute the connection (`Broker.mute`), or pass the request on and look at the answer.
"""

from collections.abc import Callable, Mapping
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


def pipeline(handlers: Mapping[int, Handler[B]], stages: Stages) -> Mapping[int, Handler[B]]:
    """The handlers behind the active stages."""
    composed = handlers
    # The last stage is wrapped first, and so stands closest to the handler.
    for stage in filter(None, reversed(stages)):
        composed = {key: stage(key, handler) for key, handler in composed.items()}
    return composed
