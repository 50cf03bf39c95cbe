"""Who may do what, by looking at every ACL each time. The oracle of `security.authorizer`."""

from collections.abc import Iterable, Sequence

from ledgerstone.security.acl import Acl, AclOperation, PatternType, PermissionType

_IMPLY_DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
)
_IMPLY_DESCRIBE_CONFIGS = (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS)


class PlainAuthorizer:
    def __init__(
        self, acls: Sequence[Acl], *, super_users: Iterable[str] = (), allows_without_acls: bool
    ) -> None:
        self.acls = acls
        self.super_users = set(super_users)
        self.allows_without_acls = allows_without_acls

    def may(self, principal: str, host: str, operation: int, kind: int, name: str) -> bool:
        if principal in self.super_users:
            return True
        about = [acl for acl in self.acls if acl.resource_type == kind and _covers(acl, name)]
        if not about:
            return self.allows_without_acls
        mine = [acl for acl in about if _is_for(acl, principal, host)]
        if any(_denies(acl, operation) for acl in mine):
            return False
        return any(_allows(acl, operation) for acl in mine)

    def may_on_some(self, principal: str, host: str, operation: int, kind: int) -> bool:
        if self.may(principal, host, operation, kind, "hardcode"):
            return True
        mine = [
            acl
            for acl in self.acls
            if acl.resource_type == kind
            and _is_for(acl, principal, host)
            and acl.operation in (operation, AclOperation.ALL)
        ]
        denies = [acl for acl in mine if acl.permission_type == PermissionType.DENY]
        allows = [acl for acl in mine if acl.permission_type == PermissionType.ALLOW]
        if any(_is_wildcard(acl) for acl in denies):
            return False
        if any(_is_wildcard(acl) for acl in allows):
            return True
        return any(not any(_takes_all_of(deny, allow) for deny in denies) for allow in allows)


def _is_wildcard(acl: Acl) -> bool:
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == "*"


def _takes_all_of(deny: Acl, allow: Acl) -> bool:
    if deny.pattern_type == PatternType.PREFIXED:
        return allow.resource_name.startswith(deny.resource_name)
    return deny[:3] == allow[:3]


def _covers(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def _is_for(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def _denies(acl: Acl, operation: int) -> bool:
    is_about = acl.operation in (operation, AclOperation.ALL)
    return acl.permission_type == PermissionType.DENY and is_about


def _allows(acl: Acl, operation: int) -> bool:
    if acl.permission_type != PermissionType.ALLOW:
        return False
    if acl.operation in (operation, AclOperation.ALL):
        return True
    if operation == AclOperation.DESCRIBE:
        return acl.operation in _IMPLY_DESCRIBE
    return operation == AclOperation.DESCRIBE_CONFIGS and acl.operation in _IMPLY_DESCRIBE_CONFIGS
