"""The states of a replica but for the leader's, each with what it alone knows. Pure.

Who becomes what, and when, is the table in README.md; `quorum` makes the moves.
"""

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import InvariantViolation
from ledgerstone.raft.ballots import Ballots
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import OffsetAndEpoch, Peer, ReplicaKey


@dataclass(slots=True, kw_only=True)
class Unattached:
    """Follows no leader. It may know the leader's id, but then it does not know where it is."""

    epoch: int
    leader_id: int | None = None
    voted: ReplicaKey | None = None
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Prospective:
    """Asks whether it would be elected, without disturbing the epoch. KIP-996."""

    epoch: int
    leader: Peer | None = None
    leader_id: int | None = None
    voted: ReplicaKey | None = None
    ballots: Ballots
    election_deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Candidate:
    epoch: int
    voted: ReplicaKey
    ballots: Ballots
    election_deadline_ms: int

    @property
    def leader_id(self) -> None:
        return None


@dataclass(slots=True)
class Download:
    """A snapshot on its way. `is_complete`: all of it is here, and is being made durable."""

    snapshot_id: OffsetAndEpoch
    position: int = 0
    is_complete: bool = False


@dataclass(slots=True, kw_only=True)
class Follower:
    epoch: int
    leader: Peer
    voted: ReplicaKey | None = None
    # Only a successful answer moves it.
    fetch_deadline_ms: int
    # Once true, this replica refuses pre-votes: it has a leader that works.
    has_fetched: bool = False
    download: Download | None = None
    # When to look again whether the voter set knows this replica as it is.
    next_update_ms: int = 0
    # With kraft.version 0 each leader wants to hear once which versions a voter supports.
    has_updated: bool = False

    @property
    def leader_id(self) -> int:
        return self.leader.id


@dataclass(slots=True, kw_only=True)
class Resigned:
    """Led this epoch and gave it up. It tells voters until they know; it never leads it again."""

    epoch: int
    leader_id: int
    voted: ReplicaKey | None = None
    # Voters that have not acknowledged the end of the epoch.
    untold: dict[int, None] = field(default_factory=dict)
    successors: tuple[ReplicaKey, ...] = ()
    election_deadline_ms: int


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned


def check_move(before: Role, after: Role) -> None:
    """What no move may do, whatever asked for it."""
    if after.epoch < before.epoch:
        raise InvariantViolation(f"epoch falls: {before} to {after}")
    if after.epoch > before.epoch:
        return
    if before.voted is not None and after.voted != before.voted:
        raise InvariantViolation(f"a second vote in epoch {after.epoch}: {before} to {after}")
    known = before.leader_id
    if known is not None and after.leader_id is not None and after.leader_id != known:
        raise InvariantViolation(f"two leaders of epoch {after.epoch}: {before} to {after}")
