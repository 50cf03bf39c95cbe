"""An ACL: who may, or may not, do what to which resource from where. Pure.

The numbers are Kafka's, on the wire and in metadata records.
"""

import enum
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

WILDCARD: Final = "*"
# Every principal, whatever its kind.
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class AclResourceType(enum.IntEnum):
    """What an ACL protects. `ANY` stands in filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """`ANY` and `MATCH` stand in filters only: every pattern; every pattern that covers a name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(enum.IntEnum):
    """`ANY` stands in filters only; `ALL` is a right to everything."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(enum.IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule. Two with the same fields are the same rule. `host` is an address or `*`."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """Chooses ACLs; None and `ANY` match everything. Principal and host are compared as text."""

    resource_type: int = AclResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = PermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._covers(acl)
        )

    def _covers(self, acl: Acl) -> bool:
        name, wanted = self.resource_name, self.pattern_type
        if wanted in (PatternType.ANY, acl.pattern_type):
            return name is None or name == acl.resource_name
        if wanted != PatternType.MATCH:
            return False
        if name is None:
            return True
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)


# What an ALLOW gives beside the operation itself. A DENY takes nothing else.
_IMPLIED: Final[Mapping[int, int]] = {
    AclOperation.READ: 1 << AclOperation.DESCRIBE,
    AclOperation.WRITE: 1 << AclOperation.DESCRIBE,
    AclOperation.DELETE: 1 << AclOperation.DESCRIBE,
    AclOperation.ALTER: 1 << AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS: 1 << AclOperation.DESCRIBE_CONFIGS,
}
# What each type of resource can be asked for, besides ALL.
OPERATIONS_OF: Final[Mapping[AclResourceType, Sequence[AclOperation]]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (
        AclOperation.DESCRIBE,
        AclOperation.WRITE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
_EVERY_BIT: Final = -1


def bits_of(operation: int) -> int:
    """The operations that an ACL speaks of, as bits: bit 3 is READ."""
    if operation == AclOperation.ALL:
        return _EVERY_BIT
    return 1 << operation if operation > 0 else 0


def allowed_bits(operation: int) -> int:
    """The same for an ALLOW, with what it implies."""
    return bits_of(operation) | _IMPLIED.get(operation, 0)


def host_text(host: str) -> str:
    """An address in the one way we write it, so that `::1` and `0:0:0:0:0:0:0:1` are the same host,
    and an IPv4 client the same on a socket for both kinds. Anything else stays as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(address if mapped is None else mapped)
