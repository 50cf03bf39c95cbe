"""The image of what is committed, and the part of the node that follows it. Grade D.

Every node has one, whether it leads or not. Until something follows, at a start, records are
gathered and applied many at a time: nothing looks at what each batch has changed.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.delta import difference
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.replay import Replayed, apply
from ledgerstone.metadata.snapshot import snapshot_records
from ledgerstone.protocol.message import MetadataRecord

# Records that are applied at once while nothing follows.
_CATCH_UP_RECORDS: Final = 10_000


class MetadataSubscriber(Protocol):
    """Follows the metadata: hears of every committed batch, in order."""

    def metadata_committed(self, applied: Replayed) -> None: ...

    def metadata_refused(self, error: Exception) -> None:
        """The log took no more records."""


class CommittedImage:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._subscriber: MetadataSubscriber | None = None
        # Committed records that are not in the image yet.
        self._unapplied: list[MetadataRecord] = []

    @property
    def image(self) -> MetadataImage:
        if self._unapplied:
            self._catch_up()
        return self._controller.committed

    @property
    def subscriber(self) -> MetadataSubscriber | None:
        return self._subscriber

    @subscriber.setter
    def subscriber(self, subscriber: MetadataSubscriber | None) -> None:
        """It has read `image`, and hears of every change from here on."""
        if self._unapplied:
            self._catch_up()
        self._subscriber = subscriber

    def load(self, records: Iterator[MetadataRecord]) -> None:
        """Starts over from a snapshot."""
        self._unapplied.clear()
        before = self._controller.committed
        image = apply(MetadataImage(cluster_id=before.cluster_id), records).image
        self.consume(Replayed(image, difference(before, image)))

    def follow(self, records: list[MetadataRecord]) -> None:
        """Records of another leader, or of an earlier life of this one."""
        self._unapplied += records
        if self._subscriber is not None or len(self._unapplied) >= _CATCH_UP_RECORDS:
            self._catch_up()

    def committed_to(self, applied: Replayed) -> None:
        """Records that were decided here: what they do is known."""
        self._controller.committed_to(applied)
        self._publish(applied)

    def refused(self, error: Exception) -> None:
        if self._subscriber is not None:
            self._subscriber.metadata_refused(error)

    def snapshot(self) -> Iterable[MetadataRecord] | None:
        """None inside a metadata transaction."""
        image = self.image
        return None if image.open_transaction is not None else snapshot_records(image)

    def _catch_up(self) -> None:
        records, self._unapplied = self._unapplied, []
        self.consume(apply(self._controller.committed, records))

    def consume(self, applied: Replayed) -> None:
        """What committed records have made of the image, whoever has replayed them."""
        self._controller.decided_on(applied)
        self.committed_to(applied)

    def _publish(self, applied: Replayed) -> None:
        if self._subscriber is not None:
            self._subscriber.metadata_committed(applied)
