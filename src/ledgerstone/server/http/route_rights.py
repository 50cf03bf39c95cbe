"""Which right each route asks for: pages, fragments, the JSON API. Pure.

One table. What is not in it is refused to everybody who is asked for rights, and a test walks all
routes and finds what is missing. Rights on what only the body names, or on what has to be found
first, are checked by the handler; the table says which in words.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from ledgerstone.security.acl import CLUSTER_NAME, AclOperation, AclResourceType
from ledgerstone.server.http.asker import Asker

_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
_DELETE, _ALTER = AclOperation.DELETE, AclOperation.ALTER
_DESCRIBE, _DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
_CLUSTER_ACTION = AclOperation.CLUSTER_ACTION


class RouteRule(NamedTuple):
    """`part` of the path names the resource, unless it is the cluster. `or_node`: other nodes of
    the cluster may ask it too. `inside` is what the handler checks, in words."""

    operation: AclOperation | None = None
    resource: AclResourceType = AclResourceType.CLUSTER
    part: str = ""
    or_node: bool = False
    inside: str = ""
    is_open: bool = False  # without a login


class RouteDenial(NamedTuple):
    """A 404 hides what may not be described."""

    status: int
    reason: str
    operation: AclOperation
    resource: AclResourceType
    name: str


def _topic(operation: AclOperation, *, or_node: bool = False, inside: str = "") -> RouteRule:
    return RouteRule(operation, AclResourceType.TOPIC, "topic", or_node, inside)


def _group(operation: AclOperation, inside: str = "") -> RouteRule:
    return RouteRule(operation, AclResourceType.GROUP, "group", inside=inside)


def _cluster(operation: AclOperation, *, or_node: bool = False) -> RouteRule:
    return RouteRule(operation, or_node=or_node)


def _inside(words: str) -> RouteRule:
    return RouteRule(inside=words)


_OPEN: Final = RouteRule(is_open=True)
_LOGIN: Final = RouteRule()
_SEEN_TOPICS: Final = _inside("leaves out topics without DESCRIBE")
_OF_ERASURE: Final = _inside("DESCRIBE on the topic of the erasure")
_DELETE_OF_ERASURE: Final = _inside("DELETE on the topic of the erasure")
_SEEN_GROUPS: Final = _inside("leaves out groups without DESCRIBE")
_SEEN_TRANSACTIONS: Final = _inside("leaves out transactional ids without DESCRIBE")
_NO_NAMES: Final = "does not name groups and transactional ids without DESCRIBE"
_ABORT: Final = _inside("WRITE on the transactional id")

# By method and path; `{name}` is one part of it.
ROUTE_RIGHTS: Final[Mapping[str, RouteRule]] = {
    # The ports of monitors. What is not ready, and why, is only told with DESCRIBE on the cluster.
    "GET /livez": _OPEN,
    "GET /healthz": _OPEN,
    "GET /readyz": _OPEN,
    "GET /metrics": _cluster(_DESCRIBE),
    # Logins.
    "GET /login": _OPEN,
    "POST /login": _OPEN,
    "POST /logout": _LOGIN,
    # The JSON API.
    "GET /api/v1/clock": _LOGIN,
    "POST /api/v1/clock/advance": _cluster(_ALTER),
    "GET /api/v1/topics/{topic}/cleaning": _topic(_DESCRIBE, inside=_NO_NAMES),
    "POST /api/v1/topics/{topic}/compact": _topic(_ALTER),
    "GET /api/v1/tickets/{number}": _inside("DESCRIBE on the topic of the pass"),
    "GET /api/v1/cleaner/history": _SEEN_TOPICS,
    "POST /api/v1/topics/{topic}/where": _topic(_READ),
    "GET /api/v1/searches/{number}": _inside("READ on the topic of the search"),
    "POST /api/v1/topics/{topic}/erasures": _topic(_DELETE),
    "GET /api/v1/erasures": _SEEN_TOPICS,
    "GET /api/v1/erasures-journal": _cluster(_DESCRIBE),
    "POST /api/v1/erasures-journal/acknowledge": _cluster(_ALTER),
    "GET /api/v1/erasures-public-key": _LOGIN,
    "GET /api/v1/erasures/{erasure_id}": _OF_ERASURE,
    "POST /api/v1/erasures/{erasure_id}/cancel": _DELETE_OF_ERASURE,
    "POST /api/v1/erasures/{erasure_id}/abandon": _DELETE_OF_ERASURE,
    "POST /api/v1/erasures/{erasure_id}/accept": _DELETE_OF_ERASURE,
    "GET /api/v1/erasures/{erasure_id}/receipt": _OF_ERASURE,
    "GET /api/v1/erasures/{erasure_id}/supplements": _OF_ERASURE,
    "GET /api/v1/erasures/{erasure_id}/supplements/{number}": _OF_ERASURE,
    "POST /api/v1/erasures/{erasure_id}/evidence": _inside(
        "DESCRIBE on the topic of the erasure, WRITE on the topic __erasures"
    ),
    "GET /api/v1/topics/{topic}/tombstones": _topic(
        _DESCRIBE, inside="leaves out groups without DESCRIBE"
    ),
    "POST /api/v1/topics/{topic}/tombstones/ack": _topic(_DESCRIBE, inside="READ on the group"),
    "GET /api/v1/groups/{group}/tombstones": _group(
        _DESCRIBE, "leaves out topics without DESCRIBE"
    ),
    "GET /api/v1/topics/{topic}/anatomy": _topic(_DESCRIBE, or_node=True, inside=_NO_NAMES),
    "GET /api/v1/damage": _cluster(_DESCRIBE),
    "POST /api/v1/damage/acknowledge": _cluster(_ALTER),
    "GET /api/v1/transactions": _SEEN_TRANSACTIONS,
    "POST /api/v1/transactions/abort": _ABORT,
    "GET /api/v1/quotas": _cluster(_DESCRIBE_CONFIGS),
    "GET /api/v1/audit/head": _inside("super users only"),
    "GET /api/v1/cluster": _cluster(_DESCRIBE, or_node=True),
    "GET /api/v1/lags": _cluster(_DESCRIBE, or_node=True),
    # Pages.
    "GET /": _inside("counts what may be described; the rest with DESCRIBE on the cluster"),
    "GET /topics": _SEEN_TOPICS,
    "POST /topics": _inside("CREATE on the cluster or on the topic"),
    "GET /topics/{topic}": _topic(_DESCRIBE, inside="settings with DESCRIBE_CONFIGS on it"),
    "GET /topics/{topic}/records": _topic(_READ),
    "GET /topics/{topic}/records/{partition}/{offset}": _topic(_READ),
    "GET /topics/{topic}/latest": _topic(_READ),
    "GET /topics/{topic}/produce": _topic(_WRITE, inside="READ on it for the key of a record"),
    "POST /topics/{topic}/produce": _topic(_WRITE),
    "POST /topics/{topic}/compact": _topic(_ALTER),
    "GET /topics/{topic}/anatomy": _topic(
        _DESCRIBE, inside="leaves out transactional ids without DESCRIBE"
    ),
    "GET /topics/{topic}/replicas": _topic(_DESCRIBE),
    "GET /topics/{topic}/keys": _topic(_READ),
    "POST /topics/{topic}/keys": _topic(_READ),
    "GET /cluster": _cluster(_DESCRIBE),
    "GET /cleaner": _SEEN_TOPICS,
    "GET /erasures": _inside(
        "leaves out topics without DESCRIBE; READ on the topic for the key of a record"
    ),
    "POST /erasures": _inside("DELETE on the topic"),
    "GET /erasures/{erasure}": _OF_ERASURE,
    "POST /erasures/{erasure}/cancel": _DELETE_OF_ERASURE,
    "GET /erasures/{erasure}/receipt.json": _OF_ERASURE,
    "GET /erasures/{erasure}/receipt.txt": _OF_ERASURE,
    "GET /erasures/{erasure}/supplements/{number}": _OF_ERASURE,
    "GET /transactions": _SEEN_TRANSACTIONS,
    "POST /transactions/abort": _ABORT,
    "GET /quotas": _cluster(_DESCRIBE_CONFIGS),
    "GET /groups": _SEEN_GROUPS,
    "GET /groups/{group}": _group(_DESCRIBE, "leaves out topics without DESCRIBE"),
    "POST /groups/{group}/missed": _group(_READ, "DESCRIBE on the topic"),
    "GET /pipelines": _inside("leaves out groups and topics without DESCRIBE"),
    # Fragments of pages, which streams send again. What follows a colon names the resource.
    "FRAGMENT overview": _inside("as the page"),
    "FRAGMENT samples": _cluster(_DESCRIBE),
    "FRAGMENT topics": _SEEN_TOPICS,
    "FRAGMENT internal_topics": _SEEN_TOPICS,
    "FRAGMENT partitions": _topic(_DESCRIBE),
    "FRAGMENT anatomy": _topic(_DESCRIBE),
    "FRAGMENT cluster": _cluster(_DESCRIBE),
    "FRAGMENT cleaner": _SEEN_TOPICS,
    "FRAGMENT cleaner_runs": _SEEN_TOPICS,
    "FRAGMENT cleaner_internal": _SEEN_TOPICS,
    "FRAGMENT cleaner_ratios": _SEEN_TOPICS,
    "FRAGMENT erasures": _SEEN_TOPICS,
    "FRAGMENT erasure": _OF_ERASURE,
    "FRAGMENT groups": _SEEN_GROUPS,
    "FRAGMENT pipelines": _inside("leaves out groups and topics without DESCRIBE"),
}


class MatchedRule(NamedTuple):
    rule: RouteRule
    parts: Mapping[str, str]


def _split() -> dict[tuple[str, int], list[tuple[list[str], RouteRule]]]:
    """By method and number of parts; fixed words come before names."""
    found: dict[tuple[str, int], list[tuple[list[str], RouteRule]]] = {}
    for route, rule in ROUTE_RIGHTS.items():
        method, _, pattern = route.partition(" ")
        words = pattern.split("/")
        found.setdefault((method, len(words)), []).append((words, rule))
    for rules in found.values():
        rules.sort(key=lambda each: sum(word.startswith("{") for word in each[0]))
    return found


_BY_SHAPE: Final = _split()


def rule_for(method: str, path: str) -> MatchedRule | None:
    """HEAD is a GET."""
    words = path.split("/")
    method = "GET" if method == "HEAD" else method
    for names, rule in _BY_SHAPE.get((method, len(words)), ()):
        parts: dict[str, str] = {}
        for name, word in zip(names, words, strict=True):
            if name.startswith("{") and word:
                parts[name[1:-1]] = unquote(word)
            elif name != word:
                break
        else:
            return MatchedRule(rule, parts)
    return None


def denial(
    rule: RouteRule, parts: Mapping[str, str], asker: Asker, has_topic: Callable[[str], bool]
) -> RouteDenial | None:
    """Why an asker may not have it; None: they may. A topic that may not be described is one that
    does not exist: both are answered here, in the same words."""
    if asker.rights is None or rule.operation is None:
        return None
    if rule.or_node and asker.may_on_cluster(_CLUSTER_ACTION):
        return None
    resource = rule.resource
    name = CLUSTER_NAME if resource is AclResourceType.CLUSTER else parts[rule.part]
    if resource is AclResourceType.TOPIC and not (asker.sees_topic(name) and has_topic(name)):
        return RouteDenial(404, no_topic(name), _DESCRIBE, resource, name)
    if resource is AclResourceType.GROUP:
        if not asker.sees_group(name):
            return RouteDenial(404, no_group(name), _DESCRIBE, resource, name)
        if rule.operation is _DESCRIBE:
            return None
    if asker.may(rule.operation, resource, name):
        return None
    return RouteDenial(
        403, may_not(asker, rule.operation, resource, name), rule.operation, resource, name
    )


def no_topic(name: str) -> str:
    return f"there is no topic {name[:260]}"


def no_group(name: str) -> str:
    return f"there is no group {name[:260]}"


def may_not(asker: Asker, operation: AclOperation, resource: AclResourceType, name: str) -> str:
    words = resource.name.lower().replace("_", " ")
    what = "the cluster" if resource is AclResourceType.CLUSTER else f"{words} {name[:260]}"
    return f"{asker.principal} has no right {operation.name} on {what}"
