"""One node of a simulated quorum: a process with a replica, its disk, its clock. Part of sim.

The machine does what `Ready` says, in the order of its fields, each step of the disk with a latency
and a possible death before, in the middle or after.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from ledgerstone.errors import LedgerstoneError, NotLeaderOrFollower
from ledgerstone.raft import messages
from ledgerstone.raft.events import (
    Answered,
    Applied,
    Asked,
    Event,
    Failed,
    LogSync,
    LogSynced,
    Now,
    Ready,
    Reply,
    Send,
    SnapshotFetched,
)
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import OffsetAndEpoch, Peer
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voter_history import VoterHistory
from ledgerstone.raft.voter_reader import read_history
from ledgerstone.raft.voters import VoterSet
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.quorum.memory_log import Entry, MemoryLog
from ledgerstone.sim.quorum.memory_snapshots import MemorySnapshots
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.quorum.scenario import Config
from ledgerstone.sim.quorum.sightings import Sightings
from ledgerstone.sim.quorum.state_machine import StateMachine
from ledgerstone.sim.world import Event as Scheduled
from ledgerstone.sim.world import Violation, World

_DIRECTORY = "/meta"
_EPOCH_MS = 1_700_000_000_000


@dataclass(slots=True)
class Proposal:
    epoch: int
    end_offset: int
    crc: int


@dataclass(slots=True)
class Operator:
    """A request from outside, with what to do about its answer."""

    on_answer: Callable[[messages.Answer], None]


@dataclass(slots=True)
class Remote:
    """A request of another node: where its answer goes."""

    source: int
    incarnation: int
    peer_id: int
    correlation: int
    request: messages.Request


class Machine:
    def __init__(
        self,
        world: World,
        network: Network,
        checkers: Checkers,
        sightings: Sightings,
        config: Config,
        *,
        number: int,
        identity: Identity,
        settings: Settings,
        static_voters: VoterSet,
        bootstrap: tuple[Peer, ...],
    ) -> None:
        self.world = world
        self.network = network
        self.checkers = checkers
        self.sightings = sightings
        self.config = config
        self.number = number
        self.identity = identity
        self.settings = settings
        self.static_voters = static_voters
        self.bootstrap = bootstrap
        self.fleet: list[Machine] = []
        self._latency = world.dice(f"latency{number}")
        self._clock_dice = world.dice(f"clock{number}")
        skew_ppm = self._clock_dice.between(-config.skew_ppm, config.skew_ppm)
        self._rate = 1.0 + skew_ppm / 1_000_000
        self._clock_offset_ms = self._clock_dice.between(0, 10_000_000)
        self.new_disk()
        self.node: RaftNode | None = None
        self.incarnation = 0
        self.state = StateMachine()
        self.slow_ms = 0
        self.fails_next_sync = False
        self.paused_until_ms = 0
        self.proposals: list[Proposal] = []
        self._tokens: dict[int, Remote | Operator] = {}
        self._next_token = 0
        self._queue: deque[Ready] = deque()
        self._is_storing = False
        self._wake: Scheduled | None = None
        self._wake_at_ms = -1
        self._is_writing_snapshot = False
        self.is_told_leader = False
        # Stays down while the others must recover.
        self.is_left_out = False

    def new_disk(self) -> None:
        self.fs = SimFilesystem(
            dice=self.world.dice(f"disk{self.number}/{self.identity.key.short}")
        )
        self.fs.make_dir(_DIRECTORY)
        self.fs.fsync_dir("/")
        self.log = MemoryLog(self._appended)
        self.snapshots = MemorySnapshots()
        self.file = QuorumStateFile(self.fs, _DIRECTORY)
        # What a completed store left on the platter.
        self.durable = HardState()

    def _appended(self, entry: Entry) -> None:
        self.checkers.appended(self, entry)

    # -- time ---------------------------------------------------------------------------------

    def now(self) -> Now:
        world_ms = self.world.now_ms
        return Now(int(world_ms * self._rate) + self._clock_offset_ms, _EPOCH_MS + world_ms)

    def _schedule_wake(self) -> None:
        if self.node is None:
            return
        due_ms = self.node.next_deadline_ms - self._clock_offset_ms
        at_ms = max(int(due_ms / self._rate) + 1, self.world.now_ms + 1)
        if self._wake is not None and self._wake.action is not None:
            if at_ms == self._wake_at_ms:
                return
            self._wake.cancel()
        self._wake_at_ms = at_ms
        self._wake = self._later(at_ms - self.world.now_ms, "wake", self._tick)

    def _later(self, delay_ms: int, label: str, action: Callable[[], None]) -> Scheduled:
        """For this process only: what a dead one had planned does not happen."""
        incarnation = self.incarnation

        def run() -> None:
            if self.incarnation != incarnation:
                return
            if self.world.now_ms < self.paused_until_ms:
                self._later(self.paused_until_ms - self.world.now_ms, label, action)
                return
            action()

        return self.world.after(delay_ms, f"n{self.number} {label}", run)

    def _disk_ms(self) -> int:
        return self._latency.below(self.config.disk_ms + 1) + self._latency.below(self.slow_ms + 1)

    # -- life ---------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.node is not None

    @property
    def is_stopping(self) -> bool:
        return self.node is not None and self.node.quorum.is_stopping

    def known_voters(self) -> VoterSet:
        """What it goes by, or would after a start."""
        if self.node is not None:
            return self.node.voters
        history = VoterHistory(self.static_voters)
        read_history(history, self.log, self.snapshots)
        return history.current

    def describe(self) -> str:
        if self.node is None:
            return f"n{self.number} down"
        role = self.node.role
        return (
            f"n{self.number} {type(role).__name__} epoch {role.epoch} hw {self.node.high_watermark}"
            f" end {self.log.end_offset} {self.node.voters}"
        )

    @property
    def leader(self) -> Leader | None:
        if self.node is None or not isinstance(self.node.role, Leader):
            return None
        return self.node.role

    def start(self) -> None:
        if self.node is not None or self.is_left_out:
            return
        self.incarnation += 1
        self._queue.clear()
        self._is_storing = False
        self._is_writing_snapshot = False
        self._wake = None
        self._tokens.clear()
        self.proposals.clear()
        self.is_told_leader = False
        self.fails_next_sync = False
        self.world.note(f"n{self.number} starts")
        hard_state = self.file.load()
        self.checkers.started(self, hard_state)
        self.durable = hard_state
        self.state = StateMachine()
        try:
            self.node = RaftNode(
                identity=self.identity,
                settings=self.settings,
                log=self.log,
                snapshots=self.snapshots,
                hard_state=hard_state,
                static_voters=self.static_voters,
                bootstrap=self.bootstrap,
                dice=self.world.dice(f"raft{self.number}/{self.incarnation}"),
                now=self.now(),
            )
        except (LedgerstoneError, AssertionError) as error:
            raise Violation("NodeFault", f"n{self.number} at start: {error!r}") from error
        self.sightings.started(self)
        self._drain()

    def die(self) -> None:
        """The process ends; the page cache stays."""
        if self.node is None:
            return
        self.world.note(f"n{self.number} dies")
        self.node = None
        self.incarnation += 1
        self.snapshots.drop_part()
        self.fs.kill()

    def lose_power(self, mode: int) -> None:
        """Mode 0: nothing unsynced survives; 1: all; 2: some."""
        self.die()
        count = self.log.unsynced_count
        kept = (0, count, self._latency.below(count + 1))[mode]
        if self.log.lose_power(kept):
            self.world.mark("power loss took unsynced records")
        self.snapshots.lose_power(undeletes=mode > 0)
        self.fs.clear_faults()
        self.fs.power_loss(("none", "all", "random")[mode])

    def wipe(self, directory_id: bytes) -> None:
        """Another disk: the same node, another replica."""
        self.die()
        key = self.identity.key._replace(directory_id=directory_id)
        self.identity = replace(self.identity, key=key)
        self.new_disk()

    # -- the node's calls ---------------------------------------------------------------------

    def _tick(self) -> None:
        if self.node is not None:
            self._wake = None
            self._call(lambda node: node.tick(self.now()))

    def _step(self, event: Event) -> None:
        self._call(lambda node: node.step(self.now(), event))

    def _call(self, call: Callable[[RaftNode], object]) -> None:
        node = self.node
        if node is None:
            return
        try:
            call(node)
        except NotLeaderOrFollower:
            raise
        except (LedgerstoneError, AssertionError, LookupError) as error:
            raise Violation("NodeFault", f"n{self.number}: {error!r}") from error
        self._look()
        self._drain()

    def _look(self) -> None:
        self.checkers.stepped(self)
        self.sightings.stepped(self)

    def ask(self, request: messages.Request, on_answer: Callable[[messages.Answer], None]) -> None:
        """From an operator beside the node."""
        self._asked(request, Operator(on_answer))

    def _asked(self, request: messages.Request, origin: Remote | Operator) -> None:
        token = self._next_token
        self._next_token += 1
        self._tokens[token] = origin
        self._step(Asked(token, request))

    def tell(self, event: Event) -> None:
        if self.world.now_ms >= self.paused_until_ms:
            self._step(event)

    def propose(self, epoch: int, text: bytes) -> None:
        node = self.node
        assert node is not None
        node.propose(self.now(), epoch, [(_EPOCH_MS + self.world.now_ms, None, text, ())])
        entry = self.log.entry_at(self.log.end_offset - 1)
        assert entry is not None
        self.proposals.append(Proposal(epoch, entry.next_offset, entry.crc))
        self._look()
        self._drain()

    # -- doing what Ready says ----------------------------------------------------------------

    def _drain(self) -> None:
        node = self.node
        while node is not None and (ready := node.ready()) is not None:
            self._queue.append(ready)
        self._perform_next()
        self._schedule_wake()

    def _perform_next(self) -> None:
        while self._queue and not self._is_storing and self.node is not None:
            ready = self._queue[0]
            if ready.hard_state is not None:
                self._is_storing = True
                state = ready.hard_state
                self._later(self._disk_ms(), f"stores {state}", lambda s=state: self._store(s))  # type: ignore[misc]
                return
            self._queue.popleft()
            self._act(ready)

    def _store(self, state: HardState) -> None:
        node = self.node
        assert node is not None
        try:
            self.file.store(state, kraft_version=node.kraft_version, voter_ids=node.voters.ids)
        except SimulatedCrash:
            self.world.mark("died while storing the vote")
            self.lose_power(2)
            return
        self.durable = state
        self.checkers.stored(self, state)
        self._is_storing = False
        ready = self._queue.popleft()
        self._act(replace(ready, hard_state=None))
        self._perform_next()
        self._schedule_wake()

    def _act(self, ready: Ready) -> None:
        for message in ready.messages:
            if isinstance(message, Send):
                self._send(message)
            else:
                self._reply(message)
        if ready.sync is not None:
            sync, mark = ready.sync, self.log.begin_sync()
            self._later(
                self._disk_ms(), f"synced {sync.end_offset}", lambda: self._synced(sync, mark)
            )
        if ready.freeze is not None:
            frozen = ready.freeze
            self._later(self._disk_ms(), f"fetched snapshot {frozen}", lambda: self._frozen(frozen))
        if ready.load is not None:
            self.state.load(self.snapshots, ready.load)
            if self.log.end_offset == ready.load.offset:
                self.world.mark("a snapshot was installed")
        if ready.high_watermark is not None:
            self._apply()
        if ready.leadership is not None:
            self.is_told_leader = ready.leadership.is_me
            self.world.note(
                f"n{self.number} leader {ready.leadership.leader_id} {self.is_told_leader}"
            )
            if not ready.leadership.is_me and self.proposals:
                self.world.mark("a proposal was lost with its leader")
                self.proposals.clear()

    def _synced(self, sync: LogSync, mark: int) -> None:
        if self.fails_next_sync:
            # The pages are gone and marked clean: a process that went on would lie.
            self.world.mark("fsync failed")
            self.lose_power(0)
            self.world.after(300, f"n{self.number} back", self.start)
            return
        self.log.end_sync(mark)
        self._step(LogSynced(sync))

    def _frozen(self, snapshot_id: OffsetAndEpoch) -> None:
        if self.snapshots.freeze(snapshot_id):
            self._step(SnapshotFetched(snapshot_id))

    def _apply(self) -> None:
        node = self.node
        assert node is not None
        self.state.last_timestamp = _EPOCH_MS + self.world.now_ms
        self.state.apply(self.log, node.high_watermark)
        self.checkers.applied(self)
        self._acknowledge(node)
        self._step(Applied(self.state.end_offset))
        self._maybe_snapshot()

    def _acknowledge(self, node: RaftNode) -> None:
        leader = self.leader
        if leader is None or leader.high_watermark is None:
            return
        while self.proposals and self.proposals[0].end_offset <= leader.high_watermark:
            self.checkers.acknowledged(self, self.proposals.pop(0))

    def _maybe_snapshot(self) -> None:
        every = self.config.snapshot_every
        if not every or self.state.batches_since_snapshot < every or self._is_writing_snapshot:
            return
        node = self.node
        if node is None or self.state.end_offset > node.high_watermark:
            return
        plan = node.plan_snapshot(self.now(), self.state.end_offset, self.state.last_timestamp)
        if plan is None:
            return
        content = self.state.snapshot(node, plan, self._latency.below(200))
        self._is_writing_snapshot = True

        def written() -> None:
            self._is_writing_snapshot = False
            if plan.snapshot_id.offset >= self.log.start_offset:
                self.snapshots.finish(plan.snapshot_id, content)

        self._later(self._disk_ms() * 3, f"wrote snapshot {plan.snapshot_id}", written)

    # -- network ------------------------------------------------------------------------------

    def _send(self, send: Send) -> None:
        self.checkers.sending(self, send.request)
        number = int(send.peer.host[1:])
        target = self.fleet[number]
        remote = Remote(self.number, self.incarnation, send.peer.id, send.correlation, send.request)
        label = f"n{self.number}>n{number} {type(send.request).__name__} {send.correlation}"
        self.network.carry(self.number, number, label, lambda: target.arrive(send.request, remote))

    def arrive(self, request: messages.Request, remote: Remote) -> None:
        if self.node is None:
            self._refuse(remote)
            return
        if self.world.now_ms < self.paused_until_ms:
            self._later(
                self.paused_until_ms - self.world.now_ms,
                "late request",
                lambda: self.arrive(request, remote),
            )
            return
        is_old = self.config.old_nodes >> self.number & 1
        if is_old and isinstance(request, messages.Vote) and request.is_pre_vote:
            self.world.mark("a node knew no pre-vote")
            self._refuse(remote, is_unsupported=True)
            return
        self._asked(request, remote)

    def _refuse(self, remote: Remote, *, is_unsupported: bool = False) -> None:
        source = self.fleet[remote.source]
        self.network.carry_answer(
            self.number,
            remote.source,
            f"n{self.number}>n{remote.source} refused {remote.correlation}",
            lambda: source.hear(remote, Failed(remote.peer_id, remote.correlation, is_unsupported)),
        )

    def _reply(self, reply: Reply) -> None:
        self.checkers.replying(self, reply.answer)
        origin = self._tokens.pop(reply.token)
        if isinstance(origin, Operator):
            origin.on_answer(reply.answer)
            return
        self.sightings.replied(origin.request, reply.answer)
        self._check_vote(origin.request, reply.answer)
        source = self.fleet[origin.source]
        answer, remote = reply.answer, origin
        kind = type(answer).__name__
        label = f"n{self.number}>n{origin.source} {kind} {answer.error.name} {origin.correlation}"
        self.network.carry_answer(
            self.number,
            origin.source,
            label,
            lambda: source.hear(remote, Answered(remote.peer_id, remote.correlation, answer)),
        )

    def _check_vote(self, request: messages.Request, answer: messages.Answer) -> None:
        if not isinstance(answer, messages.VoteAnswer) or not isinstance(request, messages.Vote):
            return
        if answer.is_granted and not request.is_pre_vote:
            self.checkers.granted(self, request.epoch, request.candidate)

    def hear(self, remote: Remote, event: Event) -> None:
        """An answer, unless the process that asked is gone."""
        if self.node is None or self.incarnation != remote.incarnation:
            return
        if self.world.now_ms < self.paused_until_ms:
            self._later(
                self.paused_until_ms - self.world.now_ms, "late answer", lambda: self._step(event)
            )
            return
        self._step(event)
