"""One node of a simulated quorum: a process with a replica, its disk, its clock. Part of sim."""

from collections.abc import Callable, Sequence

from ledgerstone.dataclasses import replace
from ledgerstone.errors import CorruptFile, LedgerstoneError
from ledgerstone.raft import messages
from ledgerstone.raft.events import Asked, Event, Now, Resign, Stop
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import Peer
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voters import VoterSet
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.quorum.hands import Hands
from ledgerstone.sim.quorum.host import Host, Proposal
from ledgerstone.sim.quorum.mail import Mail, Operator, Remote
from ledgerstone.sim.quorum.memory_log import Entry, MemoryLog
from ledgerstone.sim.quorum.memory_snapshots import MemorySnapshots
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.quorum.scenario import Config
from ledgerstone.sim.quorum.sightings import Sightings
from ledgerstone.sim.quorum.state_machine import State, StateMachine
from ledgerstone.sim.world import Event as Scheduled
from ledgerstone.sim.world import Violation, World

_DIRECTORY = "/meta"
_EPOCH_MS = 1_700_000_000_000
_BACK_MS = 300


class Machine:
    """Life and time. `Hands` does what the replica decides, `Mail` carries what it says."""

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
        make_state: Callable[["Machine"], State] = lambda machine: StateMachine(),
        share: Callable[[Entry], Entry] = lambda entry: entry,
    ) -> None:
        self._share = share
        self._world = world
        self._make_state = make_state
        self.checkers = checkers
        self._sightings = sightings
        self._bootstrap = bootstrap
        self.host = Host(
            number=number,
            identity=identity,
            settings=settings,
            static_voters=static_voters,
            log=MemoryLog(),
            snapshots=MemorySnapshots(),
            state=StateMachine(),
        )
        clock_dice = world.dice(f"clock{number}")
        self._rate = 1.0 + clock_dice.between(-config.skew_ppm, config.skew_ppm) / 1_000_000
        self._clock_offset_ms = clock_dice.between(0, 10_000_000)
        self.latency = world.dice(f"latency{number}")
        self.new_disk()
        self.incarnation = 0
        self.dies_with_power = True
        self.paused_until_ms = 0
        # How wrong its wall clock is.
        self.wall_ahead_ms = 0
        # Hears that its disks lost what was not synced, or (True) everything.
        self.on_loss: Callable[[bool], None] = lambda whole: None
        # Stays down while the others must recover.
        self.is_left_out = False
        self._wake: Scheduled | None = None
        self._wake_at_ms = -1
        self.hands = Hands(world, config, self.host, checkers, self)
        self.mail = Mail(world, network, config, self.host, checkers, sightings, self)

    def new_disk(self) -> None:
        host = self.host
        self.fs = SimFilesystem(
            dice=self._world.dice(f"disk{host.number}/{host.identity.key.short}")
        )
        self.fs.make_dir(_DIRECTORY)
        self.fs.fsync_dir("/")
        host.log = MemoryLog(self._appended, self._share)
        host.snapshots = MemorySnapshots()
        host.durable = HardState()
        self.file = QuorumStateFile(self.fs, _DIRECTORY)

    def _appended(self, entry: Entry) -> None:
        self.checkers.appended(self.host, entry)

    def meet(self, fleet: Sequence["Machine"]) -> None:
        self.mail.boxes = [each.mail for each in fleet]

    @property
    def number(self) -> int:
        return self.host.number

    @property
    def node(self) -> RaftNode | None:
        return self.host.node

    # -- time ---------------------------------------------------------------------------------

    def now(self) -> Now:
        world_ms = self._world.now_ms
        return Now(
            int(world_ms * self._rate) + self._clock_offset_ms,
            _EPOCH_MS + world_ms + self.wall_ahead_ms,
        )

    def world_ms(self, due_ms: int) -> int:
        """When this machine's monotonic clock shows `due_ms`, but not before the next moment."""
        at_ms = int((due_ms - self._clock_offset_ms) / self._rate) + 1
        return max(at_ms, self._world.now_ms + 1)

    @property
    def is_paused(self) -> bool:
        return self._world.now_ms < self.paused_until_ms

    def schedule_wake(self) -> None:
        if self.node is None:
            return
        at_ms = self.world_ms(self.node.next_deadline_ms)
        if self._wake is not None and self._wake.action is not None:
            if at_ms == self._wake_at_ms:
                return
            self._wake.cancel()
        self._wake_at_ms = at_ms
        self._wake = self.later(at_ms - self._world.now_ms, "wake", self._tick)

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> Scheduled:
        """For this process only: what a dead one had planned does not happen."""
        incarnation = self.incarnation

        def run() -> None:
            if self.incarnation != incarnation:
                return
            if self.is_paused:
                self.later(self.paused_until_ms - self._world.now_ms, label, action)
                return
            action()

        return self._world.after(delay_ms, f"n{self.number} {label}", run)

    def when_awake(self, label: str, action: Callable[[], None]) -> None:
        if self.is_paused:
            self.later(self.paused_until_ms - self._world.now_ms, label, action)
        else:
            action()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        if self.node is not None or self.is_left_out:
            return
        host = self.host
        self.incarnation += 1
        self._wake = None
        self.hands.reset()
        self.mail.reset()
        self._world.note(f"n{self.number} starts")
        host.state = self._make_state(self)
        try:
            hard_state = self.file.load()
            self.checkers.started(host, hard_state)
            host.durable = hard_state
            host.node = RaftNode(
                identity=host.identity,
                settings=host.settings,
                log=host.log,
                snapshots=host.snapshots,
                hard_state=hard_state,
                static_voters=host.static_voters,
                bootstrap=self._bootstrap,
                dice=self._world.dice(f"raft{self.number}/{self.incarnation}"),
                now=self.now(),
            )
        except SimulatedCrash:
            self.lose_power(2)
            self.come_back(_BACK_MS)
            return
        except Violation:
            raise
        except (LedgerstoneError, AssertionError, LookupError) as error:
            checker = "VotesSurvive" if isinstance(error, CorruptFile) else "NodeFault"
            raise Violation(checker, f"n{self.number} at start: {error!r}") from error
        self._sightings.started(host)
        self.hands.drain()

    def come_back(self, delay_ms: int) -> None:
        self._world.after(delay_ms, f"n{self.number} back", self.start)

    def die(self) -> None:
        """The process ends; the page cache stays."""
        if self.node is not None:
            self._world.note(f"n{self.number} dies")
            self.checkers.died(self.host)
        self.host.node = None
        self.incarnation += 1
        self.host.snapshots.drop_part()
        self.fs.kill()

    def lose_power(self, mode: int) -> None:
        """Mode 0: nothing unsynced survives; 1: all; 2: some."""
        self.die()
        host = self.host
        count = host.log.unsynced_count
        kept = (0, count, self.latency.below(count + 1))[mode]
        if host.log.lose_power(kept):
            self._world.mark("power loss took unsynced records")
        host.snapshots.lose_power(undeletes=mode > 0)
        self.fs.clear_faults()
        self.fs.power_loss(("none", "all", "random")[mode])
        if mode != 1:
            self.on_loss(False)

    def wipe(self, directory_id: bytes) -> None:
        """Another disk: the same node, another replica."""
        self.die()
        key = self.host.identity.key._replace(directory_id=directory_id)
        self.host.identity = replace(self.host.identity, key=key)
        self.new_disk()
        self.on_loss(True)

    # -- the replica's calls ------------------------------------------------------------------

    def _tick(self) -> None:
        self._wake = None
        self._call(lambda node: node.tick(self.now()))

    def step(self, event: Event) -> None:
        self._call(lambda node: node.step(self.now(), event))

    def _call(self, call: Callable[[RaftNode], object]) -> None:
        node = self.node
        if node is None:
            return
        try:
            call(node)
        except Violation:
            raise
        except (LedgerstoneError, AssertionError, LookupError) as error:
            raise Violation("NodeFault", f"n{self.number}: {error!r}") from error
        self.settle()

    def settle(self) -> None:
        """Looks at what a call has made of the replica, and does what it asks for."""
        self.checkers.stepped(self.host)
        self._sightings.stepped(self.host)
        self.hands.drain()

    def asked(self, request: messages.Request, origin: Remote | Operator) -> None:
        self.step(Asked(self.mail.token_for(origin), request))
        # A leader that slept resigns first: what came meanwhile is no contact.
        node = self.node
        if isinstance(request, messages.Fetch | messages.FetchSnapshot) and node is not None:
            self._note_contact(node, request)

    def _note_contact(
        self, node: RaftNode, request: messages.Fetch | messages.FetchSnapshot
    ) -> None:
        """A fetch of another epoch is fenced, and does not count. Nor does one that a leader finds
        on waking, after its time to hear of its voters has run out."""
        if request.epoch == node.epoch and not node.is_due(self.now()):
            self.checkers.contacted(self.host, request.replica)

    def ask(self, request: messages.Request, on_answer: Callable[[messages.Answer], None]) -> None:
        """From an operator beside the node."""
        self.asked(request, Operator(on_answer))

    def tell(self, event: Resign | Stop) -> None:
        if not self.is_paused:
            self.checkers.asked_to_leave(self.host)
            self.step(event)

    def propose(self, epoch: int, text: bytes) -> None:
        parts = [(_EPOCH_MS + self._world.now_ms, None, text, ())]

        def call(node: RaftNode) -> None:
            end_offset = node.propose(self.now(), epoch, parts)
            entry = self.host.log.entry_at(end_offset - 1)
            assert entry is not None
            self.hands.proposals.append(Proposal(epoch, end_offset, entry.crc))

        self._call(call)
