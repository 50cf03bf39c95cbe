"""One replica's standing in the quorum: log, voters, role, and the moves between roles. Pure.

Every part of the node works on this object. A move is one call; it checks what may never happen
(an epoch that falls, a second vote, two leaders of an epoch) and asks for what must be durable
first. The table of moves is in README.md.
"""

from collections.abc import Sequence

from ledgerstone.clock import Dice
from ledgerstone.errors import InvariantViolation
from ledgerstone.raft.ballots import Ballots
from ledgerstone.raft.events import Leadership, LogSync, Now, Reply, Send
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.log import ReplicatedLog, SnapshotStore
from ledgerstone.raft.messages import Answer, Request
from ledgerstone.raft.outbox import Outbox
from ledgerstone.raft.peers import Peers
from ledgerstone.raft.positions import latest_snapshot
from ledgerstone.raft.replica import Peer, ReplicaKey
from ledgerstone.raft.roles import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_move,
)
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voter_history import VoterHistory
from ledgerstone.raft.voters import VoterSet
from ledgerstone.types import INT32_MAX


class Quorum:
    def __init__(
        self,
        *,
        identity: Identity,
        settings: Settings,
        log: ReplicatedLog,
        snapshots: SnapshotStore,
        history: VoterHistory,
        bootstrap: Sequence[Peer],
        dice: Dice,
        hard_state: HardState,
        now: Now,
    ) -> None:
        self.identity = identity
        self.settings = settings
        self.log = log
        self.snapshots = snapshots
        self.history = history
        self.bootstrap = tuple(bootstrap)
        self.dice = dice
        self.outbox = Outbox()
        self.peers = Peers(
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )
        self.now = now
        self.hard_state = hard_state
        self.is_stopping = False
        latest = latest_snapshot(snapshots)
        # Everything below is committed; it never falls while this process lives. What is in a
        # snapshot is, and the state machine begins with it.
        self.high_watermark = log.start_offset if latest is None else latest.offset
        self.applied_offset = self.high_watermark
        if latest is not None:
            self.outbox.load(latest)
        # What a process before this one appended may be in the page cache only.
        self.synced_end = log.start_offset
        self.truncations = 0
        self._asked_sync: LogSync | None = None
        self.role: Role = Unattached(
            epoch=hard_state.epoch, voted=hard_state.voted, election_deadline_ms=0
        )

    # -- facts --------------------------------------------------------------------------------

    @property
    def key(self) -> ReplicaKey:
        return self.identity.key

    @property
    def voters(self) -> VoterSet:
        return self.history.current

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def is_last_epoch(self) -> bool:
        return self.epoch >= INT32_MAX

    @property
    def is_voter(self) -> bool:
        return self.identity.is_controller and self.voters.match(self.key) is not None

    @property
    def may_run(self) -> bool:
        """A voter; or one that a set removes which is not known to be committed.

        Differs from Kafka: there only the former runs. Such a replica may have the longest log,
        so that no other can be elected. It leads without counting itself, and resigns when the
        set is committed.

        Nobody runs who has been told of the last epoch that there is: the next one could not be
        stored, nor sent. Kafka's epoch would turn negative."""
        if self.is_last_epoch:
            return False
        if self.is_voter or not self.identity.is_controller:
            return self.is_voter
        offset = self.history.current_offset
        before = self.history.voters_before(offset) if offset >= self.high_watermark else None
        return before is not None and before.match(self.key) is not None

    @property
    def is_sole_voter(self) -> bool:
        return len(self.voters) == 1 and self.is_voter

    def leader_peer(self) -> Peer | None:
        """Where the leader this replica knows can be reached."""
        role = self.role
        if isinstance(role, Follower):
            return role.leader
        if isinstance(role, Prospective) and role.leader is not None:
            return role.leader
        if role.leader_id is None:
            return None
        if role.leader_id == self.key.id:
            return self.identity.peer
        return self.voters.peer(role.leader_id, self.identity.listener_name)

    def election_timeout_ms(self) -> int:
        timeout_ms = self.settings.election_timeout_ms
        return timeout_ms + self.dice.below(timeout_ms)

    # -- saying -------------------------------------------------------------------------------

    def send(self, peer: Peer, request: Request) -> int:
        correlation = self.peers.sent(peer.id, self.now.monotonic_ms)
        self.outbox.send(Send(peer, correlation, request))
        return correlation

    def reply(self, token: int, answer: Answer) -> None:
        self.outbox.send(Reply(token, answer))

    # -- the log's durable end ----------------------------------------------------------------

    @property
    def is_synced(self) -> bool:
        return self.synced_end >= self.log.end_offset

    def ask_sync(self) -> None:
        """One sync on its way covers everything appended before it was asked for."""
        if self.is_synced:
            return
        wanted = LogSync(self.log.end_offset, self.truncations)
        if self._asked_sync is None:
            self._asked_sync = wanted
            self.outbox.sync(wanted)

    def synced(self, sync: LogSync) -> None:
        if sync == self._asked_sync:
            self._asked_sync = None
        if sync.truncations == self.truncations:
            self.synced_end = max(self.synced_end, min(sync.end_offset, self.log.end_offset))
        self.ask_sync()

    def note_truncation(self) -> None:
        self.truncations += 1
        self.synced_end = min(self.synced_end, self.log.end_offset)

    def raise_high_watermark(self, offset: int) -> None:
        offset = min(offset, self.log.end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.outbox.commit(offset)

    # -- moves --------------------------------------------------------------------------------

    def become_unattached(
        self, epoch: int, *, leader_id: int | None = None, deadline_ms: int | None = None
    ) -> None:
        """A timer that ran for an election goes on; a new epoch alone does not start it anew."""
        before = self.role
        if deadline_ms is None:
            if isinstance(before, Unattached | Prospective | Candidate | Resigned):
                deadline_ms = before.election_deadline_ms
            elif isinstance(before, Follower) and self.may_run:
                deadline_ms = before.fetch_deadline_ms
            else:
                deadline_ms = self.now.monotonic_ms + self.election_timeout_ms()
        voted = before.voted if epoch == before.epoch else None
        if leader_id is None and epoch == before.epoch:
            leader_id = before.leader_id
        self._become(
            Unattached(
                epoch=epoch, leader_id=leader_id, voted=voted, election_deadline_ms=deadline_ms
            )
        )

    def vote_for(self, candidate: ReplicaKey) -> None:
        """Keeps the role, Unattached or Prospective; the timer is drawn anew."""
        role = self.role
        assert isinstance(role, Unattached | Prospective), role
        deadline_ms = self.now.monotonic_ms + self.election_timeout_ms()
        if isinstance(role, Unattached):
            self._become(
                Unattached(epoch=role.epoch, voted=candidate, election_deadline_ms=deadline_ms)
            )
            return
        self._become(
            Prospective(
                epoch=role.epoch,
                voted=candidate,
                ballots=role.ballots,
                election_deadline_ms=deadline_ms,
            ),
            keeps_requests=True,
        )

    def become_prospective(self) -> None:
        role = self.role
        assert self.may_run, f"{self.key} is no voter"
        self._become(
            Prospective(
                epoch=role.epoch,
                leader=self.leader_peer(),
                leader_id=role.leader_id,
                voted=role.voted,
                ballots=Ballots(self.voters, self.key),
                election_deadline_ms=self.now.monotonic_ms + self.election_timeout_ms(),
            )
        )

    def become_candidate(self, epoch: int) -> None:
        assert self.may_run, f"{self.key} is no voter"
        self._become(
            Candidate(
                epoch=epoch,
                voted=self.key,
                ballots=Ballots(self.voters, self.key),
                election_deadline_ms=self.now.monotonic_ms + self.election_timeout_ms(),
            )
        )

    def become_leader(self) -> Leader:
        role = self.role
        assert isinstance(role, Candidate), role
        assert role.ballots.is_won, role
        leader = Leader(
            epoch=role.epoch,
            leader_id=self.key.id,
            voted=self.key,
            own=self.key,
            epoch_start_offset=self.log.end_offset,
            check_quorum_deadline_ms=self.now.monotonic_ms + self.settings.check_quorum_timeout_ms,
        )
        self._become(leader)
        return leader

    def become_follower(self, epoch: int, leader: Peer) -> None:
        before = self.role
        voted = before.voted if epoch == before.epoch else None
        now_ms = self.now.monotonic_ms
        self._become(
            Follower(
                epoch=epoch,
                leader=leader,
                voted=voted,
                fetch_deadline_ms=now_ms + self.settings.fetch_timeout_ms,
                next_update_ms=now_ms + self.settings.fetch_timeout_ms,
            )
        )

    def become_resigned(self, successors: tuple[ReplicaKey, ...]) -> None:
        role = self.role
        self._become(
            Resigned(
                epoch=role.epoch,
                leader_id=self.key.id,
                voted=role.voted,
                untold={voter.key.id: None for voter in self.voters.others(self.key)},
                successors=successors,
                election_deadline_ms=self.now.monotonic_ms + self.election_timeout_ms(),
            )
        )

    def _become(self, role: Role, *, keeps_requests: bool = False) -> None:
        before = self.role
        if role.epoch < self.hard_state.epoch:
            raise InvariantViolation(f"epoch falls: {self.hard_state} to {role}")
        check_move(before, role)
        self.role = role
        if isinstance(before, Follower) and before.download is not None:
            # What is left of it is of no use to the next role.
            self.snapshots.drop_part()
        if not keeps_requests:
            self.peers.forget_requests()
        state = HardState(role.epoch, role.leader_id, role.voted)
        if state != self.hard_state:
            self.hard_state = state
            self.outbox.keep(state)
        is_news = (before.epoch, before.leader_id) != (role.epoch, role.leader_id)
        # A leader hears of it later: when its state machine has caught up.
        if not isinstance(role, Leader) and (is_news or isinstance(before, Leader)):
            self.outbox.lead(Leadership(role.epoch, role.leader_id, False))
