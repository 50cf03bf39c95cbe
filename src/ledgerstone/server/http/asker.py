"""Who asks over HTTP, and what they may. Pure.

Without an authorizer nobody is asked who they are, and everybody may do everything: `ANYBODY`.
"""

from collections.abc import Callable
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.security.acl import CLUSTER_NAME, AclOperation, AclResourceType
from ledgerstone.security.authorizer import Rights
from ledgerstone.security.principal import Principal

# Whoever has the token that the broker printed at its start.
LOCAL_ADMIN: Final = Principal("User", "local-admin")


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asker:
    """`principal` is None where nobody logged in; `rights` is None for who may do everything.
    `csrf` is what forms of this asker carry; empty for who cannot send any. `is_valid` says whether
    what let them in still counts, for answers that have no end."""

    principal: Principal | None = None
    host: str = ""
    rights: Rights | None = None
    csrf: str = field(default="", repr=False)
    has_session: bool = False
    is_valid: Callable[[], bool] = field(default=_always, repr=False)

    @property
    def is_known(self) -> bool:
        return self.principal is not None

    @property
    def shown_key(self) -> tuple[str, str] | None:
        """Askers with the same one are shown the same; None: everything."""
        if self.rights is None or self.rights.is_super:
            return None
        return str(self.rights.principal), self.host

    # -- rights -------------------------------------------------------------------------------

    def may(self, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        return self.rights is None or self.rights.may(operation, resource, name)

    def may_on_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_topic(self, operation: AclOperation, name: str) -> bool:
        return self.may(operation, AclResourceType.TOPIC, name)

    def may_on_group(self, operation: AclOperation, name: str) -> bool:
        return self.may(operation, AclResourceType.GROUP, name)

    def may_on_transactions_of(self, operation: AclOperation, name: str) -> bool:
        return self.may(operation, AclResourceType.TRANSACTIONAL_ID, name)

    def sees_topic(self, name: str) -> bool:
        return self.may_on_topic(AclOperation.DESCRIBE, name)

    def sees_group(self, name: str) -> bool:
        """As ListGroups: who may describe the cluster sees all of them."""
        return self.sees_cluster or self.may_on_group(AclOperation.DESCRIBE, name)

    def sees_transactions_of(self, name: str) -> bool:
        return self.may_on_transactions_of(AclOperation.DESCRIBE, name)

    @property
    def sees_cluster(self) -> bool:
        return self.may_on_cluster(AclOperation.DESCRIBE)

    # -- names --------------------------------------------------------------------------------

    def signed(self, text: str) -> str:
        """Who did it, for what is kept: who logged in cannot claim to be another. What they said
        of themselves is kept behind it."""
        if self.principal is None:
            return text
        name = str(self.principal)
        return name if text in ("", name, self.principal.name) else f"{name} for {text}"


ANYBODY: Final = Asker()
