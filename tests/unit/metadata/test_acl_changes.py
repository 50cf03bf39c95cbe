"""CreateAcls and DeleteAcls, as the controller decides them."""

from typing import Any

import pytest

from ledgerstone.metadata import acl_changes
from ledgerstone.protocol.messages.create_acls import CreateAclsCreation, CreateAclsRequest
from ledgerstone.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ledgerstone.security.acl import Acl, AclOperation, AclResourceType, PatternType, PermissionType
from tests.unit.metadata.cluster import Cluster

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
READ, WRITE = AclOperation.READ, AclOperation.WRITE
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
DENY, ALLOW = PermissionType.DENY, PermissionType.ALLOW
ANY = 1

SOUND = Acl(TOPIC, "t", LITERAL, "User:ann", "*", READ, ALLOW)


def _create(cluster: Cluster, *acls: Acl) -> list[int]:
    request = CreateAclsRequest([CreateAclsCreation(*each) for each in acls])
    return [each.error_code for each in cluster.ask(request).results]


def _delete(cluster: Cluster, *filters: DeleteAclsFilter) -> list[tuple[int, list[Acl]]]:
    answer = cluster.ask(DeleteAclsRequest(list(filters)))
    return [
        (each.error_code, [_acl(found) for found in each.matching_acls])
        for each in answer.filter_results
    ]


def _acl(found: Any) -> Acl:
    return Acl(*(getattr(found, name) for name in Acl._fields))


def _filter(**fields: Any) -> DeleteAclsFilter:
    wanted: dict[str, Any] = {
        "resource_type_filter": ANY,
        "pattern_type_filter": ANY,
        "operation": ANY,
        "permission_type": ANY,
    }
    return DeleteAclsFilter(**wanted | fields)


def test_acl_that_is_there_already_is_a_success_without_a_record() -> None:
    cluster = Cluster()
    codes = _create(cluster, SOUND, SOUND)
    before = len(cluster.log)

    again = _create(cluster, SOUND)

    assert (codes, again) == ([0, 0], [0])
    assert len(cluster.log) == before
    assert list(cluster.image.acls.values()) == [SOUND]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": ANY},
        {"resource_type": 8},
        {"pattern_type": ANY},
        {"pattern_type": PatternType.MATCH},
        {"pattern_type": 5},
        {"operation": ANY},
        {"operation": 16},
        {"permission_type": ANY},
        {"permission_type": 4},
        {"resource_name": ""},
        {"resource_type": CLUSTER},
        {"resource_type": CLUSTER, "resource_name": "*"},
        {"principal": "ann"},
        {"principal": ""},
        {"host": "host.example"},
        {"host": "10.0.0.0/8"},
        {"host": ""},
    ],
)
def test_acl_that_means_nothing_is_refused_and_the_others_are_made(wrong: dict[str, Any]) -> None:
    cluster = Cluster()

    codes = _create(cluster, SOUND._replace(**wrong), SOUND)

    assert codes == [42, 0]
    assert list(cluster.image.acls.values()) == [SOUND]


def test_names_of_resources_may_be_anything_else() -> None:
    cluster = Cluster()
    odd = [SOUND._replace(resource_name=name) for name in ("*", "no such topic!", "ü")]
    odd += [SOUND._replace(host=host) for host in ("10.0.0.1", "::1", "0:0:0:0:0:0:0:1")]
    odd += [SOUND._replace(principal=each) for each in ("User:*", "Group:x", "User:", "User:a:b")]

    assert _create(cluster, *odd) == [0] * len(odd)


def test_too_many_at_once_are_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "MAX_ACLS_PER_REQUEST", 2)
    cluster = Cluster()
    acls = [SOUND._replace(resource_name=name) for name in "abc"]

    codes = _create(cluster, *acls, SOUND._replace(principal="ann"))

    assert codes == [44, 44, 44, 42]
    assert cluster.image.acls == {}


def test_two_filters_report_the_same_acl_and_it_goes_once() -> None:
    cluster = Cluster()
    other = SOUND._replace(principal="User:bob")
    _create(cluster, SOUND, other)
    before = len(cluster.log)

    answers = _delete(
        cluster, _filter(principal_filter="User:ann"), _filter(resource_name_filter="t")
    )

    assert answers == [(0, [SOUND]), (0, [SOUND, other])]
    assert len(cluster.log) == before + 2
    assert cluster.image.acls == {}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"resource_name_filter": "tea", "pattern_type_filter": PatternType.MATCH}, "*,t,tea"),
        ({"resource_name_filter": "tea", "pattern_type_filter": LITERAL}, "tea"),
        ({"resource_name_filter": "t", "pattern_type_filter": PREFIXED}, "t"),
        ({"resource_name_filter": "t", "pattern_type_filter": ANY}, "t"),
        ({"pattern_type_filter": PREFIXED}, "t"),
        ({"pattern_type_filter": PatternType.MATCH}, "*,t,tea"),
        ({"host_filter": "10.0.0.1"}, "tea"),
        ({"operation": WRITE}, "tea"),
        ({"permission_type": DENY}, "*"),
        ({"resource_type_filter": GROUP}, ""),
        ({"principal_filter": "user:ann"}, ""),
    ],
)
def test_filter_removes_what_it_matches_and_nothing_else(
    wanted: dict[str, Any], found: str
) -> None:
    cluster = Cluster()
    acls = {
        "t": SOUND._replace(pattern_type=PREFIXED),
        "tea": SOUND._replace(resource_name="tea", host="10.0.0.1", operation=WRITE),
        "*": SOUND._replace(resource_name="*", permission_type=DENY),
    }
    _create(cluster, *acls.values())

    ((code, removed),) = _delete(cluster, _filter(**wanted))

    assert code == 0
    assert sorted(each.resource_name for each in removed) == [
        each for each in found.split(",") if each
    ]
    assert len(cluster.image.acls) == 3 - len(removed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type_filter": 9},
        {"pattern_type_filter": 9},
        {"operation": 99},
        {"permission_type": 9},
    ],
)
def test_filter_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    cluster = Cluster()
    _create(cluster, SOUND)

    answers = _delete(cluster, _filter(**wrong), _filter(resource_name_filter="u"))

    assert answers == [(42, []), (0, [])]
    assert len(cluster.image.acls) == 1


def test_too_many_are_not_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "MAX_ACLS_PER_REQUEST", 2)
    cluster = Cluster()
    for name in "abc":
        _create(cluster, SOUND._replace(resource_name=name))

    answers = _delete(cluster, _filter(resource_name_filter="a"), _filter())

    assert answers == [(42, []), (42, [])]
    assert len(cluster.image.acls) == 3


def test_an_acl_counts_for_each_filter_that_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request has room for sixty thousand filters that match everything."""
    monkeypatch.setattr(acl_changes, "MAX_ACLS_PER_REQUEST", 5)
    cluster = Cluster()
    for name in "ab":
        _create(cluster, SOUND._replace(resource_name=name))

    refused = _delete(cluster, _filter(), _filter(), _filter())
    kept = len(cluster.image.acls)
    answers = _delete(cluster, _filter(), _filter())

    assert refused == [(42, [])] * 3
    assert kept == 2
    assert [(code, len(found)) for code, found in answers] == [(0, 2), (0, 2)]
