"""Every route of the HTTP port has a rule, and the rule is the one that is written down."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.security.acl import Acl, AclOperation, AclResourceType
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.security.principal import Principal
from ledgerstone.server.http import api, monitor_routes
from ledgerstone.server.http.asker import ANYBODY, Asker
from ledgerstone.server.http.route_rights import ROUTE_RIGHTS, RouteDenial, denial, rule_for
from ledgerstone.web.views import FRAGMENTS, LOGIN_ROUTES, ROUTES
from tests.kit.in_process import InProcess

HTTP = Path(api.__file__).parent
ANN = Principal("User", "ann")
# Answered by the door.
OF_LOGINS = ("POST /login", "POST /logout")


def routes_of_the_api() -> Iterator[str]:
    """From the source: each `case [...]` of the dispatcher and of the modules that it asks, with
    the methods of the dict that stands in it."""
    for path in sorted(HTTP.glob("*.py")):
        for match in ast.walk(ast.parse(path.read_text())):
            if not isinstance(match, ast.Match) or ast.unparse(match.subject) != "parts":
                continue
            for case in match.cases:
                if isinstance(case.pattern, ast.MatchSequence):
                    pattern = "/".join(map(_part, case.pattern.patterns))
                    for method in _methods(case):
                        yield f"{method} {api.PREFIX}{pattern}"


def _part(pattern: ast.pattern) -> str:
    if isinstance(pattern, ast.MatchAs):
        return f"{{{pattern.name}}}"
    assert isinstance(pattern, ast.MatchValue)
    assert isinstance(pattern.value, ast.Constant)
    return str(pattern.value.value)


def _methods(case: ast.match_case) -> list[str]:
    dicts = [node for each in case.body for node in ast.walk(each) if isinstance(node, ast.Dict)]
    keys = [key.value for key in dicts[0].keys if isinstance(key, ast.Constant)]
    assert keys
    return [str(each) for each in keys]


def every_route() -> set[str]:
    machine = InProcess()
    return {
        *routes_of_the_api(),
        *(f"{each.method} {each.pattern}" for each in (*ROUTES, *LOGIN_ROUTES)),
        *(f"FRAGMENT {name}" for name in FRAGMENTS),
        *(f"GET {path}" for path in monitor_routes.routes(machine.broker)),
        *OF_LOGINS,
    }


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    routes = every_route()

    assert len(routes) > 80
    assert routes - ROUTE_RIGHTS.keys() == set()
    assert ROUTE_RIGHTS.keys() - routes == set()


def test_a_rule_says_something() -> None:
    """A right, words, or that a login is enough, which few are."""
    silent = [
        route
        for route, rule in ROUTE_RIGHTS.items()
        if rule.operation is None and not rule.inside and not rule.is_open
    ]

    assert silent == ["POST /logout", "GET /api/v1/clock", "GET /api/v1/erasures-public-key"]


def filled(route: str) -> tuple[str, str]:
    method, _, pattern = route.partition(" ")
    return method, pattern.replace("{topic}", "tea").replace("{group}", "readers")


@pytest.mark.parametrize("route", ROUTE_RIGHTS)
def test_each_rule_is_found_by_its_path(route: str) -> None:
    found = rule_for(*filled(route))

    assert found is not None
    assert found.rule is ROUTE_RIGHTS[route]


WITH_RIGHTS = [route for route, rule in ROUTE_RIGHTS.items() if rule.operation is not None]


def asker(*acls: tuple[AclOperation, AclResourceType, str]) -> Asker:
    authorizer = Authorizer(super_users=["User:admin"])
    authorizer.follow(
        added=[Acl(kind, name, 3, str(ANN), "*", what, 3) for what, kind, name in acls]
    )
    return Asker(principal=ANN, rights=authorizer.rights_of(ANN, "10.0.0.1"))


def decided(route: str, who: Asker, topics: tuple[str, ...] = ("tea",)) -> RouteDenial | None:
    found = rule_for(*filled(route))
    assert found is not None
    parts = {"topic": "tea", **found.parts}
    return denial(found.rule, parts, who, topics.__contains__)


NAMES = {
    AclResourceType.TOPIC: "tea",
    AclResourceType.GROUP: "readers",
    AclResourceType.CLUSTER: "kafka-cluster",
}


@pytest.mark.parametrize("route", WITH_RIGHTS)
def test_exactly_the_right_that_is_written_down_lets_in(route: str) -> None:
    rule = ROUTE_RIGHTS[route]
    assert rule.operation is not None
    own = (rule.operation, rule.resource, NAMES[rule.resource])

    assert decided(route, asker(own)) is None
    assert decided(route, ANYBODY) is None
    for operation in AclOperation:
        gives = {rule.operation, AclOperation.ALL}
        if rule.operation is AclOperation.DESCRIBE:
            gives |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE}
            gives |= {AclOperation.ALTER}
        if rule.operation is AclOperation.DESCRIBE_CONFIGS:
            gives.add(AclOperation.ALTER_CONFIGS)
        if rule.or_node and rule.resource is AclResourceType.CLUSTER:
            gives.add(AclOperation.CLUSTER_ACTION)
        found = decided(route, asker((operation, *own[1:])))
        assert (found is None) is (operation in gives), (route, operation)


@pytest.mark.parametrize("route", [each for each in WITH_RIGHTS if "{topic}" in each])
def test_topic_that_may_not_be_described_is_one_that_is_not_there(route: str) -> None:
    rule = ROUTE_RIGHTS[route]
    assert rule.operation is not None
    may_all = asker((AclOperation.ALL, AclResourceType.TOPIC, "tea"))

    hidden = decided(route, asker())
    missing = decided(route, may_all, topics=())

    assert hidden == missing
    assert hidden is not None
    assert (hidden.status, hidden.reason) == (404, "there is no topic tea")


def test_nodes_ask_each_other_with_cluster_action() -> None:
    node = asker((AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, "kafka-cluster"))

    assert decided("GET /api/v1/lags", node) is None
    assert decided("GET /api/v1/topics/{topic}/anatomy", node) is None
    assert decided("GET /api/v1/damage", node) is not None


@pytest.mark.parametrize(
    "path", ["/api/v1/%74opics/tea/where", "/api/v1/topics//where", "/api/v1/nothing", "//topics"]
)
def test_other_spellings_have_no_rule(path: str) -> None:
    assert rule_for("POST", path) is None
