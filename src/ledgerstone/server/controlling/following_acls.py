"""What a broker of a cluster follows before it has opened its logs: ACLs alone. Grade D.

It is asked from the first moment on, as a controller at the latest. ACLs that were committed before
this node came up count as much as later ones: one that denies must not be forgotten by a restart.
"""

from ledgerstone.metadata.replay import Replayed
from ledgerstone.security.authorizer import Authorizer


class FollowsAcls:
    """`MetadataSubscriber`. The authorizer has the ACLs of the image at which this begins."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def metadata_committed(self, applied: Replayed) -> None:
        delta = applied.delta
        self._authorizer.follow(removed=delta.acls_removed, added=delta.acls_added)

    def metadata_refused(self, error: Exception) -> None:
        """Whoever follows next is told again."""
