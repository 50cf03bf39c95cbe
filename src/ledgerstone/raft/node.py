"""A replica of the metadata quorum: `step` and `tick` in, `ready` out. Pure.

node.step(now, event)      # a request, an answer, a report
node.tick(now)             # at `next_deadline_ms`, or whenever
ready = node.ready()       # do what it says, in the order of its fields
"""

from collections.abc import Sequence
from typing import assert_never

from ledgerstone.clock import Dice
from ledgerstone.raft import fencing, messages
from ledgerstone.raft.downloading import Downloads
from ledgerstone.raft.events import (
    Answered,
    Applied,
    Asked,
    Event,
    Failed,
    LogSynced,
    Now,
    Ready,
    Resign,
    SnapshotFetched,
    SnapshotPlan,
    SnapshotRefused,
    Stop,
)
from ledgerstone.raft.following import Following
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.joining import Joining
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.leading import Leading
from ledgerstone.raft.log import ReplicatedLog, SnapshotStore
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import Peer
from ledgerstone.raft.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached
from ledgerstone.raft.serving import Serving
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.snapshotting import Snapshotting
from ledgerstone.raft.starting import assume_role, own_vote, settle_log
from ledgerstone.raft.voter_changes import VoterChanges
from ledgerstone.raft.voter_history import VoterHistory
from ledgerstone.raft.voter_reader import read_history
from ledgerstone.raft.voters import VoterSet
from ledgerstone.raft.voting import Elections
from ledgerstone.records.builder import RecordParts

# A step settles in a few moves: Unattached, Prospective, Candidate, Leader.
_MAX_MOVES = 16


class RaftNode:
    """Not a thread, not a socket, not a clock. One caller at a time."""

    def __init__(
        self,
        *,
        identity: Identity,
        settings: Settings,
        log: ReplicatedLog,
        snapshots: SnapshotStore,
        hard_state: HardState,
        static_voters: VoterSet,
        bootstrap: Sequence[Peer],
        dice: Dice,
        now: Now,
    ) -> None:
        settle_log(log, snapshots)
        history = VoterHistory(static_voters)
        read_history(history, log, snapshots)
        self.quorum = Quorum(
            identity=identity,
            settings=settings,
            log=log,
            snapshots=snapshots,
            history=history,
            bootstrap=bootstrap,
            dice=dice,
            hard_state=own_vote(hard_state, identity.key),
            now=now,
        )
        self._elections = Elections(self.quorum)
        self._downloads = Downloads(self.quorum)
        self._following = Following(self.quorum, self._downloads)
        self._leading = Leading(self.quorum)
        self._serving = Serving(self.quorum)
        self._changes = VoterChanges(self.quorum)
        self._joining = Joining(self.quorum)
        self._snapshotting = Snapshotting(self.quorum)
        self._led: Leader | None = None
        self.next_deadline_ms = now.monotonic_ms
        assume_role(self.quorum)
        self.quorum.ask_sync()
        self._settle()

    # -- the three calls ----------------------------------------------------------------------

    def step(self, now: Now, event: Event) -> None:
        self.quorum.now = now
        match event:
            case Asked():
                if isinstance(self.quorum.role, Leader) and self.is_due(now):
                    # A leader that was paused must not take what was sent meanwhile for a sign
                    # that its voters are still there.
                    self._settle()
                self._asked(event.token, event.request)
            case Answered():
                if self.quorum.peers.answered(event.peer_id, event.correlation):
                    self._answered(event)
            case Failed():
                if self.quorum.peers.answered(event.peer_id, event.correlation):
                    self._failed(event)
            case LogSynced():
                self.quorum.synced(event.sync)
                if isinstance(self.quorum.role, Leader):
                    self._serving.advance(self.quorum.role)
            case SnapshotFetched():
                self._downloads.on_fetched(event.snapshot_id)
            case SnapshotRefused():
                self._downloads.on_refused(event.snapshot_id)
            case Applied():
                self.quorum.applied_offset = max(self.quorum.applied_offset, event.end_offset)
            case Resign():
                if isinstance(self.quorum.role, Leader) and self.quorum.epoch == event.epoch:
                    self._leading.resign(self.quorum.role)
            case Stop():
                self.quorum.is_stopping = True
            case _:
                assert_never(event)
        self._settle()

    def tick(self, now: Now) -> None:
        self.quorum.now = now
        self._settle()

    def is_due(self, now: Now) -> bool:
        return now.monotonic_ms >= self.next_deadline_ms

    def ready(self) -> Ready | None:
        return self.quorum.outbox.take()

    # -- for the state machine ----------------------------------------------------------------

    def propose(self, now: Now, epoch: int, records: Sequence[RecordParts]) -> int:
        self.quorum.now = now
        end_offset = self._leading.propose(epoch, records)
        self._settle()
        return end_offset

    def plan_snapshot(self, now: Now, end_offset: int, last_timestamp: int) -> SnapshotPlan | None:
        self.quorum.now = now
        return self._snapshotting.plan(end_offset, last_timestamp)

    def snapshot_foot(self, plan: SnapshotPlan, base_offset: int) -> bytes:
        return self._snapshotting.foot(plan, base_offset)

    # -- facts --------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self.quorum.role

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def high_watermark(self) -> int:
        return self.quorum.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self.quorum.voters

    @property
    def kraft_version(self) -> int:
        return self.quorum.history.version

    @property
    def is_stopped(self) -> bool:
        """After Stop: nothing is left to be told, or another leader is known."""
        role = self.quorum.role
        return self.quorum.is_stopping and not (
            isinstance(role, Leader) or (isinstance(role, Resigned) and bool(role.untold))
        )

    # -- requests -----------------------------------------------------------------------------

    def _asked(self, token: int, request: messages.Request) -> None:
        match request:
            case messages.Vote():
                self._elections.on_vote(token, request)
            case messages.BeginEpoch() | messages.EndEpoch():
                self._following.on_epoch(token, request)
            case messages.Fetch():
                self._serving.on_fetch(token, request)
            case messages.FetchSnapshot():
                self._serving.on_fetch_snapshot(token, request)
            case messages.DescribeQuorum():
                self.quorum.reply(token, self._leading.describe())
            case messages.AddVoter():
                self._changes.on_add(token, request)
            case messages.RemoveVoter():
                self._changes.on_remove(token, request)
            case messages.UpdateVoter():
                self._changes.on_update(token, request)
            case messages.UpgradeVersion():
                self._changes.on_upgrade(token, request)
            case messages.AskVersions():
                identity = self.quorum.identity
                self.quorum.reply(
                    token,
                    fencing.told(
                        self.quorum,
                        messages.VersionsAnswer(
                            min_version=identity.min_version, max_version=identity.max_version
                        ),
                    ),
                )
            case _:
                assert_never(request)

    # -- answers ------------------------------------------------------------------------------

    def _answered(self, event: Answered) -> None:
        answer, peer_id = event.answer, event.peer_id
        match answer:
            case messages.VoteAnswer():
                self._elections.on_answer(peer_id, answer)
            case messages.BeginEpochAnswer():
                self._leading.on_begin_answer(peer_id, answer)
            case messages.EndEpochAnswer():
                self._leading.on_end_answer(peer_id, answer)
            case messages.FetchAnswer():
                self._following.on_answer(peer_id, event.correlation, answer)
            case messages.FetchSnapshotAnswer():
                self._downloads.on_answer(peer_id, answer)
            case messages.VoterChangeAnswer():
                self._joining.on_answer(peer_id, answer)
            case messages.VersionsAnswer():
                self._changes.on_versions(event.correlation, answer)
            case _:
                pass

    def _failed(self, event: Failed) -> None:
        quorum = self.quorum
        quorum.peers.back_off(event.peer_id, quorum.now.monotonic_ms)
        if event.is_unsupported:
            self._elections.on_unsupported()
        self._changes.on_versions_failed(event.correlation)

    # -- time ---------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Moves on until the role stays: what is due is due now."""
        deadline_ms = NEVER
        for _ in range(_MAX_MOVES):
            role = self.quorum.role
            self._turn_away(role)
            deadline_ms = self._poll(role)
            if self.quorum.role is role:
                break
        self._turn_away(self.quorum.role)
        self.next_deadline_ms = min(deadline_ms, self._snapshotting.poll())

    def _turn_away(self, role: Role) -> None:
        """Whoever waits for a leader that is no longer one gets an answer."""
        if self._led is not None and self._led is not role:
            self._serving.turn_away(self._led)
            self._changes.turn_away(self._led)
            self._led = None
        if isinstance(role, Leader):
            self._led = role

    def _poll(self, role: Role) -> int:
        match role:
            case Unattached():
                deadline_ms = self._elections.poll_unattached(role)
                if self.quorum.role is role:
                    deadline_ms = min(deadline_ms, self._following.poll_unattached(role))
                return deadline_ms
            case Prospective():
                return self._elections.poll_prospective(role)
            case Candidate():
                if role.ballots.is_won:
                    self._leading.begin(role)
                    return NEVER
                return self._elections.poll_candidate(role)
            case Leader():
                # A leader that removed itself answers before it resigns.
                change_ms = self._changes.poll(role)
                again_ms = min(change_ms, self._leading.poll(role))
                if self.quorum.role is not role:
                    return again_ms
                return min(again_ms, self._serving.poll(role))
            case Follower():
                again_ms = self._joining.poll(role)
                return min(again_ms, self._following.poll(role))
            case Resigned():
                return self._leading.poll_resigned(role)
            case _:
                assert_never(role)
