"""On a cluster, leaders of partitions and coordinators of transactions may be other brokers.

Grade D. A single node has none of this: it asks its own parts directly.
"""

from collections.abc import Callable

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.server.agent import Agent
from ledgerstone.server.controller_channel import AsksNodes
from ledgerstone.server.markers import PartitionMarkers
from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.server.transactions.coordinator_routes import CoordinatorRoutes
from ledgerstone.server.transactions.marker_routes import MarkerRoutes
from ledgerstone.server.verification import TxnVerification


def route_transactions(
    *,
    config: BrokerConfig,
    image: Callable[[], MetadataImage],
    markers: PartitionMarkers,
    transactions: Transactions,
    verification: TxnVerification,
    marker_calls: AsksNodes,
    verification_calls: AsksNodes,
) -> list[Agent]:
    """The agents that carry markers and questions from now on."""
    listener = config.cluster.inter_broker_listener_name
    marker_routes = transactions.settling.markers = MarkerRoutes(
        node_id=config.node_id, listener=listener, image=image, here=markers, calls=marker_calls
    )
    coordinator_routes = verification.coordinator = CoordinatorRoutes(
        node_id=config.node_id,
        listener=listener,
        image=image,
        topic=transactions.topic,
        here=transactions,
        calls=verification_calls,
    )
    return [marker_routes, coordinator_routes]
