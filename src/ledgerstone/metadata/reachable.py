"""What a client can reach of the cluster through its own listener. Pure.

A client is told addresses of the listener it came in on: another one may need another protocol, or
lie in another network. A broker without that listener does not exist for it.
"""

from ledgerstone.metadata.image import (
    NO_LEADER,
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.uuid_text import UUID_BYTES

# Replicas of a directory with one of these ids: not written down, not chosen yet, lost.
_MIGRATING, _UNASSIGNED, _LOST = (number.to_bytes(UUID_BYTES, "big") for number in range(3))


def endpoint_of(broker: BrokerImage, listener: str) -> Endpoint | None:
    return next((each for each in broker.endpoints if each.name == listener), None)


def live_brokers(image: MetadataImage, listener: str) -> list[tuple[BrokerImage, Endpoint]]:
    """Fenced brokers are left out."""
    return [
        (broker, endpoint)
        for broker in image.brokers.values()
        if not broker.fenced and (endpoint := endpoint_of(broker, listener)) is not None
    ]


def broker_for_admin(image: MetadataImage, own_id: int) -> int:
    """Whom clients take for the controller. Any live broker forwards to the real one, whose
    listeners clients do not know; this broker is as good as another."""
    if own_id in image.brokers and not image.brokers[own_id].fenced:
        return own_id
    return min((each.broker_id for each in image.brokers.values() if not each.fenced), default=-1)


def leader_and_error(
    image: MetadataImage, partition: PartitionImage, listener: str, *, names_listener: bool = True
) -> tuple[int, int]:
    """The leader a client may use, and why there is none. Clients that do not know
    LISTENER_NOT_FOUND take the leader for not available."""
    leader = image.brokers.get(partition.leader)
    if leader is None:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    if endpoint_of(leader, listener) is not None:
        return partition.leader, ErrorCode.NONE
    missing = ErrorCode.LISTENER_NOT_FOUND if names_listener else ErrorCode.LEADER_NOT_AVAILABLE
    return NO_LEADER, missing


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> list[int]:
    """Replicas on brokers that are fenced or unknown, or whose directory is gone."""
    return [
        broker_id
        for position, broker_id in enumerate(partition.replicas)
        if not _is_online(image, partition, position, broker_id, listener)
    ]


def _is_online(
    image: MetadataImage, partition: PartitionImage, position: int, broker_id: int, listener: str
) -> bool:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or endpoint_of(broker, listener) is None:
        return False
    if position >= len(partition.directories):
        return True
    directory = partition.directories[position]
    if directory in (_MIGRATING, _UNASSIGNED) or not broker.log_dirs:
        return True
    return directory != _LOST and directory in broker.log_dirs
