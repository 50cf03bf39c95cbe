"""A broker that has caught up with the metadata opens its logs and begins to follow. Grade D.

Until then it hosts nothing, whatever the metadata say. Opening takes long after a crash, so it goes
on in steps: heartbeats and, where the node is a controller, the quorum are served in between.
"""

from collections.abc import Iterator

from ledgerstone.metadata.delta import difference
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.server.broker import Broker


def first_publish(broker: Broker) -> Iterator[None]:
    """One log a step. What changes meanwhile is applied at the end, in the last step."""
    link, partitions = broker.controller_link, broker.partitions
    opened = link.image
    yield from partitions.loading(opened)
    image = link.image
    partitions.apply(difference(opened, image), image)
    broker.cleaning.load()
    broker.directories.load()
    link.subscriber = broker.following
    broker.following.leadership()
    if broker.following.replicating is not None:
        broker.following.replicating.start()
    # For the agents everything is new, not only what changed while logs were opened.
    delta = difference(MetadataImage(cluster_id=image.cluster_id), image)
    broker.following.tell_agents(delta)
    broker.erasing_on_demand.load()
