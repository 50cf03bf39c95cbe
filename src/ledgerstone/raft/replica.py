"""Names of things in a quorum: replicas, their listeners, positions in the log. Pure."""

from typing import Final, NamedTuple

from ledgerstone.uuid_text import ZERO_UUID

NO_NODE: Final = -1
# A directory id that is not known, as in a quorum of kraft.version 0.
NO_DIRECTORY: Final = ZERO_UUID


class ReplicaKey(NamedTuple):
    """A node and its directory. The same node with a new disk is another replica."""

    id: int
    directory_id: bytes = NO_DIRECTORY

    def __str__(self) -> str:
        return str(self.id) if self.directory_id == NO_DIRECTORY else f"{self.id}-{self.short}"

    @property
    def short(self) -> str:
        return self.directory_id.hex()[:6]

    def covers(self, other: "ReplicaKey") -> bool:
        """Whether a voter set entry with this key means `other`; an unknown directory is any."""
        return self.id == other.id and self.directory_id in (NO_DIRECTORY, other.directory_id)


class Listener(NamedTuple):
    name: str
    host: str
    port: int


class Peer(NamedTuple):
    """Where a request goes. Bootstrap servers, whose node is not known, have ids from -2 down."""

    id: int
    host: str
    port: int


class OffsetAndEpoch(NamedTuple):
    """The end of a log or a snapshot: the next offset, and the epoch of the record before it."""

    offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"

    def is_behind(self, other: "OffsetAndEpoch") -> bool:
        """Raft's order of logs: the epoch counts first."""
        return (self.epoch, self.offset) < (other.epoch, other.offset)


NO_SNAPSHOT: Final = OffsetAndEpoch(0, 0)


def peer_of(node_id: int, listeners: tuple[Listener, ...], name: str) -> Peer | None:
    for listener in listeners:
        if listener.name == name:
            return Peer(node_id, listener.host, listener.port)
    return None
