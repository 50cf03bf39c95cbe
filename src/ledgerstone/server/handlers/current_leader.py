"""Who leads a partition instead, for answers that refuse it (KIP-951). Grade D, through the broker.

Clients go there without asking for metadata first. A leader that the client cannot reach through
its listener is named without an address.
"""

from typing import NamedTuple

from ledgerstone.metadata.image import NO_LEADER
from ledgerstone.metadata.reachable import endpoint_of
from ledgerstone.server.broker import Broker
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition


class LeaderAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class CurrentLeader(NamedTuple):
    leader_id: int
    leader_epoch: int
    address: LeaderAddress | None


def current_leader(broker: Broker, topic_partition: TopicPartition, listener: str) -> CurrentLeader:
    """As this broker acts on it, else as the metadata has it."""
    hosted = broker.partitions.find(topic_partition)
    state = broker.image.partition(*topic_partition)
    if hosted is not None:
        leader_id, leader_epoch = hosted.leader_id, hosted.leader_epoch
    elif state is not None:
        leader_id, leader_epoch = state.leader, state.leader_epoch
    else:
        leader_id, leader_epoch = NO_LEADER, NO_LEADER_EPOCH
    registered = broker.image.brokers.get(leader_id)
    endpoint = None
    if registered is not None and not registered.fenced:
        endpoint = endpoint_of(registered, listener)
    if registered is None or endpoint is None:
        return CurrentLeader(leader_id, leader_epoch, None)
    address = LeaderAddress(leader_id, endpoint.host, endpoint.port, registered.rack)
    return CurrentLeader(leader_id, leader_epoch, address)
