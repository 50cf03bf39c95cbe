"""Makes a broker a member of a cluster: what it asks of others, what it does for them. Grade D."""

from collections.abc import Sequence

from ledgerstone.config.listeners import Listener
from ledgerstone.server.broker import Broker
from ledgerstone.server.broker_life.joining import ClusterMembership, membership_of
from ledgerstone.server.controlling.composition import controlling_of
from ledgerstone.server.controlling.following_acls import FollowsAcls
from ledgerstone.server.login.own import own_login
from ledgerstone.server.replicating.agent import PURPOSE
from ledgerstone.server.tombstones.cluster_offsets import ClusterOffsets
from ledgerstone.server.transactions.routing import route_transactions


def join_cluster(broker: Broker, advertised: Sequence[Listener], offsets: ClusterOffsets) -> None:
    """Before the runtime starts. Nothing is hosted before the first publish of the metadata."""
    config, link, quorum = broker.config, broker.controller_link, broker.quorum
    if config.cluster.is_controller:
        broker.agents.add(controlling_of(config, broker.clock, quorum, link))
    membership = membership_of(
        config,
        clock=broker.clock,
        dice=broker.dice,
        log_dirs=broker.log_dirs,
        advertised=advertised,
        partitions=broker.partitions,
        leader=lambda: quorum.leader,
        ask=link.ask,
        image=lambda: link.image,
        applied_offset=lambda: quorum.committed_offset,
    )
    if not config.cluster.is_broker:
        # It has no logs to open but the metadata's, which is open.
        for each in broker.log_dirs.everything:
            each.note_start()
    broker.membership = membership
    _add_agents(broker, membership, offsets)
    link.forwarder = membership.forwarding
    if membership.life is not None:
        authorizer = broker.authorizer
        link.subscriber = None if authorizer is None else FollowsAcls(authorizer)
        broker.directories.life = membership.life
        broker.agents.add(broker.isr)
        broker.isr.start()
    if membership.replicating is not None:
        membership.replicating.turn = broker
        for calls in membership.calls:
            if calls.purpose.startswith(PURPOSE):
                concerned = (calls, membership.replicating, broker.directories)
                broker.agents.concerned_by[calls.purpose] = concerned
        broker.following.replicating = membership.replicating
        broker.cleaning.on_cleaned = membership.replicating.report_changed


def _add_agents(broker: Broker, membership: ClusterMembership, offsets: ClusterOffsets) -> None:
    for calls in (broker.quorum.calls, *membership.calls):
        calls.make_login = own_login(broker.config, calls.listener, broker.dice)
    for calls in membership.calls:
        calls.turn = broker
        broker.agents.add_dialling(calls.purpose, calls)
    # After those they ask, so that a request leaves in the same tick.
    agents = (
        membership.life,
        membership.registering,
        membership.forwarding,
        membership.replicating,
    )
    for agent in agents:
        if agent is not None:
            broker.agents.add(agent)
    if membership.coordinators is not None:
        broker.agents.all += route_transactions(
            config=broker.config,
            image=lambda: broker.image,
            markers=broker.markers,
            transactions=broker.transactions,
            verification=broker.verification,
            marker_calls=membership.coordinators.markers,
            verification_calls=membership.coordinators.verification,
        )
        offsets.listener = broker.config.cluster.inter_broker_listener_name
        offsets.calls = membership.coordinators.offsets
        offsets.wanted = broker.cleaning.compacted_topics
        offsets.on_learned = broker.cleaning.offsets_learned
        broker.agents.add(offsets)
    if membership.erasures is not None:
        broker.erasing.others.links = membership.erasures
    if membership.audit is not None and broker.auditor is not None:
        assert broker.auditor.feed is not None
        broker.auditor.feed.others.links = membership.audit
