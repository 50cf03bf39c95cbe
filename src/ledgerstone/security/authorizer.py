"""Who may do what: the rules of Kafka's StandardAuthorizer. Pure. Rules in README.md."""

from collections.abc import Iterable
from typing import Final
from weakref import WeakValueDictionary

from ledgerstone.security.acl import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    bits_of,
    host_text,
)
from ledgerstone.security.acl_index import AclIndex
from ledgerstone.security.principal import Principal

# Answers that are remembered of a principal and a host. Who asks for more names starts over.
_MOST_REMEMBERED: Final = 4096
# Names of topics end here. Longer ones are looked up each time: a stranger chooses them, and 4096
# of the longest would be 128 MiB for one connection.
_LONGEST_REMEMBERED: Final = 249
# Any name does; Kafka asks for this one.
_SOME_NAME: Final = "hardcode"
# Bound once: asking an enum for a member costs as much as a function call.
_TOPIC: Final = int(AclResourceType.TOPIC)

# What there is to be allowed on each type of resource, as the bits that answers show.
OPERATION_BITS: Final = {
    resource: sum(1 << operation for operation in operations)
    for resource, operations in OPERATIONS_OF.items()
}


class Authorizer:
    """The ACLs of the cluster, and the settings of this node."""

    __slots__ = ("_rights", "allows_without_acls", "guarded_topics", "index", "super_users")

    def __init__(
        self,
        *,
        super_users: Iterable[str] = (),
        allows_without_acls: bool = False,
        guarded_topics: Iterable[str] = (),
    ) -> None:
        """`guarded_topics`: nothing is allowed on them but by an ACL for that very name."""
        self.index = AclIndex()
        self.guarded_topics = frozenset(guarded_topics)
        self.super_users = frozenset(super_users)
        self.allows_without_acls = allows_without_acls
        # What connections remember: each principal and host once, as long as one of them is there.
        self._rights: WeakValueDictionary[tuple[Principal, str], Rights] = WeakValueDictionary()

    def follow(self, *, removed: Iterable[Acl] = (), added: Iterable[Acl] = ()) -> None:
        for acl in removed:
            self.index.remove(acl)
        for acl in added:
            self.index.add(acl)

    def rights_of(self, principal: Principal, host: str) -> "Rights":
        """Shared by all connections of a principal from a host: what each of them remembers may be
        two megabytes, and strangers have many."""
        found = self._rights.get((principal, host))
        if found is None:
            found = self._rights[principal, host] = Rights(self, principal, host)
        return found


class Rights:
    """What one principal may do from one host. Remembers what it was asked until an ACL changes."""

    __slots__ = (
        "__weakref__",
        "_allowed",
        "_authorizer",
        "_epoch",
        "_host",
        "_name",
        "_topics",
        "is_super",
        "principal",
    )

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str) -> None:
        self.principal = principal
        self._authorizer = authorizer
        self._name = str(principal)
        self._host = host_text(host)
        self.is_super = self._name in authorizer.super_users
        self._epoch = authorizer.index.epoch
        # Bits of what is allowed, by type and name.
        self._allowed: dict[tuple[int, str], int] = {}
        # The same of topics, by name alone: every Produce and Fetch asks.
        self._topics: dict[str, int] = {}

    def may(self, operation: int, resource_type: int, name: str) -> bool:
        return bool(self.bits(resource_type, name) >> operation & 1)

    def may_on_cluster(self, operation: int) -> bool:
        return self.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_topic(self, operation: int, name: str) -> bool:
        known = self._topics.get(name)
        if known is None or self._epoch != self._authorizer.index.epoch:
            known = self.bits(_TOPIC, name)
            if len(name) <= _LONGEST_REMEMBERED:
                self._topics[name] = known
        return known >> operation & 1 == 1

    def shown_bits(self, resource_type: AclResourceType, name: str) -> int:
        """What answers say of the operations that are allowed on a resource."""
        return self.bits(resource_type, name) & OPERATION_BITS[resource_type]

    def bits(self, resource_type: int, name: str) -> int:
        """Every operation that is allowed on a resource; bit 3 is READ."""
        index = self._authorizer.index
        if self._epoch != index.epoch:
            self._forget()
            self._epoch = index.epoch
        remembered = self._allowed.get((resource_type, name))
        if remembered is not None:
            return remembered
        if len(name) > _LONGEST_REMEMBERED:
            return self._find(resource_type, name)
        if len(self._allowed) >= _MOST_REMEMBERED:
            self._forget()
        found = self._allowed[resource_type, name] = self._find(resource_type, name)
        return found

    def _forget(self) -> None:
        self._allowed.clear()
        self._topics.clear()

    def _find(self, resource_type: int, name: str) -> int:
        if self.is_super:
            return bits_of(AclOperation.ALL)
        index = self._authorizer.index
        allowed, denied = index.bits_for(self._name, self._host, resource_type, name)
        if resource_type == AclResourceType.TOPIC and name in self._authorizer.guarded_topics:
            return index.named_bits_for(self._name, self._host, resource_type, name) & ~denied
        if self._authorizer.allows_without_acls and not index.has_acls_on(resource_type, name):
            return bits_of(AclOperation.ALL)
        return allowed & ~denied

    def may_on_some(self, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of the type, under whatever name, that the operation is
        allowed on. Implied operations do not count, as in Kafka."""
        if self.may(operation, resource_type, _SOME_NAME):
            return True
        allowed: dict[tuple[int, str], None] = {}
        denied: set[tuple[int, str]] = set()
        acls = self._authorizer.index.acls_of(self._name, self._host, resource_type)
        for acl in acls:
            if acl.operation not in (operation, AclOperation.ALL):
                continue
            pattern = (acl.pattern_type, acl.resource_name)
            if acl.permission_type == PermissionType.ALLOW:
                allowed[pattern] = None
            else:
                denied.add(pattern)
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied or everything in allowed:
            return everything not in denied
        return any(not _is_covered(*pattern, denied) for pattern in allowed)


def _is_covered(pattern_type: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Whether nothing is left of what a pattern allows."""
    if pattern_type == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
