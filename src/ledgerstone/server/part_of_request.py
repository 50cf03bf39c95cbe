"""A stage passes a request on, or a part of it, and makes the whole answer. Grade D, through the
handler behind it."""

from collections.abc import Callable
from typing import Any

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.no_coordinator import NO_COORDINATOR, refusal_of
from ledgerstone.server.request import Answer, Encoded, InnerRequest, Parked, Request
from ledgerstone.server.stages import Handler

# Takes the answer of the API's own class.
Finish = Callable[[Any], ApiMessage]


@dataclass(slots=True, eq=False, kw_only=True)
class PartOfRequest(InnerRequest):
    """What is left of a request; `finish` adds what was taken away to the answer."""

    finish: Finish
    # Nothing in it was allowed to its principal: it is passed on to be told what is wrong with it.
    is_only_wrong: bool = False

    def wrapped(self, response: ApiMessage) -> ApiMessage:
        return self.finish(response)


def pass_part_on(
    broker: Broker,
    request: Request,
    message: ApiMessage,
    handler: Handler[Broker],
    finish: Finish,
    *,
    is_only_wrong: bool = False,
) -> Answer:
    """`finish` is given the handler's answer, now or later."""
    part = PartOfRequest(
        request.connection,
        request.api_key,
        request.api_version,
        request.correlation_id,
        request.client_id,
        request.session,
        request.received_ms,
        outer=request,
        finish=finish,
        is_only_wrong=is_only_wrong,
    )
    try:
        answer = handler(broker, part, message)
    except NO_COORDINATOR as error:
        refusal = refusal_of(message, error.code, request.api_version)
        if refusal is None:
            raise
        return finish(refusal)
    if isinstance(answer, Parked):
        return answer.with_answer(finish)
    assert not isinstance(answer, bytes | Encoded), "encoded before it was whole"
    return finish(answer) if isinstance(answer, ApiMessage) else answer
