"""A request on its way through the `authorised` stage. Grade D, through the handler behind it.

A rule looks at the request and at what its principal may do. It passes the request on, or a part of
it; or answers by itself. What it took away it puts back into the answer, refused.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.security.acl import CLUSTER_NAME, AclOperation, AclResourceType
from ledgerstone.security.authorizer import Rights
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.no_coordinator import NO_COORDINATOR, refusal_of
from ledgerstone.server.request import Answer, Encoded, InnerRequest, Parked, Request
from ledgerstone.server.stages import Handler

T = TypeVar("T")
# Takes the answer of the API's own class.
Finish = Callable[[Any], ApiMessage]


@dataclass(slots=True, eq=False, kw_only=True)
class PartOfRequest(InnerRequest):
    """What is left of a request; `finish` adds what was taken away to the answer."""

    finish: Finish

    def wrapped(self, response: ApiMessage) -> ApiMessage:
        return self.finish(response)


@dataclass(slots=True, eq=False)
class GuardedCall:
    """`message` is of the class that belongs to the API key."""

    broker: Broker
    request: Request
    message: Any
    rights: Rights
    handler: Handler[Broker]

    @property
    def version(self) -> int:
        return self.request.api_version

    def may(self, operation: AclOperation, resource_type: AclResourceType, name: str) -> bool:
        return self.rights.may(operation, resource_type, name)

    def may_on_cluster(self, operation: AclOperation) -> bool:
        return self.rights.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_topic(self, operation: AclOperation, name: str) -> bool:
        return self.rights.may(operation, AclResourceType.TOPIC, name)

    def may_on_group(self, operation: AclOperation, name: str) -> bool:
        return self.rights.may(operation, AclResourceType.GROUP, name)

    def may_on_transactions_of(self, operation: AclOperation, name: str) -> bool:
        return self.rights.may(operation, AclResourceType.TRANSACTIONAL_ID, name)

    def split(
        self, items: Iterable[T], operation: AclOperation, name_of: Callable[[T], str]
    ) -> tuple[list[T], list[T]]:
        """Items about topics: those that are allowed, and the rest."""
        allowed: list[T] = []
        refused: list[T] = []
        for each in items:
            (allowed if self.may_on_topic(operation, name_of(each)) else refused).append(each)
        return allowed, refused

    def pass_on(self, message: ApiMessage | None = None, finish: Finish | None = None) -> Answer:
        """The handler's answer. `finish` is given it, now or later, and makes the whole of it."""
        asked = self.message if message is None else message
        if finish is None:
            return self.handler(self.broker, self.request, asked)
        request = self.request
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
        )
        try:
            answer = self.handler(self.broker, part, asked)
        except NO_COORDINATOR as error:
            refusal = refusal_of(asked, error.code, request.api_version)
            if refusal is None:
                raise
            return finish(refusal)
        if isinstance(answer, Parked):
            return answer.with_answer(finish)
        assert not isinstance(answer, bytes | Encoded), "encoded before it was whole"
        return finish(answer) if isinstance(answer, ApiMessage) else answer


Rule = Callable[[GuardedCall], Answer]
