"""Lets a request pass that its asker has the right to, or refuses it and writes that down. Grade D.

Who asks was found out before (`doorkeeper`); which right a route asks for is in `route_rights`.
"""

from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.json_body import Refused
from ledgerstone.server.http.route_rights import (
    RouteDenial,
    RouteRule,
    denial,
    may_not,
    no_topic,
    rule_for,
)
from ledgerstone.server.http.server import BadRequest, HttpRequest, Page

_TOPIC = AclResourceType.TOPIC


def check_route(broker: Broker, request: HttpRequest) -> None:
    """Refused where the asker lacks the right; also for a route without a rule."""
    asker = request.asker
    if asker.rights is None:
        return
    found = rule_for(request.method, request.path)
    if found is None:
        other = "GET" if request.method == "POST" else "POST"
        if rule_for(other, request.path) is not None:
            raise Refused(405, f"{request.path} takes {other}")
        raise Refused(404, f"there is no {request.path}")
    check_rule(broker, asker, found.rule, dict(found.parts))


def shown_to(broker: Broker, request: HttpRequest, page: Page) -> Page:
    """What of a monitor's page its asker is shown. That it is not ready is for everybody; why not
    names topics, and is for who may describe the cluster."""
    try:
        check_route(broker, request)
    except Refused as error:
        raise BadRequest(error.status, str(error)) from None
    if request.path == "/readyz" and not request.asker.sees_cluster:
        first = page.body.partition("\n")[0] if isinstance(page.body, str) else ""
        return page._replace(body=f"{first}\n")
    return page


def check_fragment(broker: Broker, asker: Asker, kind: str, argument: str) -> None:
    if asker.rights is None:
        return
    found = rule_for("FRAGMENT", kind)
    if found is None:
        raise Refused(404, f"there is no {kind}")
    # `anatomy:orders-0@17` is about a partition and an offset of it.
    topic = argument.partition("@")[0].rpartition("-")[0] if kind == "anatomy" else argument
    check_rule(broker, asker, found.rule, {"topic": topic})


def check_rule(broker: Broker, asker: Asker, rule: RouteRule, parts: dict[str, str]) -> None:
    found = denial(rule, parts, asker, broker.image.topics.__contains__)
    if found is not None:
        raise _refused(broker, asker, found)


def need(
    broker: Broker, asker: Asker, operation: AclOperation, resource: AclResourceType, name: str
) -> None:
    """A right on what a handler had to find first."""
    if not asker.may(operation, resource, name):
        reason = may_not(asker, operation, resource, name)
        raise _refused(broker, asker, RouteDenial(403, reason, operation, resource, name))


def need_on_topic(broker: Broker, asker: Asker, operation: AclOperation, name: str) -> None:
    """A topic that may not be described is one that does not exist."""
    if asker.rights is None:
        return
    if not asker.sees_topic(name) or name not in broker.image.topics:
        found = RouteDenial(404, no_topic(name), AclOperation.DESCRIBE, _TOPIC, name)
        raise _refused(broker, asker, found)
    need(broker, asker, operation, _TOPIC, name)


def _refused(broker: Broker, asker: Asker, found: RouteDenial) -> Refused:
    if broker.auditor is not None:
        broker.auditor.denied_http(
            str(asker.principal), asker.host, found.operation, found.resource, found.name
        )
    return Refused(found.status, found.reason)
