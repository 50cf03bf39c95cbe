"""The `authorised` stage: every request passes the rule of its API. Grade D, through the handlers.

A broker without an authorizer has no such stage, and its handlers are called themselves.
"""

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.server.authorising.call import GuardedCall
from ledgerstone.server.authorising.cluster_rules import open_to_all
from ledgerstone.server.authorising.table import CONTROLLER_RULES, DECIDED_BY_CONTROLLER, RULES
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.stages import Handler, Stage


def authorised(authorizer: Authorizer) -> Stage[Broker]:
    """A handler without a rule is a KeyError, and serves nobody."""

    def stage(api_key: int, handler: Handler[Broker]) -> Handler[Broker]:
        for_clients, for_controllers = RULES.get(api_key), CONTROLLER_RULES.get(api_key)
        if for_clients is None and for_controllers is None:
            raise KeyError(f"API {api_key} has no rule")
        is_decided_by_controller = api_key in DECIDED_BY_CONTROLLER

        def check(broker: Broker, request: Request, message: ApiMessage) -> Answer:
            session = request.session
            rights = session.rights
            if rights is None or rights.principal is not session.principal:
                rights = session.rights = authorizer.rights_of(session.principal, session.host)
                # The very object, so that the next request finds its rights without comparing.
                session.principal = rights.principal
            rule = for_controllers if session.is_controller_listener else for_clients
            assert rule is not None, api_key
            if is_decided_by_controller and broker.controller_link.forwards(request):
                # The controller knows of the newest ACLs, and is told who asks.
                return handler(broker, request, message)
            if rule is open_to_all:
                # Such as Fetch, whose handler looks at the rights itself.
                return handler(broker, request, message)
            return rule(GuardedCall(broker, request, message, rights, handler))

        return check

    return stage
