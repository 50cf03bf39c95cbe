"""What a replica needs to know at its start: its identity and its timeouts. Pure."""

from ledgerstone.dataclasses import dataclass
from ledgerstone.raft.replica import Listener, Peer, ReplicaKey, peer_of
from ledgerstone.raft.voters import DYNAMIC_VERSION, STATIC_VERSION, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    key: ReplicaKey
    cluster_id: str
    listeners: tuple[Listener, ...] = ()
    # The first of controller.listener.names: the one every replica uses.
    listener_name: str = "CONTROLLER"
    # A controller may become a voter, so it syncs like one. A broker is an observer for ever.
    is_controller: bool = True
    min_version: int = STATIC_VERSION
    max_version: int = DYNAMIC_VERSION

    @property
    def voter(self) -> Voter:
        """How this replica stands in a voter set."""
        return Voter(
            key=self.key,
            listeners=self.listeners,
            min_version=self.min_version,
            max_version=self.max_version,
        )

    @property
    def peer(self) -> Peer | None:
        return peer_of(self.key.id, self.listeners, self.listener_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Kafka's defaults. All of it is monotonic time."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    max_batch_bytes: int = 8 << 20
    # How often a replica that knows no leader asks a bootstrap server.
    # Differs from Kafka: it asks again as soon as an answer is there.
    discovery_interval_ms: int = 250
    auto_join: bool = False
    # Of snapshots. Negative: no limit.
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 86_400_000
    cleaning_interval_ms: int = 60_000
    observer_session_ms: int = 300_000
    # An observer that was silent for longer is not made a voter.
    caught_up_within_ms: int = 3_600_000

    @property
    def check_quorum_timeout_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        return self.fetch_timeout_ms // 2
