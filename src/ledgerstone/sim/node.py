"""A machine in the world: a process that may die at any disk operation, a disk, a clock, links.

The node knows a broker only as something that is called and says effects; the performer carries
them out. A later tenant (a raft voter, a broker that dials others) brings an opener and a performer
of its own.
"""

from collections.abc import Callable

from ledgerstone.config.broker import BrokerConfig, Listener
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import LedgerstoneError
from ledgerstone.fs import FileSlice
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import Dial, Effect
from ledgerstone.server.opening import Surroundings as BrokerWorld
from ledgerstone.server.opening import open_broker
from ledgerstone.server.session import DEFAULT_LISTENER
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.network import CLIENT_PORT, Link, Network
from ledgerstone.sim.node_clock import NodeClock
from ledgerstone.sim.performer import SimHands
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.sim.world import Event, Violation, World
from ledgerstone.types import TopicPartition

DATA = "/data"
# What a supervisor waits before it starts a broker again that could not start.
RESTART_MS = 1_000


@dataclass(slots=True)
class _Connection:
    number: int
    link: Link
    inbox: list[bytes] = field(default_factory=list)


class Node:
    """Down, up, or paused. `boot` counts processes: what an old one left to do is not done."""

    def __init__(
        self,
        world: World,
        network: Network,
        *,
        name: str,
        node_id: int,
        settings: dict[str, str],
        skew_ppm: int,
        latency: tuple[int, int],
    ) -> None:
        self.world = world
        self.network = network
        self.name = name
        self.clock = NodeClock(world, skew_ppm=skew_ppm)
        self.dice = world.dice(f"{name}/broker")
        self._disk_dice = world.dice(f"{name}/latency")
        self.fs = SimFilesystem(dice=world.dice(f"{name}/disk"), clock=self.clock)
        raw = {"node.id": str(node_id), "log.dirs": DATA, **settings}
        self.config = BrokerConfig.from_raw(raw)
        self.advertised = [Listener(DEFAULT_LISTENER, name, CLIENT_PORT)]
        self._latency = latency
        self.slow_until_ms = 0
        self.paused_until_ms = 0
        self.boot = 0
        self._power_ups = 0
        self.broker: Broker | None = None
        self.performer: SimHands | None = None
        # Set by a fault: what the next death is, and how long the process then stays down.
        self.death: PowerLoss | None = None
        self.down_ms = 0
        # The next start dies too, this many disk operations into it, in the same way.
        self.dies_again_in = 0
        self._last_death: PowerLoss | None = None
        # A failed fsync has thrown pages away that the page cache still shows: only power loss
        # tells the truth again.
        self.has_lost_pages = False
        self.refusals = 0
        self.ticks = 0
        # Told before every start (the disk is as it was left), after it, and before every death.
        self.on_start: list[Callable[[Node], None]] = []
        self.on_up: list[Callable[[Node], None]] = []
        self.on_death: list[Callable[[Node, PowerLoss | None], None]] = []
        self._connections: dict[int, _Connection] = {}
        self._by_link: dict[int, _Connection] = {}
        self._next_number = 1
        self._timer: Event | None = None

    # -- life ---------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.broker is not None

    def accepts(self, port: int) -> bool:
        return self.broker is not None

    def start(self) -> None:
        if self.broker is not None:
            return
        self.boot += 1
        self._next_number = 1
        world = BrokerWorld(
            fs=self.fs, clock=self.clock, dice=self.dice, boot_id=f"boot {self._power_ups}"
        )
        if self.dies_again_in:
            self.fs.crash_at(self.fs.operation_count + self.dies_again_in, torn=True)
            self.dies_again_in, self.death, self.down_ms = 0, self._last_death, RESTART_MS
        for told in self.on_start:
            told(self)
        done_before = len(self.fs.trace)
        try:
            self.broker = open_broker(self.config, world, self.advertised)
        except (LedgerstoneError, OSError) as error:
            self.refusals += 1
            self.world.note(f"{self.name} refuses to start: {error}")
            self.fs.kill()
            self.world.after(RESTART_MS, f"{self.name} start", self.start)
            return
        except SimulatedCrash:
            self.world.mark("a start was interrupted by a crash")
            self._die()
            return
        self.performer = SimHands(self, self.broker, self.latency, self.dice)
        self.world.note(f"{self.name} up boot={self.boot} ops={self.fs.operation_count}")
        if any(_cuts_a_log(each) for each in self.fs.trace[done_before:]):
            self.world.mark("a torn tail was cut")
        for told in self.on_up:
            told(self)
        self._reschedule()

    def latency(self) -> int:
        low, high = self._latency
        latency_ms = self._disk_dice.between(low, high)
        if self.world.now_ms < self.slow_until_ms:
            latency_ms += self._disk_dice.between(100, 2_000)
        return latency_ms

    def kill(self, death: PowerLoss | None, down_ms: int) -> None:
        """Now: the process alone, or the machine's power."""
        if self.broker is not None:
            self.death, self.down_ms = death, down_ms
            self._die()
        elif death is not None:
            # Between two lives: only what was synced by then comes back.
            self.world.mark("a node lost power while it was down")
            self._tell_death(death)
            self.fs.power_loss(death)
            self._power_ups += 1
            self.has_lost_pages = False

    def crash_in(self, operations: int, death: PowerLoss | None, down_ms: int) -> None:
        """At a disk operation to come, which a write leaves half done."""
        if self.broker is None:
            return
        self.death, self.down_ms = death, down_ms
        self.fs.crash_at(self.fs.operation_count + max(operations, 1), torn=True)

    def crash_at_file(
        self, operation: str, pattern: str, skip: int, death: PowerLoss | None, down_ms: int
    ) -> None:
        """At an operation to come on such a file, after `skip` others."""
        if self.broker is None:
            return
        self.death, self.down_ms = death, down_ms
        self.fs.crash_matching(operation, pattern, skip=skip, torn=True)

    def stop(self, down_ms: int) -> None:
        """As a broker is stopped by its operator: connections first, the clean marker last."""
        if self.broker is None:
            return
        self.down_ms = down_ms
        broker = self.broker
        try:
            self.close_down(broker, broker.image.brokers[broker.config.node_id].broker_epoch)
        except SimulatedCrash:
            self._die()

    def close_down(self, broker: Broker, broker_epoch: int) -> None:
        """The last stage of a clean stop, up to the clean marker; the process is gone then."""
        try:
            self._perform(broker.stop_cleaning())
            assert self.performer is not None
            self.performer.die()
            for connection in list(self._connections.values()):
                self.network.close(connection.link, self)
                self._drop(connection)
            broker.partitions.drop_rest()
            broker.log_dirs.close(broker_epoch=broker_epoch)
        except SimulatedCrash:
            self.world.mark("a crash while the broker stops")
            raise
        except (LedgerstoneError, OSError) as error:
            self.world.note(f"{self.name} stops with {error}")
        death: PowerLoss | None = "none" if self.has_lost_pages else None
        self._tell_death(death)
        self._end(death)

    def _tell_death(self, death: PowerLoss | None) -> None:
        for told in self.on_death:
            told(self, death)

    def _die(self) -> None:
        death = "none" if self.has_lost_pages and self.death is None else self.death
        if self.broker is not None:
            self._tell_death(death)
        self._end(death)

    def _end(self, death: PowerLoss | None) -> None:
        self.world.note(f"{self.name} down {death or 'kill'} ops={self.fs.operation_count}")
        if death is None:
            self.fs.kill()
            self.network.hang_up(self)
        else:
            self.fs.power_loss(death)
            self._power_ups += 1
            self.has_lost_pages = False
            self.network.forget(self)
        if self.performer is not None:
            self.performer.die()
        self.fs.clear_faults()
        self.broker = self.performer = None
        self.boot += 1
        self._last_death, self.death = death, None
        self.paused_until_ms = 0
        self._connections.clear()
        self._by_link.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.world.after(self.down_ms, f"{self.name} start", self.start)
        self.down_ms = 0

    # -- links --------------------------------------------------------------------------------

    def link_opened(self, link: Link) -> None:
        connection = _Connection(self._next_number, link)
        self._next_number += 1
        self._connections[connection.number] = connection
        self._by_link[link.number] = connection
        host = link.dialer.name
        name = next(each.name for each in self.advertised if each.port == link.port)
        self._call(lambda broker: broker.connected(connection.number, host, name))

    def link_received(self, link: Link, data: bytes) -> None:
        connection = self._by_link.get(link.number)
        if connection is not None:
            connection.inbox.append(data)
            self._guarded(_nothing, is_due_sooner=_may_be_due_sooner)

    def link_closed(self, link: Link) -> None:
        connection = self._by_link.get(link.number)
        if connection is not None:
            self._call(lambda broker: self._drop(connection))

    def may_hear(self, link: Link) -> bool:
        """Whether bytes of a link that its dialer gave up may still come to this process."""
        is_on_its_way = self.world.now_ms <= link.arrives_ms.get(link.dialer.name, 0)
        return is_on_its_way or link.listener_is_open or link.number in self._by_link

    def send(self, number: int, pieces: list[Piece]) -> None:
        connection = self._connections.get(number)
        data = b"".join(bytes_of(piece) for piece in pieces)
        if connection is not None:
            self.network.send(connection.link, self, data)

    def close(self, number: int, reason: str) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            self.world.note(f"{self.name} closes {connection.link.number} {reason}")
            self.network.close(connection.link, self)
            self._perform(self._drop(connection))

    def dial(self, effect: Dial) -> None:
        raise AssertionError(f"a node of its own dials: {effect}")

    def hang_up(self, number: int) -> None:
        raise AssertionError(f"nothing was dialled: {number}")

    def halt(self, reason: str) -> None:
        """Only a voter of several ends its process."""
        raise AssertionError(f"a sole voter halts: {reason}")

    def _drop(self, connection: _Connection) -> list[Effect]:
        self._by_link.pop(connection.link.number, None)
        if self._connections.pop(connection.number, None) is None or self.broker is None:
            return []
        return self.broker.disconnected(connection.number)

    # -- calls --------------------------------------------------------------------------------

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> None:
        """Done by this process if it still lives then."""
        boot = self.boot

        def run() -> None:
            if self.boot == boot:
                self._guarded(action)

        self.world.after(delay_ms, f"{self.name} {label}", run)

    def machine_said(self, effects: list[Effect]) -> None:
        """Inside of an action that `later` runs."""
        self._perform(effects)

    def call(self, ask: Callable[[Broker], object]) -> object:
        """What comes in by another way than a link, such as the HTTP port."""
        answer: list[object] = []

        def run() -> None:
            assert self.broker is not None
            answer.append(ask(self.broker))
            self._perform(self.broker.changed_from_outside())

        self._guarded(run)
        return answer[0] if answer and self.broker is not None else None

    def _call(self, ask: Callable[[Broker], list[Effect]]) -> None:
        def run() -> None:
            if self.broker is not None:
                self._perform(ask(self.broker))

        self._guarded(run)

    def _guarded(
        self,
        action: Callable[[], None],
        *,
        is_due_sooner: Callable[[Broker], bool] = lambda broker: True,
    ) -> None:
        """A border: a simulated crash ends the process, any other fault is a finding.

        As the runtime does, the next deadline is asked for where it may have come closer."""
        if self.broker is None:
            return
        if self.world.now_ms < self.paused_until_ms:
            boot = self.boot
            self.world.at(
                self.paused_until_ms,
                f"{self.name} resumes",
                lambda: self._guarded(action) if self.boot == boot else None,
            )
            return
        try:
            action()
            self._serve()
        except SimulatedCrash:
            self._die()
        except Violation:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise Violation("BrokerFault", f"{self.name}: {kind}: {error}") from error
        if self.broker is not None and is_due_sooner(self.broker):
            self._reschedule()

    def _perform(self, effects: list[Effect]) -> None:
        if self.performer is not None and effects:
            self.performer.perform(effects)

    def _serve(self) -> None:
        """Hands over what came in for connections that are read now, and serves what waits."""
        is_busy = True
        while is_busy:
            is_busy = False
            for connection in list(self._connections.values()):
                broker = self.broker
                if broker is None:
                    return
                number = connection.number
                if connection.inbox and broker.wants_read(number):
                    is_busy = True
                    # The runtime's buffer is writable, shared, and overwritten after the call.
                    buffer = bytearray(connection.inbox.pop(0))
                    self._perform(broker.receive(number, memoryview(buffer)))
                    buffer[:] = b"\xee" * len(buffer)
                elif broker.has_backlog(number):
                    is_busy = True
                    self._perform(broker.sent(number))

    # -- time ---------------------------------------------------------------------------------

    def _reschedule(self) -> None:
        assert self.broker is not None
        self.broker.may_be_due_sooner = False
        deadline_ms = self.broker.next_deadline_ms
        due_ms = self.world.now_ms + self.clock.world_ms_until(deadline_ms)
        if self._timer is not None:
            if self._timer.action is not None and self._timer.at_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer = self.world.at(due_ms, f"{self.name} tick", self._tick)
        self.broker.wakes_ms = deadline_ms

    def _tick(self) -> None:
        self.ticks += 1
        self._timer = None
        self._call(lambda broker: broker.tick())

    # -- what checkers ask --------------------------------------------------------------------

    def recovery_points(self) -> dict[TopicPartition, int]:
        assert self.broker is not None
        return {each.topic_partition: each.log.recovery_point for each in self.broker.partitions}


def _may_be_due_sooner(broker: Broker) -> bool:
    return broker.may_be_due_sooner


def _nothing() -> None:
    """What came in is handed over behind it."""


def _cuts_a_log(operation: str) -> bool:
    return operation.startswith("truncate") and ".log" in operation


def bytes_of(piece: Piece) -> bytes:
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    assert isinstance(piece, FileSlice)
    return piece.read()
