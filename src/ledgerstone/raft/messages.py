"""What replicas say to each other, as plain values. Pure.

One partition, one topic, one replica: everything Kafka's messages carry beyond that belongs to
`wire`, which translates. Error codes are Kafka's.
"""

from dataclasses import dataclass

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft.replica import NO_NODE, Listener, OffsetAndEpoch, Peer, ReplicaKey
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.types import INT64_MAX, NO_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    cluster_id: str | None
    # Whom the request is for; a receiver with another key refuses.
    voter: ReplicaKey
    candidate: ReplicaKey
    # A pre-vote carries the candidate's present epoch, a vote the one it wants to lead.
    epoch: int
    log_end: OffsetAndEpoch
    is_pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    cluster_id: str | None
    voter: ReplicaKey
    leader_id: int
    epoch: int
    leader_listeners: tuple[Listener, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpoch:
    cluster_id: str | None
    leader_id: int
    epoch: int
    # Voters without the leader, the one with the longest log first.
    successors: tuple[ReplicaKey, ...]
    leader_listeners: tuple[Listener, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    # `offset` is also the acknowledgement of everything below it.
    log_end: OffsetAndEpoch
    max_wait_ms: int = 0
    max_bytes: int = 1 << 20
    # What the replica knows; the leader answers at once if it knows more. KIP-1166.
    high_watermark: int = INT64_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot:
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorum:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter:
    cluster_id: str | None
    voter: Voter
    timeout_ms: int
    waits_for_commit: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoter:
    cluster_id: str | None
    key: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoter:
    cluster_id: str | None
    epoch: int
    voter: Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeVersion:
    """UpdateFeatures for kraft.version; comes from the controller, not over a wire of its own."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What every answer of a replica tells: its epoch, and the leader it knows."""

    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1
    leader_id: int = NO_NODE
    leader: Peer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    is_granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochAnswer(Answer):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochAnswer(Answer):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: bytes = b""
    # Where the asker's last epoch ends in the leader's log: it must truncate.
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotAnswer(Answer):
    snapshot_id: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    chunk: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeAnswer(Answer):
    """For AddVoter, RemoveVoter, UpdateVoter and UpgradeVersion."""

    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsAnswer(Answer):
    min_version: int = 0
    max_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    key: ReplicaKey
    end_offset: int = NO_OFFSET
    # Wall time; -1 means never.
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumAnswer(Answer):
    high_watermark: int = NO_OFFSET
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()
    voter_set: VoterSet | None = None
