"""Elections: who is granted a vote, how votes are asked for, what their answers mean. Pure."""

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import fencing
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.messages import Vote, VoteAnswer
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.positions import log_end
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.raft.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached


class Elections:
    """The asking and the asked side."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    # -- asked --------------------------------------------------------------------------------

    def on_vote(self, token: int, vote: Vote) -> None:
        self._quorum.reply(token, self._judged(vote))

    def _judged(self, vote: Vote) -> VoteAnswer:
        quorum = self._quorum
        error = fencing.cluster_error(quorum, vote.cluster_id) or _malformed(vote)
        if error is not None:
            return fencing.told(quorum, VoteAnswer(error=error))
        if vote.epoch < quorum.epoch:
            return fencing.told(quorum, VoteAnswer(error=ErrorCode.FENCED_LEADER_EPOCH))
        if vote.candidate.id < 0:
            return fencing.told(quorum, VoteAnswer(error=ErrorCode.INVALID_REQUEST))
        if vote.epoch > quorum.epoch:
            # Also for a pre-vote, also as leader: the asker has seen an epoch that we have not.
            quorum.become_unattached(vote.epoch)
        if not fencing.is_addressed(vote.voter, quorum.key):
            return fencing.told(quorum, VoteAnswer(error=ErrorCode.INVALID_VOTER_KEY))
        is_granted = grants(quorum.role, vote, log_end(quorum.log))
        if is_granted and not vote.is_pre_vote and quorum.role.voted is None:
            quorum.vote_for(vote.candidate)
        return fencing.told(quorum, VoteAnswer(is_granted=is_granted))

    # -- asking -------------------------------------------------------------------------------

    def poll_unattached(self, role: Unattached) -> int:
        """Returns when to look again."""
        quorum = self._quorum
        if not quorum.may_run:
            return NEVER
        if quorum.is_sole_voter or quorum.now.monotonic_ms >= role.election_deadline_ms:
            quorum.become_prospective()
        return role.election_deadline_ms

    def poll_prospective(self, role: Prospective) -> int:
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        if not quorum.may_run:
            self._give_up(role, now_ms + quorum.election_timeout_ms())
        elif role.ballots.is_won:
            if not quorum.is_stopping:
                quorum.become_candidate(role.epoch + 1)
        elif role.ballots.is_lost:
            self._give_up(role, now_ms + quorum.election_timeout_ms())
        elif now_ms >= role.election_deadline_ms:
            self._give_up(role, now_ms)
        else:
            return min(role.election_deadline_ms, self._ask(role, is_pre_vote=True))
        return role.election_deadline_ms

    def _give_up(self, role: Prospective, deadline_ms: int) -> None:
        quorum = self._quorum
        if role.leader is not None:
            quorum.become_follower(role.epoch, role.leader)
        else:
            quorum.become_unattached(role.epoch, leader_id=role.leader_id, deadline_ms=deadline_ms)

    def poll_candidate(self, role: Candidate) -> int:
        """A lost election waits for its timer, too."""
        quorum = self._quorum
        if quorum.now.monotonic_ms >= role.election_deadline_ms:
            if quorum.may_run:
                quorum.become_prospective()
            else:
                quorum.become_unattached(role.epoch)
            return role.election_deadline_ms
        if role.ballots.is_lost or role.ballots.is_won:
            return role.election_deadline_ms
        return min(role.election_deadline_ms, self._ask(role, is_pre_vote=False))

    def _ask(self, role: Prospective | Candidate, *, is_pre_vote: bool) -> int:
        quorum = self._quorum
        again_ms = NEVER
        for voter in quorum.voters.others(quorum.key):
            peer = quorum.voters.peer(voter.key.id, quorum.identity.listener_name)
            if peer is None or not role.ballots.is_open(voter.key.id):
                continue
            if not quorum.peers.is_free(peer.id, quorum.now.monotonic_ms):
                again_ms = min(again_ms, quorum.peers.free_at(peer.id, quorum.now.monotonic_ms))
                continue
            quorum.send(
                peer,
                Vote(
                    cluster_id=quorum.identity.cluster_id,
                    voter=voter.key,
                    candidate=quorum.key,
                    epoch=role.epoch,
                    log_end=log_end(quorum.log),
                    is_pre_vote=is_pre_vote,
                ),
            )
        return again_ms

    def on_answer(self, peer_id: int, answer: VoteAnswer) -> None:
        if not fencing.is_usable(self._quorum, answer, peer_id):
            return
        role = self._quorum.role
        if isinstance(role, Prospective | Candidate) and role.epoch == answer.epoch:
            role.ballots.record(peer_id, answer.is_granted)

    def on_unsupported(self) -> None:
        """A peer knows no pre-vote: without it, elections are as they were before."""
        role = self._quorum.role
        if isinstance(role, Prospective) and self._quorum.may_run:
            self._quorum.become_candidate(role.epoch + 1)


def grants(role: Role, vote: Vote, own_end: OffsetAndEpoch) -> bool:
    """The table of README.md; the role is of the vote's epoch."""
    is_log_ok = not vote.log_end.is_behind(own_end)
    match role:
        case Leader():
            return False
        case Follower():
            return vote.is_pre_vote and is_log_ok and not role.has_fetched
        case Candidate() | Resigned():
            return vote.is_pre_vote and is_log_ok
        case Unattached() | Prospective():
            if vote.is_pre_vote:
                return is_log_ok
            if role.voted is not None:
                # It may be back after power loss, with less than it had when it was granted.
                return is_log_ok and role.voted.covers(vote.candidate)
            return role.leader_id is None and is_log_ok
        case _:
            raise InvariantViolation(f"{role} is no role")


def _malformed(vote: Vote) -> ErrorCode | None:
    end = vote.log_end
    # A candidate's log ends before the epoch it asks for begins.
    is_late = end.epoch > vote.epoch if vote.is_pre_vote else end.epoch >= vote.epoch
    return ErrorCode.INVALID_REQUEST if end.offset < 0 or end.epoch < 0 or is_late else None
