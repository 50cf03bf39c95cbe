"""ACLs as people ask for them: by resources, principals, hosts and operations, as kafka-acls does.
Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.security.acl import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)

Operations = Mapping[AclResourceType, Sequence[AclOperation]]

PRODUCER: Final[Operations] = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
CONSUMER: Final[Operations] = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}
IDEMPOTENT: Final[Operations] = {AclResourceType.CLUSTER: (AclOperation.IDEMPOTENT_WRITE,)}


class AclResource(NamedTuple):
    resource_type: AclResourceType
    name: str


CLUSTER: Final = AclResource(AclResourceType.CLUSTER, CLUSTER_NAME)


class AclWish(NamedTuple):
    """Who is allowed or denied, from where. Without hosts: from everywhere."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()

    def rules(self) -> list[tuple[str, str, PermissionType]]:
        return [
            (principal, host, permission)
            for principals, hosts, permission in (
                (self.allowed, self.allowed_hosts, PermissionType.ALLOW),
                (self.denied, self.denied_hosts, PermissionType.DENY),
            )
            for principal in principals
            for host in hosts or (WILDCARD,)
        ]


def operations_on(
    resources: Iterable[AclResource], operations: Sequence[AclOperation]
) -> dict[AclResource, Sequence[AclOperation]]:
    """ValueError for an operation that means nothing on a resource."""
    found: dict[AclResource, Sequence[AclOperation]] = {}
    for resource in resources:
        possible = (*OPERATIONS_OF[resource.resource_type], AclOperation.ALL)
        for each in operations:
            if each not in possible:
                kind = resource.resource_type.name
                raise ValueError(f"{each.name} means nothing on a {kind}")
        found[resource] = operations
    return found


def acls_for(
    wish: AclWish, wanted: Mapping[AclResource, Sequence[AclOperation]], pattern: PatternType
) -> list[Acl]:
    acls = [
        Acl(
            resource.resource_type,
            resource.name,
            # There is one cluster.
            PatternType.LITERAL if resource == CLUSTER else pattern,
            principal,
            host,
            operation,
            permission,
        )
        for resource, operations in wanted.items()
        for principal, host, permission in wish.rules()
        for operation in operations
    ]
    return list(dict.fromkeys(acls))


def filters_for(resources: Iterable[AclResource], pattern: PatternType) -> list[AclFilter]:
    """Everything about the resources; about all of them if none is named."""
    found = [
        AclFilter(
            resource.resource_type,
            resource.name,
            PatternType.ANY if resource == CLUSTER else pattern,
        )
        for resource in resources
    ]
    return found or [AclFilter()]
