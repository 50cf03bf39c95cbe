"""A few replicas on a desk: messages arrive at once, time moves when told, every wire can be cut.

For scenarios that are told step by step; the simulator in `ledgerstone.sim.quorum` is for chance.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from ledgerstone.raft import messages
from ledgerstone.raft.control_batches import bootstrap_snapshot
from ledgerstone.raft.events import (
    Answered,
    Applied,
    Asked,
    Event,
    Failed,
    Leadership,
    LogSync,
    LogSynced,
    Now,
    Ready,
    Resign,
    Send,
    SnapshotFetched,
    Stop,
)
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.replica import NO_SNAPSHOT, Listener, OffsetAndEpoch, Peer, ReplicaKey
from ledgerstone.raft.roles import Role
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.quorum.memory_log import MemoryLog
from ledgerstone.sim.quorum.memory_snapshots import MemorySnapshots

CLUSTER = "cluster-id"
WALL_MS = 1_700_000_000_000
R = TypeVar("R")


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id + 1]) * 16)


def listeners_of(node_id: int) -> tuple[Listener, ...]:
    return (Listener("CONTROLLER", f"host{node_id}", 9093),)


def voter_of(node_id: int) -> Voter:
    return Voter(key=key_of(node_id), listeners=listeners_of(node_id))


def batch(base_offset: int, epoch: int, text: bytes = b"x") -> bytes:
    return bytes(
        build_batch([(WALL_MS, None, text, ())], base_offset=base_offset, leader_epoch=epoch)
    )


class _Arrival(NamedTuple):
    source: int
    send: Send


@dataclass
class Replica:
    identity: Identity
    log: MemoryLog = field(default_factory=MemoryLog)
    snapshots: MemorySnapshots = field(default_factory=MemorySnapshots)
    stored: HardState = field(default_factory=HardState)
    node: RaftNode | None = None
    # While set, syncs of the log wait in `syncs`.
    holds_sync: bool = False
    syncs: list[tuple[LogSync, int]] = field(default_factory=list)
    # What the state machine was told.
    leaderships: list[Leadership] = field(default_factory=list)
    loaded: list[OffsetAndEpoch] = field(default_factory=list)
    consumes: bool = True

    @property
    def raft(self) -> RaftNode:
        assert self.node is not None
        return self.node

    @property
    def role(self) -> Role:
        return self.raft.role

    @property
    def records(self) -> list[tuple[int, int]]:
        """(offset, epoch) of every batch."""
        return [(each.base_offset, each.epoch) for each in self.log.entries_from(0)]


class Desk:
    def __init__(
        self,
        voters: int = 3,
        *,
        observers: int = 0,
        dynamic: bool = True,
        settings: Settings | None = None,
        seed: str = "desk",
    ) -> None:
        self.settings = settings or Settings()
        self.dynamic = dynamic
        self.seed = seed
        self.now_ms = 1_000_000
        ids = range(voters + observers)
        self.voter_set = VoterSet(voter_of(each) for each in range(voters))
        self.static = VoterSet(
            Voter(key=ReplicaKey(each), listeners=listeners_of(each)) for each in range(voters)
        )
        self.bootstrap = tuple(Peer(-2 - each, f"host{each}", 9093) for each in ids)
        self.replicas = [self._replica(each, is_voter=each < voters) for each in ids]
        self.cuts: set[tuple[int, int]] = set()
        # Nodes that answer a pre-vote with UNSUPPORTED_VERSION.
        self.old: set[int] = set()
        self.answers: dict[int, messages.Answer] = {}
        self.sent: list[tuple[int, int, messages.Request]] = []
        self._origins: dict[int, _Arrival | None] = {}
        self._next_token = 0
        self._wire: deque[tuple[int, Event | _Arrival]] = deque()

    def _replica(self, node_id: int, *, is_voter: bool) -> Replica:
        replica = Replica(
            identity=Identity(
                key=key_of(node_id), cluster_id=CLUSTER, listeners=listeners_of(node_id)
            )
        )
        if self.dynamic and is_voter:
            first = bootstrap_snapshot(self.voter_set, wall_ms=WALL_MS)
            replica.snapshots.finish(NO_SNAPSHOT, first)
        return replica

    def __getitem__(self, node_id: int) -> Replica:
        return self.replicas[node_id]

    # -- life ---------------------------------------------------------------------------------

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    def start(self, *ids: int) -> None:
        for node_id in ids or range(len(self.replicas)):
            replica = self.replicas[node_id]
            replica.node = RaftNode(
                identity=replica.identity,
                settings=self.settings,
                log=replica.log,
                snapshots=replica.snapshots,
                hard_state=replica.stored,
                static_voters=VoterSet() if self.dynamic else self.static,
                bootstrap=self.bootstrap,
                dice=SeededDice(f"{self.seed}/{node_id}"),
                now=self.now,
            )
            self._perform(node_id)
        self.deliver()

    def kill(self, *ids: int) -> None:
        for node_id in ids:
            self.replicas[node_id].node = None
            self.replicas[node_id].syncs.clear()
            self.replicas[node_id].leaderships.clear()

    def lose_power(self, *ids: int) -> None:
        self.kill(*ids)
        for node_id in ids:
            self.replicas[node_id].log.lose_power(0)

    def elect(self, node_id: int) -> Replica:
        """Makes this one the leader: the others are cut off from asking until it leads."""
        others = [each for each in range(len(self.replicas)) if each != node_id]
        for _ in range(200):
            if self.leader_id == node_id:
                return self.replicas[node_id]
            for each in others:
                node = self.replicas[each].node
                if node is not None and hasattr(node.role, "election_deadline_ms"):
                    node.role.election_deadline_ms = self.now_ms + 1_500
                if node is not None and hasattr(node.role, "fetch_deadline_ms"):
                    node.role.fetch_deadline_ms = min(
                        node.role.fetch_deadline_ms, self.now_ms + 1_500
                    )
            self.run(100)
        raise AssertionError(f"{node_id} does not lead: {[each.node for each in self.replicas]}")

    @property
    def leader_id(self) -> int | None:
        leading = [
            each.identity.key.id
            for each in self.replicas
            if each.node is not None and type(each.node.role).__name__ == "Leader"
        ]
        return leading[0] if len(leading) == 1 else None

    def wait_for_leader(self, limit_ms: int = 20_000) -> Replica:
        for _ in range(limit_ms // 50):
            if self.leader_id is not None:
                return self.replicas[self.leader_id]
            self.run(50)
        raise AssertionError([each.node and each.node.role for each in self.replicas])

    # -- wires --------------------------------------------------------------------------------

    def cut(self, a: int, b: int) -> None:
        """Nothing goes from `a` to `b`."""
        self.cuts.add((a, b))

    def isolate(self, node_id: int) -> None:
        for other in range(len(self.replicas)):
            if other != node_id:
                self.cut(node_id, other)
                self.cut(other, node_id)

    def heal(self) -> None:
        self.cuts.clear()

    # -- steps --------------------------------------------------------------------------------

    def run(self, ms: int) -> None:
        """Time passes; everybody wakes when due, and messages take none."""
        end_ms = self.now_ms + ms
        while True:
            due = [each.node.next_deadline_ms for each in self.replicas if each.node is not None]
            self.now_ms = max(self.now_ms + 1, min([*due, end_ms]))
            if self.now_ms > end_ms:
                self.now_ms = end_ms
                return
            for node_id, replica in enumerate(self.replicas):
                if replica.node is not None and replica.node.next_deadline_ms <= self.now_ms:
                    replica.node.tick(self.now)
                    self._perform(node_id)
            self.deliver()
            if self.now_ms >= end_ms:
                return

    def step(self, node_id: int, event: Event) -> None:
        self.replicas[node_id].raft.step(self.now, event)
        self._perform(node_id)
        self.deliver()

    def resign(self, node_id: int) -> None:
        self.step(node_id, Resign(self.replicas[node_id].raft.epoch))

    def stop(self, node_id: int) -> None:
        self.step(node_id, Stop())

    def ask(self, node_id: int, request: messages.Request, kind: type[R]) -> R:
        """The answer, which must be there at once."""
        answer = self.answers.get(self.send(node_id, request))
        assert isinstance(answer, kind), answer
        return answer

    def send(self, node_id: int, request: messages.Request) -> int:
        """The token; its answer will be in `answers`."""
        token = self._next_token
        self._next_token += 1
        self._origins[token] = None
        self.step(node_id, Asked(token, request))
        return token

    def propose(self, node_id: int, text: bytes = b"record") -> int:
        """The offset behind it."""
        raft = self.replicas[node_id].raft
        end_offset = raft.propose(self.now, raft.epoch, [(WALL_MS, None, text, ())])
        self._perform(node_id)
        self.deliver()
        return end_offset

    def release_syncs(self, node_id: int) -> None:
        replica = self.replicas[node_id]
        replica.holds_sync = False
        waiting, replica.syncs = replica.syncs, []
        for sync, mark in waiting:
            replica.log.end_sync(mark)
            self.step(node_id, LogSynced(sync))

    def deliver(self) -> None:
        while self._wire:
            target, what = self._wire.popleft()
            replica = self.replicas[target]
            if isinstance(what, _Arrival):
                self._arrive(target, what)
            elif replica.node is not None:
                replica.node.step(self.now, what)
                self._perform(target)

    def _arrive(self, target: int, what: _Arrival) -> None:
        source, send = what
        replica = self.replicas[target]
        is_pre_vote = isinstance(send.request, messages.Vote) and send.request.is_pre_vote
        if replica.node is None or (target in self.old and is_pre_vote):
            failure = Failed(send.peer.id, send.correlation, replica.node is not None)
            self._answer(target, source, failure)
            return
        token = self._next_token
        self._next_token += 1
        self._origins[token] = what
        replica.node.step(self.now, Asked(token, send.request))
        self._perform(target)

    def _answer(self, source: int, target: int, event: Event) -> None:
        if (source, target) not in self.cuts:
            self._wire.append((target, event))

    # -- hands --------------------------------------------------------------------------------

    def _perform(self, node_id: int) -> None:
        replica = self.replicas[node_id]
        while replica.node is not None and (ready := replica.node.ready()) is not None:
            self._act(node_id, replica, ready)

    def _act(self, node_id: int, replica: Replica, ready: Ready) -> None:
        if ready.hard_state is not None:
            replica.stored = ready.hard_state
        for message in ready.messages:
            if isinstance(message, Send):
                target = int(message.peer.host.removeprefix("host"))
                self.sent.append((node_id, target, message.request))
                if (node_id, target) not in self.cuts:
                    self._wire.append((target, _Arrival(node_id, message)))
                continue
            origin = self._origins.pop(message.token)
            if origin is None:
                self.answers[message.token] = message.answer
            else:
                source, send = origin
                event = Answered(send.peer.id, send.correlation, message.answer)
                self._answer(node_id, source, event)
        if ready.sync is not None:
            replica.syncs.append((ready.sync, replica.log.begin_sync()))
        if ready.freeze is not None and replica.snapshots.freeze(ready.freeze):
            self._wire.append((node_id, SnapshotFetched(ready.freeze)))
        if ready.load is not None:
            replica.loaded.append(ready.load)
        if ready.leadership is not None:
            replica.leaderships.append(ready.leadership)
        if ready.high_watermark is not None and replica.consumes:
            self._wire.append((node_id, Applied(ready.high_watermark)))
        if not replica.holds_sync:
            waiting, replica.syncs = replica.syncs, []
            for sync, mark in waiting:
                replica.log.end_sync(mark)
                self._wire.append((node_id, LogSynced(sync)))


def with_key(replica: Replica, key: ReplicaKey) -> Replica:
    """The same node with an empty disk."""
    return Replica(identity=replace(replica.identity, key=key))
