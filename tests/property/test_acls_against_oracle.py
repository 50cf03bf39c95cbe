"""The index of ACLs says what looking at every ACL says, whatever was added and removed before."""

import random

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.security.authorizer import Authorizer, Rights
from ledgerstone.security.principal import Principal
from tests.kit.acl_worlds import AclWorld, acl_world
from tests.kit.sized import examples
from tests.oracles.plain_acls import PlainAuthorizer

worlds = st.integers(0, 2**32).map(lambda seed: acl_world(random.Random(seed), 40))


def _authorizer(world: AclWorld) -> Authorizer:
    return Authorizer(super_users=world.super_users, allows_without_acls=world.allows_without_acls)


def _rights(authorizer: Authorizer, world: AclWorld) -> dict[tuple[str, str], Rights]:
    """Kept while ACLs change, as sessions keep theirs."""
    asking = dict.fromkeys((each.principal, each.host) for each in world.questions)
    return {
        (principal, host): authorizer.rights_of(Principal(*principal.split(":", 1)), host)
        for principal, host in asking
    }


def _check(world: AclWorld, rights: dict[tuple[str, str], Rights], plain: PlainAuthorizer) -> None:
    for each in world.questions:
        mine = rights[each.principal, each.host]
        assert mine.may(*each[2:]) == plain.may(*each), each
        assert mine.may_on_some(*each[2:4]) == plain.may_on_some(*each[:4]), each


@examples(150)
@given(world=worlds)
def test_index_says_what_all_acls_say(world: AclWorld) -> None:
    authorizer = _authorizer(world)
    rights = _rights(authorizer, world)

    authorizer.follow(added=world.acls)

    allows = world.allows_without_acls
    plain = PlainAuthorizer(world.acls, super_users=world.super_users, allows_without_acls=allows)
    _check(world, rights, plain)


@examples(60)
@given(world=worlds, seed=st.integers(0, 2**32))
def test_what_is_removed_leaves_the_rest_as_it_was(world: AclWorld, seed: int) -> None:
    authorizer, dice = _authorizer(world), random.Random(seed)
    rights = _rights(authorizer, world)
    authorizer.follow(added=world.acls)
    _check_asked(world, rights)
    gone = [acl for acl in world.acls if dice.random() < 0.5]

    authorizer.follow(removed=gone)

    left = [acl for acl in world.acls if acl not in gone]
    allows = world.allows_without_acls
    plain = PlainAuthorizer(left, super_users=world.super_users, allows_without_acls=allows)
    _check(world, rights, plain)
    authorizer.follow(removed=left)
    assert authorizer.index.is_empty


def _check_asked(world: AclWorld, rights: dict[tuple[str, str], Rights]) -> None:
    """So that there is something remembered that must be forgotten."""
    for each in world.questions:
        rights[each.principal, each.host].may(*each[2:])
