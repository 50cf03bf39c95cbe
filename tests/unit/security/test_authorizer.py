"""The rules of README.md, one by one; tests/property compares them with a plain oracle."""

import tracemalloc

import pytest

from ledgerstone.security.acl import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from ledgerstone.security.authorizer import Authorizer, Rights
from ledgerstone.security.principal import Principal

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
DENY, ALLOW = PermissionType.DENY, PermissionType.ALLOW
ANN = Principal("User", "ann")


def _acl(
    name: str = "t",
    operation: int = READ,
    permission: int = ALLOW,
    *,
    pattern: int = LITERAL,
    host: str = "*",
    principal: str = "User:ann",
) -> Acl:
    return Acl(TOPIC, name, pattern, principal, host, operation, permission)


def _rights(*acls: Acl, host: str = "10.0.0.1", allows_without_acls: bool = False) -> Rights:
    authorizer = Authorizer(super_users=["User:root"], allows_without_acls=allows_without_acls)
    authorizer.follow(added=acls)
    return authorizer.rights_of(ANN, host)


def test_nothing_is_allowed_without_an_acl() -> None:
    assert not _rights().may(READ, TOPIC, "t")


def test_prefix_literal_and_wildcard_meet_on_a_name() -> None:
    rights = _rights(
        _acl("te", pattern=PREFIXED), _acl("tea", WRITE), _acl("*", AclOperation.DELETE)
    )

    assert rights.may(READ, TOPIC, "tea")
    assert rights.may(WRITE, TOPIC, "tea")
    assert rights.may(AclOperation.DELETE, TOPIC, "other")
    assert not rights.may(WRITE, TOPIC, "te")
    assert not rights.may(READ, TOPIC, "t")


def test_one_denial_wins_over_every_permission() -> None:
    rights = _rights(_acl(), _acl("*", AclOperation.ALL), _acl("t", READ, DENY, pattern=PREFIXED))

    assert not rights.may(READ, TOPIC, "tt")
    assert rights.may(WRITE, TOPIC, "tt")


def test_permission_implies_describe_and_a_denial_does_not() -> None:
    allowed = _rights(_acl("t", WRITE))
    denied = _rights(_acl("t", DESCRIBE), _acl("t", WRITE, DENY))

    assert allowed.may(DESCRIBE, TOPIC, "t")
    assert not allowed.may(AclOperation.DESCRIBE_CONFIGS, TOPIC, "t")
    assert denied.may(DESCRIBE, TOPIC, "t")


def test_removing_one_of_two_acls_for_a_right_leaves_the_right() -> None:
    authorizer = Authorizer()
    authorizer.follow(added=[_acl(), _acl("t", AclOperation.ALL)])
    rights = authorizer.rights_of(ANN, "10.0.0.1")
    assert rights.may(READ, TOPIC, "t")

    authorizer.follow(removed=[_acl()])
    stays = rights.may(READ, TOPIC, "t")
    authorizer.follow(removed=[_acl("t", AclOperation.ALL)])

    assert stays
    assert not rights.may(READ, TOPIC, "t")


def test_super_user_is_denied_nothing() -> None:
    authorizer = Authorizer(super_users=["User:ann"])
    authorizer.follow(added=[_acl("*", AclOperation.ALL, DENY, principal="User:*")])

    assert authorizer.rights_of(ANN, "10.0.0.1").may(WRITE, TOPIC, "t")
    assert not authorizer.rights_of(Principal("User", "Ann"), "10.0.0.1").may(WRITE, TOPIC, "t")


def test_open_where_no_acl_is_found_closes_with_anybodys_acl() -> None:
    before = _rights(allows_without_acls=True)
    after = _rights(_acl("t", principal="User:bob", host="10.9.9.9"), allows_without_acls=True)

    assert before.may(WRITE, TOPIC, "t")
    assert not after.may(READ, TOPIC, "t")
    assert after.may(READ, TOPIC, "u")


@pytest.mark.parametrize(
    ("written", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("fe80::1", "fe80::1%eth0"),
        ("*", "anything"),
    ],
)
def test_host_is_the_same_however_it_is_written(written: str, client: str) -> None:
    assert _rights(_acl(host=written), host=client).may(READ, TOPIC, "t")
    assert not _rights(_acl(host="10.0.0.2"), host=client).may(READ, TOPIC, "t")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([_acl("t", WRITE)], True),
        ([_acl("t", WRITE), _acl("t", WRITE, DENY)], False),
        ([_acl("te", WRITE, pattern=PREFIXED), _acl("t", WRITE, DENY, pattern=PREFIXED)], False),
        ([_acl("t", WRITE, pattern=PREFIXED), _acl("te", WRITE, DENY, pattern=PREFIXED)], True),
        ([_acl("*", WRITE), _acl("t", AclOperation.ALL, DENY)], True),
        ([_acl("t", WRITE), _acl("*", WRITE, DENY)], False),
        ([_acl("t", AclOperation.ALL)], True),
        ([_acl("t", READ)], False),
    ],
)
def test_right_on_some_topic(acls: list[Acl], expected: bool) -> None:
    assert _rights(*acls).may_on_some(WRITE, TOPIC) is expected


def test_operations_are_shown_as_kafkas_bits() -> None:
    everything = _rights(_acl("t", AclOperation.ALL))

    assert everything.shown_bits(TOPIC, "t") == 3576
    assert _rights(_acl()).shown_bits(TOPIC, "t") == (1 << READ | 1 << DESCRIBE)


def test_session_that_asks_for_many_names_does_not_grow_for_ever() -> None:
    rights = _rights(_acl("t", pattern=PREFIXED))

    answers = [rights.may(READ, TOPIC, f"t{number}") for number in range(10_000)]

    assert all(answers)
    assert len(rights._allowed) <= 4096


def test_session_does_not_keep_long_names_that_strangers_chose() -> None:
    rights = Authorizer().rights_of(Principal("User", "mallory"), "10.0.0.1")

    for number in range(64):
        assert not rights.may(AclOperation.DESCRIBE, AclResourceType.GROUP, f"{number:032767}")

    assert sum(len(name) for _, name in rights._allowed) == 0


def test_codes_of_a_later_release_give_no_right() -> None:
    odd = Acl(TOPIC, "t", LITERAL, "User:ann", "*", -3, ALLOW)

    assert not _rights(odd).may(READ, TOPIC, "t")
    assert not AclFilter(resource_type=99).matches(odd)


def test_names_that_a_stranger_makes_up_are_not_remembered_without_end() -> None:
    rights = _rights(_acl())
    tracemalloc.start()

    for number in range(6000):
        assert not rights.may_on_topic(READ, f"{number}{'x' * 1000}")
        assert not rights.may_on_topic(READ, f"t{number}")
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held_bytes < 2 << 20
    assert rights.may_on_topic(READ, "t")
