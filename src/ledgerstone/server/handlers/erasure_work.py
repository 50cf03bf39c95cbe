"""ErasureWork (30100). Grade D.

Behaviour: what brokers of one cluster ask each other for erasures; no client asks it. It is served
on the listener for brokers only (CLUSTER_AUTHORIZATION_FAILED elsewhere, and by a node of its own),
and who is no broker of this cluster is refused there, too (`erasing.host.check_asker`, as
CLUSTER_ACTION). A call of the JSON API is answered by the broker that leads the journal, once the
journal holds the change.
Versions: 0.
Differs from Kafka: Kafka has no such API, nor such a number.
"""

from base64 import b64decode
from collections.abc import Mapping
from typing import Final

from ledgerstone.erasure.host_messages import WorkKind, decoded, encoded
from ledgerstone.errors import InvalidRequest, KafkaError, StorageError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.erasure_work import ErasureWorkRequest, ErasureWorkResponse
from ledgerstone.server.broker import Broker
from ledgerstone.server.erasing.host import (
    WorkRefusal,
    answer,
    check_asker,
    check_leads,
    refused,
    said,
)
from ledgerstone.server.erasing.work import NotYet
from ledgerstone.server.http.api import ApiCall
from ledgerstone.server.http.forwarded import asker_from
from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request

# What needs more of the broker than its erasures.
_BY_BROKER: Final = (WorkKind.API, WorkKind.SECRETS, WorkKind.GIVE_SECRETS, WorkKind.AUDIT)


def handle(broker: Broker, request: Request, message: ErasureWorkRequest) -> Answer:
    erasing = broker.erasing
    cluster = broker.config.cluster
    between_brokers = cluster.inter_broker_listener_name
    if not cluster.is_configured or request.session.listener != between_brokers:
        reason = f"brokers ask this on the listener {between_brokers}"
        if not cluster.is_configured:
            reason = "a node of its own has no other brokers"
        return refused(erasing, WorkRefusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason))
    if message.kind not in _BY_BROKER:
        return answer(erasing, message)
    refusal = check_asker(erasing, message)
    if refusal is not None:
        return refused(erasing, refusal)
    try:
        content = decoded(bytes(message.content))
        match message.kind:
            case WorkKind.SECRETS:
                return said(erasing, encoded(erasing.sharing.status()))
            case WorkKind.GIVE_SECRETS:
                is_from_leader = check_leads(erasing, message) is None
                taken = erasing.sharing.take(content, is_from_leader=is_from_leader)
                return said(erasing, encoded(taken))
            case WorkKind.AUDIT:
                return _take_lines(broker, request, message.broker_id, content)
        call = ApiCall(broker, _request_of(broker, content), is_routed=False)
    except InvalidRequest as error:
        return refused(erasing, WorkRefusal(ErrorCode.INVALID_REQUEST, str(error)))
    erasing.attempts.add(
        call.attempt,
        lambda page: broker.answer(request, _answer(broker, page)),
    )
    return ANSWERED_LATER


def _take_lines(
    broker: Broker, request: Request, node: int, content: Mapping[str, object]
) -> Answer:
    """Answered once replicas of `__audit` have them."""
    from ledgerstone.server.auditing.audit_topic import append_lines, lines_in

    erasing = broker.erasing
    chain, lines = lines_in(content)
    try:
        written = append_lines(broker.partitions, broker, lines, node=node, chain=chain)
    except InvalidRequest:
        raise
    except (KafkaError, StorageError, OSError) as error:
        return refused(erasing, WorkRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)))

    def attempt() -> ErasureWorkResponse:
        try:
            if written.is_committed:
                return said(erasing, b"{}")
        except KafkaError as error:
            return refused(erasing, WorkRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)))
        raise NotYet("replicas do not have them")

    def answer_with(word: ErasureWorkResponse | str) -> None:
        if isinstance(word, str):
            word = refused(erasing, WorkRefusal(ErrorCode.REQUEST_TIMED_OUT, word))
        broker.answer(request, word)

    erasing.attempts.add(attempt, answer_with)
    return ANSWERED_LATER


def _request_of(broker: Broker, content: dict[str, object]) -> HttpRequest:
    method, path, query, body = (content.get(each) for each in ("method", "path", "query", "body"))
    if not isinstance(query, dict) or not all(type(each) is str for each in query.values()):
        raise InvalidRequest("a call without its query")
    if type(method) is not str or type(path) is not str or type(body) is not str:
        raise InvalidRequest("a call without its parts")
    try:
        data = b64decode(body, validate=True)
    except ValueError:
        raise InvalidRequest("a call whose body is no base64") from None
    asker = asker_from(broker, content.get("asker"))
    return HttpRequest(method, path, query, {}, data, asker)


def _answer(broker: Broker, page: Page | str) -> ErasureWorkResponse:
    erasing = broker.erasing
    if isinstance(page, str):
        return refused(erasing, WorkRefusal(ErrorCode.REQUEST_TIMED_OUT, page))
    body = page.body if isinstance(page.body, str) else page.body.decode("utf-8", "replace")
    content = {"status": page.status, "type": page.content_type, "body": body}
    return said(erasing, encoded(content))
