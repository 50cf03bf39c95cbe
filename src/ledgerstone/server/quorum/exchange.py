"""A replica's messages, to and from Kafka's: requests it sends, and those it is asked. Grade D.

Kafka's are imported with the first message: a sole voter has none.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from ledgerstone.errors import LedgerstoneError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.raft import messages
from ledgerstone.raft.events import Answered, Asked, Event, Failed, Reply, Send
from ledgerstone.server.calls import CallFailed, Calls

_LOG: Final = logging.getLogger(__name__)

OnAnswer = Callable[[ApiMessage], None]
# An error code and the reason.
OnEnd = Callable[[int, str], None]


class _Asker(NamedTuple):
    request: ApiMessage
    on_answer: OnAnswer


class QuorumExchange:
    """Every request that came in gets one answer, by its token."""

    def __init__(self, calls: Calls, timeout_ms: int, step: Callable[[Event], None]) -> None:
        self._calls = calls
        self._timeout_ms = timeout_ms
        self._step = step
        self._askers: dict[int, _Asker] = {}
        self._upgrades: dict[int, OnEnd] = {}
        self._next_token = 0

    def ask(self, request: ApiMessage, on_answer: OnAnswer) -> None:
        from ledgerstone.raft.wire import translation

        asked = translation.request_from_wire(request)
        token = self._token()
        self._askers[token] = _Asker(request, on_answer)
        self._step(Asked(token, asked))

    def upgrade(self, version: int, on_end: OnEnd) -> None:
        token = self._token()
        self._upgrades[token] = on_end
        self._step(Asked(token, messages.UpgradeVersion(version=version)))

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def say(self, message: Send | Reply) -> None:
        from ledgerstone.raft.wire import translation

        if isinstance(message, Send):
            self._calls.ask(
                message.peer,
                translation.request_to_wire(message.request),
                partial(self._answered, message),
                timeout_ms=self._timeout_ms,
                least_version=translation.least_version(message.request),
            )
        elif (on_end := self._upgrades.pop(message.token, None)) is not None:
            answer = message.answer
            on_end(answer.error, getattr(answer, "message", None) or "")
        else:
            asker = self._askers.pop(message.token)
            asker.on_answer(translation.answer_to_wire(asker.request, message.answer))

    def _answered(self, sent: Send, answer: ApiMessage | CallFailed) -> None:
        from ledgerstone.raft.wire import translation

        peer_id, correlation = sent.peer.id, sent.correlation
        if isinstance(answer, CallFailed):
            self._step(Failed(peer_id, correlation, answer.is_unsupported))
            return
        try:
            found = translation.answer_from_wire(answer)
        except (LedgerstoneError, ValueError) as error:
            _LOG.warning("answer not understood node=%d reason=%s", peer_id, error)
            self._step(Failed(peer_id, correlation))
            return
        is_vote = isinstance(sent.request, messages.Vote)
        if is_vote and found.error is ErrorCode.UNSUPPORTED_VERSION:
            self._step(Failed(peer_id, correlation, is_unsupported=True))
        else:
            self._step(Answered(peer_id, correlation, found))
