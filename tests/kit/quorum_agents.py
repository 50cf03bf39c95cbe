"""Quorum agents without sockets: a simulated disk each, one virtual clock, bytes carried by hand.

Everything between two agents is real: what `Calls` sends is decoded by a server's side, answered by
the other agent, encoded and received. Nodes can be killed, cut off and started again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.records import encode_record
from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeature,
)
from ledgerstone.protocol.messages.metadata_records import NoOpRecord, TopicRecord
from ledgerstone.protocol.server_connection import ConnectionLimits, ServerConnection
from ledgerstone.raft.control_batches import bootstrap_snapshot
from ledgerstone.raft.events import Leadership
from ledgerstone.raft.replica import Listener, OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.server.effects import (
    Dial,
    Effect,
    FreezeSnapshot,
    Halt,
    Hangup,
    Send,
    SyncMetadata,
    WriteSnapshot,
)
from ledgerstone.server.quorum.agent import QuorumAgent
from ledgerstone.server.quorum.door import CommittedBatch
from ledgerstone.server.quorum.opening import open_quorum
from ledgerstone.server.quorum.snapshot_writing import write_snapshot
from ledgerstone.server.results import DialFailed, Dialled, Done, Failed
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.log_dir import LogDir, open_log_dir
from ledgerstone.storage.sync_plan import sync_all
from tests.kit.logs import T0

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))


@dataclass
class Machine:
    """A state machine that remembers the names of topics."""

    agent: QuorumAgent | None = None
    names: list[str] = field(default_factory=list)
    batches: list[CommittedBatch] = field(default_factory=list)
    leaderships: list[Leadership] = field(default_factory=list)
    loads: list[OffsetAndEpoch] = field(default_factory=list)
    led_epoch: int | None = None
    in_transaction: bool = False
    on_committed: Callable[[CommittedBatch], None] = lambda batch: None

    def load(self, snapshot_id: OffsetAndEpoch, records: Iterator[MetadataRecord]) -> None:
        self.loads.append(snapshot_id)
        self.names = [each.name for each in records if isinstance(each, TopicRecord)]

    def committed(self, batch: CommittedBatch) -> None:
        self.batches.append(batch)
        self.names += [each.name for each in batch.records() if isinstance(each, TopicRecord)]
        self.on_committed(batch)

    def leadership(self, leadership: Leadership) -> None:
        self.leaderships.append(leadership)
        self.led_epoch = leadership.epoch if leadership.is_me else None

    def snapshot(self) -> Iterable[MetadataRecord] | None:
        return None if self.in_transaction else [topic(name) for name in self.names]


@dataclass(eq=False)
class Wire:
    """One connection, seen from both ends."""

    number: int
    caller: "Node"
    target: "Node"
    server: ServerConnection = field(default_factory=lambda: ServerConnection(ConnectionLimits()))
    is_busy: bool = False


class Node:
    """`settings` are those of a server.properties."""

    def __init__(self, net: "Net", node_id: int, settings: dict[str, str]) -> None:
        self.net = net
        self.id = node_id
        self.settings = settings
        self.fs = SimFilesystem(dice=SeededDice(f"disk {node_id}"), clock=net.clock)
        self.address = (f"host{node_id}", 9093)
        self.is_cut = False
        self.halts: list[str] = []
        self.life = 0
        self.agent: QuorumAgent | None = None
        self.machine = Machine()
        self.wires: dict[int, Wire] = {}
        self.log_dir: LogDir | None = None
        # While set, syncs of the log wait here.
        self.held_syncs: list[SyncMetadata] | None = None
        self.fails_sync = False

    @property
    def config(self) -> BrokerConfig:
        return BrokerConfig.from_raw(self.settings)

    @property
    def raft(self) -> QuorumAgent:
        assert self.agent is not None
        return self.agent

    @property
    def is_leader(self) -> bool:
        return self.agent is not None and self.machine.led_epoch is not None

    def start(self) -> None:
        self.life += 1
        net = self.net
        dice = SeededDice(f"node {self.id} life {self.life}")
        self.log_dir = open_log_dir(
            self.fs, net.clock, dice, "/data", node_id=self.id, cluster_id=CLUSTER_ID
        )
        config = self.config
        advertised = config.cluster.advertised_controller_listeners or config.advertised_listeners
        agent = open_quorum(config, net.clock, dice, self.log_dir, advertised)
        self.machine = Machine(agent)
        self.agent = agent
        agent.turn = agent.calls.turn = self
        agent.start(self.machine)

    def act(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.net.later(self, lambda effect=effect: self._perform(effect))  # type: ignore[misc]

    def kill(self, *, loses_power: bool = True) -> None:
        self.agent = None
        self.life += 1
        for wire in list(self.wires.values()):
            self.net.break_wire(wire)
        for other in self.net.nodes.values():
            for wire in list(other.wires.values()):
                if wire.target is self:
                    self.net.break_wire(wire)
        if loses_power:
            self.fs.power_loss("none")
        else:
            self.fs.kill()

    def write(self, *names: str) -> int:
        """Proposes topics; only the leader may. Returns the offset behind them."""
        assert self.machine.led_epoch is not None
        parts = [(T0, None, encode_record(topic(name)), ()) for name in names]
        end = self.raft.propose(self.machine.led_epoch, parts)
        self.raft.advance()
        return end

    def write_nothing(self) -> int:
        assert self.machine.led_epoch is not None
        parts = [(T0, None, encode_record(NoOpRecord()), ())]
        end = self.raft.propose(self.machine.led_epoch, parts)
        self.raft.advance()
        return end

    def tick(self) -> None:
        agent = self.raft
        self.act(agent.tick())
        self.act(agent.calls.tick())

    @property
    def next_deadline_ms(self) -> int | None:
        found = [self.raft.next_deadline_ms, self.raft.calls.next_deadline_ms]
        return min((each for each in found if each is not None), default=None)

    # -- effects ------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        agent = self.raft
        match effect:
            case Dial():
                self._dial(effect)
            case Send(connection, pieces):
                wire = self.wires.get(connection)
                if wire is not None:
                    data = b"".join(pieces)  # type: ignore[arg-type]
                    self.net.later(wire.target, lambda: self.net.serve(wire, data))
            case Hangup(connection):
                self.wires.pop(connection, None)
            case SyncMetadata():
                if self.held_syncs is not None:
                    self.held_syncs.append(effect)
                else:
                    self.finish_sync(effect)
            case FreezeSnapshot():
                sync_all(self.fs, effect.syncs)
                self.act(agent.completed(effect, Done()))
            case WriteSnapshot(work):
                write_snapshot(self.fs, work)
                self.act(agent.completed(effect, Done()))
            case Halt(reason):
                self.halts.append(reason)
                self.kill(loses_power=False)
            case _:
                raise AssertionError(effect)

    def finish_sync(self, effect: SyncMetadata) -> None:
        agent = self.raft
        if self.fails_sync:
            self.act(agent.completed(effect, Failed(OSError("fsync failed"))))
            return
        sync_all(self.fs, effect.syncs)
        self.act(agent.completed(effect, Done()))

    def _dial(self, effect: Dial) -> None:
        target = self.net.find(effect.host, effect.port)
        calls = self.raft.calls
        if target is None or target.agent is None or target.is_cut or self.is_cut:
            self.act(calls.completed(effect, DialFailed("refused")))
            return
        wire = Wire(self.net.next_number(), self, target)
        self.wires[wire.number] = wire
        self.act(calls.completed(effect, Dialled(wire.number)))


class Net:
    def __init__(self) -> None:
        self.clock = VirtualClock(start_ms=T0)
        self.nodes: dict[int, Node] = {}
        self._queue: deque[tuple[Node, int, Callable[[], None]]] = deque()
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def add(self, node_id: int, settings: dict[str, str]) -> Node:
        node = self.nodes[node_id] = Node(self, node_id, settings)
        return node

    def find(self, host: str, port: int) -> Node | None:
        return next((each for each in self.nodes.values() if each.address == (host, port)), None)

    def later(self, node: Node, action: Callable[[], None]) -> None:
        """In the life the node has now."""
        self._queue.append((node, node.life, action))

    # -- carrying bytes -----------------------------------------------------------------------

    def serve(self, wire: Wire, data: bytes) -> None:
        if wire.caller.is_cut or wire.target.is_cut:
            return
        wire.server.receive_data(data)
        wire.server.own_queue()
        self._serve_next(wire)

    def _serve_next(self, wire: Wire) -> None:
        while not wire.is_busy:
            asked = wire.server.next_request()
            if asked is None:
                return
            wire.is_busy = True
            message = asked.message

            def answer(response: ApiMessage) -> None:
                wire.is_busy = False
                wire.server.respond(response)
                data = b"".join(wire.server.data_to_send())  # type: ignore[arg-type]
                self.later(wire.caller, lambda: self._deliver(wire, data))
                self.later(wire.target, lambda: self._serve_next(wire))

            if message.api_key == ApiKey.API_VERSIONS:
                answer(versions())
            else:
                wire.target.raft.ask(message, answer)

    def _deliver(self, wire: Wire, data: bytes) -> None:
        if wire.caller.is_cut or wire.target.is_cut or wire.number not in wire.caller.wires:
            return
        wire.caller.act(wire.caller.raft.calls.received(wire.number, memoryview(data)))

    def break_wire(self, wire: Wire) -> None:
        if wire.caller.wires.pop(wire.number, None) is not None and wire.caller.agent is not None:
            calls = wire.caller.agent.calls
            self.later(wire.caller, lambda: wire.caller.act(calls.lost(wire.number, "gone")))

    # -- time ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everything that needs no time."""
        while self._queue:
            node, life, action = self._queue.popleft()
            if node.agent is not None and node.life == life:
                action()

    def run(self, ms: int) -> None:
        self.run_until(lambda: False, ms, must=False)

    def run_until(
        self, is_done: Callable[[], bool], ms: int = 20_000, *, must: bool = True
    ) -> None:
        """Until a condition holds; time passes from deadline to deadline."""
        end_ms = self.clock.monotonic_ms() + ms
        self.settle()
        while not is_done() and self.clock.monotonic_ms() < end_ms:
            alive = [each for each in self.nodes.values() if each.agent is not None]
            deadlines = [each.next_deadline_ms for each in alive]
            now_ms = self.clock.monotonic_ms()
            due = min((each for each in deadlines if each is not None), default=end_ms)
            self.clock.advance(ms=min(max(due - now_ms, 0), end_ms - now_ms) or 1)
            for each in alive:
                if each.agent is not None:
                    each.tick()
            self.settle()
        assert is_done() or not must, "it did not come to that"

    @property
    def leader(self) -> Node | None:
        found = [each for each in self.nodes.values() if each.is_leader and not each.is_cut]
        assert len(found) <= 1, [each.id for each in found]
        return found[0] if found else None


def versions() -> ApiVersionsResponse:
    keys = (1, 18, 52, 53, 54, 55, 59, 80, 81, 82)
    return ApiVersionsResponse(
        api_keys=[ApiVersion(key, APIS[key].first_version, APIS[key].last_version) for key in keys],
        supported_features=[SupportedFeature("kraft.version", 0, 1)],
    )


def static_settings(node_id: int, voters: Iterable[int], **more: str) -> dict[str, str]:
    """Of a controller, or of a broker that follows."""
    ids = list(voters)
    is_controller = node_id in ids
    listener = f"CONTROLLER://host{node_id}:9093"
    return {
        "process.roles": "controller" if is_controller else "broker",
        "node.id": str(node_id),
        "log.dirs": "/data",
        "listeners": listener if is_controller else f"PLAINTEXT://host{node_id}:9092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each}@host{each}:9093" for each in ids),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def dynamic_settings(node_id: int, servers: Iterable[int]) -> dict[str, str]:
    """Of a controller whose voters are in the log."""
    settings = static_settings(node_id, [node_id])
    del settings["controller.quorum.voters"]
    names = ",".join(f"host{each}:9093" for each in servers)
    return {**settings, "controller.quorum.bootstrap.servers": names}


def voter_of(node: Node) -> Voter:
    """As a format writes it, which also gives the directory its id."""
    dice = SeededDice(f"format {node.id}")
    log_dir = open_log_dir(
        node.fs, node.net.clock, dice, "/data", node_id=node.id, cluster_id=CLUSTER_ID
    )
    log_dir.lock.release()
    directory_id = log_dir.meta.directory_id
    assert directory_id is not None
    listeners = (Listener("CONTROLLER", *node.address),)
    return Voter(key=ReplicaKey(node.id, directory_id), listeners=listeners)


def format_with(nodes: Iterable[Node], voters: VoterSet) -> None:
    """`--initial-controllers`."""
    for node in nodes:
        directory = "/data/__cluster_metadata-0"
        node.fs.make_dir(directory)
        name = "00000000000000000000-0000000000.checkpoint"
        file = node.fs.open(f"{directory}/{name}", create=True)
        file.pwrite(bootstrap_snapshot(voters, wall_ms=T0), 0)
        file.fsync()
        node.fs.fsync_dir(directory)
        node.fs.fsync_dir("/data")
        node.fs.fsync_dir("/")
