"""Builds the controller of a node, and the agent that runs it by the clock. Grade D."""

from collections.abc import Sequence

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.feature_updates import QuorumFacts
from ledgerstone.metadata.leader_passes import LeaderPasses
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.controlling.agent import Controlling
from ledgerstone.server.quorum.agent import QuorumAgent


def link_of(
    config: BrokerConfig,
    clock: Clock,
    dice: Dice,
    quorum: QuorumAgent,
    *,
    cluster_id: str,
    bootstrap: Sequence[MetadataRecord] | None,
) -> tuple[ControllerLink, Controller]:
    """Every node has a controller, and decides nothing unless it leads. `bootstrap`: what the
    cluster was formatted with; None: nobody has formatted this node."""
    cluster = config.cluster
    balances = cluster.auto_leader_rebalance_enable
    controller = Controller(
        cluster_id,
        config,
        dice,
        session_timeout_ms=cluster.broker_session_timeout_ms,
        disconnect_grace_ms=cluster.ledgerstone_broker_disconnect_grace_ms,
        passes=LeaderPasses(
            balance_ms=cluster.leader_imbalance_check_interval_seconds * 1000 if balances else None,
            unclean_ms=cluster.unclean_leader_election_interval_ms,
        ),
    )
    node = quorum.node
    controller.quorum = lambda: QuorumFacts(node.kraft_version, node.voters.ids)
    link = ControllerLink(quorum, controller, clock, bootstrap)
    link.upgrade_quorum = quorum.upgrade
    return link, controller


def controlling_of(
    config: BrokerConfig, clock: Clock, quorum: QuorumAgent, link: ControllerLink
) -> Controlling:
    own = {config.node_id}

    def is_alone() -> bool:
        return set(quorum.node.voters.ids) <= own and link.image.brokers.keys() <= own

    return Controlling(
        link,
        clock,
        idle_interval_ms=config.cluster.metadata_max_idle_interval_ms,
        is_alone=is_alone,
    )
