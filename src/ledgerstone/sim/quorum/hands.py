"""Does what `Ready` says, in the order of its fields, with latencies and deaths. Part of sim."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ledgerstone.raft.events import (
    Applied,
    Event,
    LogSync,
    LogSynced,
    Now,
    Ready,
    Reply,
    Send,
    SnapshotFetched,
)
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.quorum.host import Host, Proposal
from ledgerstone.sim.quorum.scenario import Config
from ledgerstone.sim.world import Event as Scheduled
from ledgerstone.sim.world import World

_BACK_MS = 300


class Post(Protocol):
    def send(self, message: Send) -> None: ...

    def reply(self, message: Reply) -> None: ...


class Body(Protocol):
    """What hands belong to."""

    latency: SeededDice
    file: QuorumStateFile
    dies_with_power: bool

    @property
    def mail(self) -> Post: ...

    def now(self) -> Now: ...

    def step(self, event: Event) -> None: ...

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> Scheduled: ...

    def schedule_wake(self) -> None: ...

    def die(self) -> None: ...

    def lose_power(self, mode: int) -> None: ...

    def come_back(self, delay_ms: int) -> None: ...


class Hands:
    def __init__(
        self, world: World, config: Config, host: Host, checkers: Checkers, body: Body
    ) -> None:
        self._world = world
        self._config = config
        self._host = host
        self._checkers = checkers
        self._body = body
        self.slow_ms = 0
        self.reset()

    def reset(self) -> None:
        """Another process: what the last one had on its hands is gone."""
        self._queue: deque[Ready] = deque()
        self._is_storing = False
        self._is_performing = False
        self._is_writing_snapshot = False
        self.fails_next_sync = False
        self.proposals: list[Proposal] = []
        self.is_told_leader = False

    def _disk_ms(self) -> int:
        latency = self._body.latency
        return latency.below(self._config.disk_ms + 1) + latency.below(self.slow_ms + 1)

    # -- in order -----------------------------------------------------------------------------

    def drain(self) -> None:
        node = self._host.node
        while node is not None and (ready := node.ready()) is not None:
            self._queue.append(ready)
        self._perform()
        self._body.schedule_wake()

    def _perform(self) -> None:
        """What the state machine does on hearing of one Ready waits for the end of that one."""
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._queue and not self._is_storing and self._host.node is not None:
                ready = self._queue[0]
                if ready.hard_state is not None:
                    self._begin_storing(ready.hard_state)
                    return
                self._queue.popleft()
                self._act(ready)
        finally:
            self._is_performing = False

    def _begin_storing(self, state: HardState) -> None:
        self._is_storing = True
        self._body.later(self._disk_ms(), f"stores {state}", lambda: self._store(state))

    def _store(self, state: HardState) -> None:
        node = self._host.node
        assert node is not None
        try:
            self._body.file.store(
                state, kraft_version=node.kraft_version, voter_ids=node.voters.ids
            )
        except SimulatedCrash:
            self._world.mark("died while storing the vote")
            if self._body.dies_with_power:
                self._body.lose_power(2)
            else:
                self._body.die()
            return
        self._host.durable = state
        self._is_storing = False
        self._queue[0] = self._queue[0]._replace(hard_state=None)
        self._perform()
        self._body.schedule_wake()

    def _act(self, ready: Ready) -> None:
        host, body = self._host, self._body
        for message in ready.messages:
            if isinstance(message, Send):
                body.mail.send(message)
            else:
                body.mail.reply(message)
        if ready.sync is not None:
            sync, mark = ready.sync, host.log.begin_sync()
            label = f"synced {sync.end_offset}"
            body.later(self._disk_ms(), label, lambda: self._synced(sync, mark))
        if ready.freeze is not None:
            frozen = ready.freeze
            body.later(self._disk_ms(), f"fetched {frozen}", lambda: self._frozen(frozen))
        if ready.load is not None:
            host.state.load(host.snapshots, ready.load)
            if host.log.end_offset == ready.load.offset:
                self._world.mark("a snapshot was installed")
        if ready.high_watermark is not None:
            self._apply()
        if ready.leadership is not None:
            self.is_told_leader = ready.leadership.is_me
            if not ready.leadership.is_me and self.proposals:
                self._world.mark("a proposal was lost with its leader")
                self.proposals.clear()
            host.state.leadership(ready.leadership)

    # -- reports ------------------------------------------------------------------------------

    def _synced(self, sync: LogSync, mark: int) -> None:
        if self.fails_next_sync:
            # The pages are gone and marked clean: a process that went on would lie.
            self._world.mark("fsync failed")
            self._body.lose_power(0)
            self._body.come_back(_BACK_MS)
            return
        self._host.log.end_sync(mark)
        self._body.step(LogSynced(sync))

    def _frozen(self, snapshot_id: OffsetAndEpoch) -> None:
        if self._host.snapshots.freeze(snapshot_id):
            self._body.step(SnapshotFetched(snapshot_id))

    # -- the state machine --------------------------------------------------------------------

    def _apply(self) -> None:
        host = self._host
        assert host.node is not None
        host.state.last_timestamp = self._body.now().wall_ms
        host.state.apply(host.log, host.node.high_watermark)
        self._checkers.applied(host)
        self._acknowledge()
        self._body.step(Applied(host.state.end_offset))
        self._maybe_snapshot()

    def _acknowledge(self) -> None:
        leader = self._host.leader
        if leader is None or leader.high_watermark is None:
            return
        while self.proposals and self.proposals[0].end_offset <= leader.high_watermark:
            self._checkers.acknowledged(self._host, self.proposals.pop(0))

    def _maybe_snapshot(self) -> None:
        host, every = self._host, self._config.snapshot_every
        if not every or host.state.batches_since_snapshot < every or self._is_writing_snapshot:
            return
        node = host.node
        if node is None or host.state.end_offset > node.high_watermark:
            return
        plan = node.plan_snapshot(
            self._body.now(), host.state.end_offset, host.state.last_timestamp
        )
        if plan is None:
            return
        content = host.state.snapshot(node, plan, self._body.latency.below(200))
        if content is None:
            return
        self._is_writing_snapshot = True

        def written() -> None:
            self._is_writing_snapshot = False
            # A fetched one may have taken its place.
            if plan.snapshot_id.offset >= host.log.start_offset:
                host.snapshots.finish(plan.snapshot_id, content)

        self._body.later(self._disk_ms() * 3, f"wrote snapshot {plan.snapshot_id}", written)
