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
from ledgerstone.server.part_of_request import Finish, pass_part_on
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.stages import Handler

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class GuardedCall:
    """`message` is of the class that belongs to the API key."""

    broker: Broker
    request: Request
    message: Any
    rights: Rights
    handler: Handler[Broker]
    # Any of the rights that were asked for.
    has_right: bool = False

    @property
    def version(self) -> int:
        return self.request.api_version

    def may(self, operation: AclOperation, resource_type: AclResourceType, name: str) -> bool:
        """For what was asked for. A no is written down where there is an audit log."""
        if self.rights.may(operation, resource_type, name):
            self.has_right = True
            return True
        if self.broker.auditor is not None:
            self.broker.auditor.denied(self.request, operation, resource_type, name)
        return False

    def sees(self, operation: AclOperation, resource_type: AclResourceType, name: str) -> bool:
        """For what is only left out, or may be allowed by another right."""
        if self.rights.may(operation, resource_type, name):
            self.has_right = True
            return True
        return False

    def may_on_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_topic(self, operation: AclOperation, name: str) -> bool:
        # Asked again for a no, which has to be written down.
        if self.rights.may_on_topic(operation, name):
            self.has_right = True
            return True
        return self.may(operation, AclResourceType.TOPIC, name)

    def may_on_group(self, operation: AclOperation, name: str) -> bool:
        return self.may(operation, AclResourceType.GROUP, name)

    def may_on_transactions_of(self, operation: AclOperation, name: str) -> bool:
        return self.may(operation, AclResourceType.TRANSACTIONAL_ID, name)

    def sees_on_cluster(self, operation: AclOperation) -> bool:
        return self.sees(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def sees_topic(self, name: str) -> bool:
        return self.sees(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)

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
        if self._is_only_wrong:
            # The handler refuses what no right was asked for. Whoever has none may do so without
            # end, and must not fill the audit log with changes that he asks for.
            whole = _as_it_is if finish is None else finish
            return pass_part_on(
                self.broker, self.request, asked, self.handler, whole, is_only_wrong=True
            )
        if finish is None:
            return self.handler(self.broker, self.request, asked)
        return pass_part_on(self.broker, self.request, asked, self.handler, finish)

    @property
    def _is_only_wrong(self) -> bool:
        """A change of which nothing was allowed. No matter where nothing is written down."""
        auditor = self.broker.auditor
        if auditor is None or self.has_right or self.rights.is_super:
            return False
        return self.request.api_key in auditor.audited


def _as_it_is(response: ApiMessage) -> ApiMessage:
    return response


Rule = Callable[[GuardedCall], Answer]
