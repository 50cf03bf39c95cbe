"""What epochs in requests and answers mean to a replica: refuse, follow, or step down. Pure."""

from collections.abc import Sequence
from typing import TypeVar

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.messages import (
    Answer,
    BeginEpochAnswer,
    EndEpochAnswer,
    FetchAnswer,
    FetchSnapshotAnswer,
    QuorumAnswer,
    VersionsAnswer,
    VoteAnswer,
    VoterChangeAnswer,
)
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import NO_DIRECTORY, NO_NODE, Listener, Peer, ReplicaKey, peer_of
from ledgerstone.raft.roles import Follower, Resigned, Unattached

A = TypeVar(
    "A",
    VoteAnswer,
    BeginEpochAnswer,
    EndEpochAnswer,
    FetchAnswer,
    FetchSnapshotAnswer,
    VoterChangeAnswer,
    VersionsAnswer,
    QuorumAnswer,
)


def told(quorum: Quorum, answer: A) -> A:
    """Every answer tells the epoch and the leader this replica knows."""
    leader_id = quorum.role.leader_id
    return answer._replace(
        epoch=quorum.epoch,
        leader_id=NO_NODE if leader_id is None else leader_id,
        leader=None if leader_id is None else quorum.leader_peer(),
    )


def cluster_error(quorum: Quorum, cluster_id: str | None) -> ErrorCode | None:
    """A request without a cluster id passes."""
    if cluster_id is None or cluster_id == quorum.identity.cluster_id:
        return None
    return ErrorCode.INCONSISTENT_CLUSTER_ID


def is_addressed(named: ReplicaKey, own: ReplicaKey) -> bool:
    """A request of a release that did not name the voter is for whichever replica got it."""
    return named.id in (NO_NODE, own.id) and named.directory_id in (
        NO_DIRECTORY,
        own.directory_id,
    )


def leader_only_error(quorum: Quorum, epoch: int) -> ErrorCode | None:
    """For requests that only the leader of their epoch answers."""
    if epoch < quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > quorum.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(quorum.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if quorum.is_stopping:
        return ErrorCode.BROKER_NOT_AVAILABLE
    return None


def is_consistent(quorum: Quorum, epoch: int, leader_id: int | None) -> bool:
    """Whether this replica can believe that `leader_id` leads `epoch`."""
    if leader_id is None or epoch < quorum.epoch:
        return True
    if leader_id == quorum.key.id:
        is_mine = epoch == quorum.epoch and isinstance(quorum.role, Leader | Resigned)
        return is_mine or _is_namesake(quorum)
    return epoch > quorum.epoch or quorum.role.leader_id in (None, leader_id)


def _is_namesake(quorum: Quorum) -> bool:
    """Another directory holds our id among the voters: it led, not we."""
    voter = quorum.voters.get(quorum.key.id)
    return voter is None or not voter.key.covers(quorum.key)


def follow(quorum: Quorum, epoch: int, leader_id: int | None, leader: Peer | None) -> None:
    """Goes where a message points: a higher epoch, or a leader this replica did not know."""
    if not is_consistent(quorum, epoch, leader_id):
        raise InvariantViolation(
            f"{quorum.key}: node {leader_id} is said to lead epoch {epoch}, but this is"
            f" {quorum.role}"
        )
    if leader_id == quorum.key.id:
        leader_id, leader = None, None
        if epoch == quorum.epoch:
            return
    if leader is None and leader_id is not None:
        leader = quorum.voters.peer(leader_id, quorum.identity.listener_name)
    role = quorum.role
    if epoch > role.epoch:
        if leader is not None:
            quorum.become_follower(epoch, leader)
        else:
            quorum.become_unattached(epoch, leader_id=leader_id)
    elif epoch == role.epoch and leader_id is not None:
        if isinstance(role, Follower):
            if leader is not None and role.leader != leader:
                # The same leader at a new address; all else stays as it is.
                role.leader = leader
        elif leader is not None:
            quorum.become_follower(epoch, leader)
        elif role.leader_id is None:
            quorum.become_unattached(epoch, leader_id=leader_id)
        else:
            assert isinstance(role, Unattached) or role.leader_id == leader_id


def follow_listeners(
    quorum: Quorum, epoch: int, leader_id: int, listeners: Sequence[Listener]
) -> None:
    follow(
        quorum,
        epoch,
        leader_id,
        peer_of(leader_id, tuple(listeners), quorum.identity.listener_name),
    )


def is_usable(quorum: Quorum, found: Answer, peer_id: int) -> bool:
    """The common part of every answer; True if what it says beyond that is meant for us now."""
    leader_id = None if found.leader_id == NO_NODE else found.leader_id
    error = found.error
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID or error is ErrorCode.INVALID_REQUEST:
        # Another cluster's node, or a bug of one of us. Neither can tell us anything.
        quorum.peers.back_off(peer_id, quorum.now.monotonic_ms, quorum.settings.fetch_timeout_ms)
        return False
    if error is not ErrorCode.NONE and error not in _MEANT:
        quorum.peers.back_off(peer_id, quorum.now.monotonic_ms)
    if error in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.UNKNOWN_LEADER_EPOCH):
        return False
    if found.epoch < quorum.epoch:
        return False
    if found.epoch > quorum.epoch or error in (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ):
        follow(quorum, found.epoch, leader_id, found.leader)
        return False
    # Unattached that knows the leader's id lacks its address.
    is_lacking = quorum.role.leader_id is None or isinstance(quorum.role, Unattached)
    if leader_id is not None and is_lacking:
        follow(quorum, found.epoch, leader_id, found.leader)
    return error is ErrorCode.NONE or error in _MEANT


# Errors that the asker understands: they are no reason to drop the answer.
_MEANT = (
    ErrorCode.SNAPSHOT_NOT_FOUND,
    ErrorCode.POSITION_OUT_OF_RANGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.VOTER_NOT_FOUND,
    ErrorCode.DUPLICATE_VOTER,
    ErrorCode.UNSUPPORTED_VERSION,
)
