"""How a follower keeps its own entry in the voter set right: updates it, or joins. Pure."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import fencing
from ledgerstone.raft.messages import AddVoter, RemoveVoter, UpdateVoter, VoterChangeAnswer
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.roles import Follower
from ledgerstone.raft.voters import DYNAMIC_VERSION


class Joining:
    """Looks every fetch timeout, and takes the line to the leader for one request."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def poll(self, role: Follower) -> int:
        """Before the next Fetch, so that a request gets a turn."""
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        if now_ms < role.next_update_ms:
            return role.next_update_ms
        if not quorum.peers.is_free(role.leader.id, now_ms) or role.download is not None:
            return quorum.peers.free_at(role.leader.id, now_ms)
        role.next_update_ms = now_ms + quorum.settings.fetch_timeout_ms
        request = self._wanted(role)
        if request is not None:
            quorum.send(role.leader, request)
        return role.next_update_ms

    def _wanted(self, role: Follower) -> UpdateVoter | AddVoter | RemoveVoter | None:
        quorum = self._quorum
        identity = quorum.identity
        if quorum.is_voter:
            listed = quorum.voters.match(quorum.key)
            is_dynamic = quorum.history.version >= DYNAMIC_VERSION
            is_right = listed == identity.voter if is_dynamic else role.has_updated
            if is_right:
                return None
            return UpdateVoter(
                cluster_id=identity.cluster_id, epoch=role.epoch, voter=identity.voter
            )
        if not (identity.is_controller and quorum.settings.auto_join):
            return None
        if quorum.history.version < DYNAMIC_VERSION:
            return None
        namesake = quorum.voters.get(quorum.key.id)
        if namesake is not None:
            # Ours before the disk was lost. It holds our id, so it must go first.
            return RemoveVoter(cluster_id=identity.cluster_id, key=namesake.key)
        return AddVoter(
            cluster_id=identity.cluster_id,
            voter=identity.voter,
            timeout_ms=quorum.settings.request_timeout_ms,
            # The leader that would wait could not answer the fetch that commits it.
            waits_for_commit=False,
        )

    def on_answer(self, peer_id: int, answer: VoterChangeAnswer) -> None:
        quorum = self._quorum
        if not fencing.is_usable(quorum, answer, peer_id):
            return
        role = quorum.role
        if isinstance(role, Follower) and answer.error is ErrorCode.NONE:
            role.has_updated = True
