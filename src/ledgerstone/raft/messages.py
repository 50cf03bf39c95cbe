"""What replicas say to each other, as plain values. Pure.

One partition, one topic, one replica: everything Kafka's messages carry beyond that belongs to
`wire`, which translates. Error codes are Kafka's.
"""

from typing import NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft.replica import NO_NODE, Listener, OffsetAndEpoch, Peer, ReplicaKey
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.types import INT64_MAX, NO_OFFSET


class Vote(NamedTuple):
    cluster_id: str | None
    # Whom the request is for; a receiver with another key refuses.
    voter: ReplicaKey
    candidate: ReplicaKey
    # A pre-vote carries the candidate's present epoch, a vote the one it wants to lead.
    epoch: int
    log_end: OffsetAndEpoch
    is_pre_vote: bool


class BeginEpoch(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey
    leader_id: int
    epoch: int
    leader_listeners: tuple[Listener, ...] = ()


class EndEpoch(NamedTuple):
    cluster_id: str | None
    leader_id: int
    epoch: int
    # Voters without the leader, the one with the longest log first.
    successors: tuple[ReplicaKey, ...]
    leader_listeners: tuple[Listener, ...] = ()


class Fetch(NamedTuple):
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    # `offset` is also the acknowledgement of everything below it.
    log_end: OffsetAndEpoch
    max_wait_ms: int = 0
    max_bytes: int = 1 << 20
    # What the replica knows; the leader answers at once if it knows more. KIP-1166.
    high_watermark: int = INT64_MAX


class FetchSnapshot(NamedTuple):
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class DescribeQuorum:
    pass


class AddVoter(NamedTuple):
    cluster_id: str | None
    voter: Voter
    timeout_ms: int
    waits_for_commit: bool = True


class RemoveVoter(NamedTuple):
    cluster_id: str | None
    key: ReplicaKey


class UpdateVoter(NamedTuple):
    cluster_id: str | None
    epoch: int
    voter: Voter


class UpgradeVersion(NamedTuple):
    """UpdateFeatures for kraft.version; comes from the controller, not over a wire of its own."""

    version: int


@dataclass(frozen=True, slots=True)
class AskVersions:
    """ApiVersions, for the kraft.version range of a voter to be."""


Request = (
    Vote
    | BeginEpoch
    | EndEpoch
    | Fetch
    | FetchSnapshot
    | DescribeQuorum
    | AddVoter
    | RemoveVoter
    | UpdateVoter
    | UpgradeVersion
    | AskVersions
)


# -- answers --------------------------------------------------------------------------------------
#
# Every answer tells the epoch of its replica, and the leader it knows: the first four fields.


class VoteAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None
    is_granted: bool = False


class BeginEpochAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None


class EndEpochAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None


class FetchAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: bytes = b""
    # Where the asker's last epoch ends in the leader's log: it must truncate.
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None


class FetchSnapshotAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None
    snapshot_id: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    chunk: bytes = b""


class VoterChangeAnswer(NamedTuple):
    """For AddVoter, RemoveVoter, UpdateVoter and UpgradeVersion."""

    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None
    message: str | None = None


class VersionsAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None
    min_version: int = 0
    max_version: int = 0


class ReplicaProgress(NamedTuple):
    key: ReplicaKey
    end_offset: int = NO_OFFSET
    # Wall time; -1 means never.
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


class QuorumAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None
    high_watermark: int = NO_OFFSET
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()
    voter_set: VoterSet | None = None


Answer = (
    VoteAnswer
    | BeginEpochAnswer
    | EndEpochAnswer
    | FetchAnswer
    | FetchSnapshotAnswer
    | VoterChangeAnswer
    | VersionsAnswer
    | QuorumAnswer
)
