"""What a client can reach of the cluster through its own listener. Pure.

A client is told addresses of the listener it came in on: another one may need another protocol, or
lie in another network. A broker without that listener does not exist for it.
"""

from collections.abc import Container

from ledgerstone.metadata.image import (
    LOST,
    MIGRATING,
    NO_LEADER,
    UNASSIGNED,
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
)
from ledgerstone.protocol.error_codes import ErrorCode


def endpoint_of(broker: BrokerImage, listener: str) -> Endpoint | None:
    return next((each for each in broker.endpoints if each.name == listener), None)


def live_brokers(image: MetadataImage, listener: str) -> list[tuple[BrokerImage, Endpoint]]:
    """Fenced brokers are left out."""
    return [
        (broker, endpoint)
        for broker in image.brokers.values()
        if not broker.fenced and (endpoint := endpoint_of(broker, listener)) is not None
    ]


def broker_for_admin(image: MetadataImage, listener: str, *preferred: int) -> int:
    """Whom clients take for the controller. Any live broker forwards to the real one, but learns
    later than that what it has changed there: a client that creates a topic and then asks the same
    broker for it would find none. So the active controller comes first, where it is a broker."""
    live = [each.broker_id for each, _ in live_brokers(image, listener)]
    return next((each for each in preferred if each in live), min(live, default=-1))


class PartitionView:
    """Partitions as a client of one listener sees them. Made once for an answer, which may have
    thousands."""

    __slots__ = ("_image", "_names_listener", "_offline", "_online", "_reachable")

    def __init__(self, image: MetadataImage, listener: str, *, names_listener: bool = True) -> None:
        """`names_listener`: clients that do not know LISTENER_NOT_FOUND take the leader for not
        available."""
        self._image = image
        self._names_listener = names_listener
        self._reachable = {
            each.broker_id: each
            for each in image.brokers.values()
            if endpoint_of(each, listener) is not None
        }
        self._online = {
            number: _online_directories(each)
            for number, each in self._reachable.items()
            if not each.fenced
        }
        # By where the replicas are: many partitions share the few placements of a small cluster.
        self._offline: dict[tuple[tuple[int, ...], tuple[bytes, ...]], list[int]] = {}

    def leader_and_error(self, partition: PartitionImage) -> tuple[int, int]:
        """The leader a client may use, and why there is none."""
        leader = partition.leader
        if leader in self._reachable:
            return leader, ErrorCode.NONE
        if leader in self._image.brokers and self._names_listener:
            return NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        """Replicas on brokers that are fenced or unknown, or whose directory is gone. Partitions
        share the list."""
        placement = partition.replicas, partition.directories
        offline = self._offline.get(placement)
        if offline is None:
            offline = self._offline[placement] = self._count_offline(*placement)
        return offline

    def _count_offline(
        self, replicas: tuple[int, ...], directories: tuple[bytes, ...]
    ) -> list[int]:
        online = self._online
        if len(directories) != len(replicas):
            return [each for each in replicas if each not in online]
        return [
            broker_id
            for broker_id, directory in zip(replicas, directories, strict=True)
            if directory not in online.get(broker_id, ())
        ]


def _online_directories(broker: BrokerImage) -> Container[bytes]:
    """Those that `BrokerImage.has_online` is true for."""
    if not broker.log_dirs:
        return _AllButLost()
    return frozenset((MIGRATING, UNASSIGNED, *broker.log_dirs)) - {LOST}


class _AllButLost:
    """Of a broker that names no directories."""

    def __contains__(self, directory: object) -> bool:
        return directory != LOST
