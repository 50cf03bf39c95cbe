"""A broker of a cluster in the world: it dials others, joins, and leaves. Part of sim.

The stages of a start and of a stop are those of `server.cluster_start` and `server.cluster_stop`;
there they await on a loop, here each wait is an event.
"""

from collections.abc import Callable, Iterator, Mapping

from ledgerstone.config.broker import Listener
from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.errors import LedgerstoneError
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.broker import Broker
from ledgerstone.server.broker_life.agent import LifeAgent
from ledgerstone.server.broker_life.machine import BrokerState
from ledgerstone.server.effects import Dial, Effect
from ledgerstone.server.first_publish import first_publish
from ledgerstone.server.formatting.plan import FormatOptions, plan_format
from ledgerstone.server.formatting.writing import write_format
from ledgerstone.server.results import DialFailed, Dialled
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.network import CLIENT_PORT, Link, Network
from ledgerstone.sim.node import RESTART_MS, Node, bytes_of
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.sim.world import Event, World

CONTROLLER_PORT = 9093
# How often a start looks whether it may go on. `cluster_start` looks more often; here a look costs.
_LOOK_MS = 60
# A controlled shutdown that takes longer ends without leave.
_LEAVE_MS = 15_000
_STOP_QUORUM_MS = 2_000


@dataclass(slots=True, eq=False)
class _Line:
    """A connection that this node opened, or is opening: then it has no number."""

    link: Link
    dial: Dial
    timeout: Event
    number: int | None = None


class _Outgoing:
    """The end of links that a node has opened; a node may dial itself."""

    def __init__(self, node: "ClusterNode") -> None:
        self.name = node.name
        self._node = node

    def accepts(self, port: int) -> bool:
        return False

    def link_opened(self, link: Link) -> None:
        raise AssertionError("this end dials")

    def link_received(self, link: Link, data: bytes) -> None:
        self._node.dialled_received(link, data)

    def link_closed(self, link: Link) -> None:
        self._node.dialled_closed(link)


class ClusterNode(Node):
    """`find` gives a node by its host name. `is_serving`: its listener for clients is open."""

    def __init__(
        self,
        world: World,
        network: Network,
        *,
        name: str,
        node_id: int,
        settings: Mapping[str, str],
        skew_ppm: int,
        latency: tuple[int, int],
        find: Callable[[str], "ClusterNode | None"],
    ) -> None:
        listeners = [Listener("PLAINTEXT", name, CLIENT_PORT)]
        if "controller" in settings["process.roles"]:
            listeners.append(Listener("CONTROLLER", name, CONTROLLER_PORT))
        text = ",".join(map(str, listeners))
        super().__init__(
            world,
            network,
            name=name,
            node_id=node_id,
            settings={**settings, "listeners": text, "advertised.listeners": text},
            skew_ppm=skew_ppm,
            latency=latency,
        )
        self.advertised = listeners
        self.is_serving = False
        # Set by every call of its process; checkers set it back.
        self.has_acted = False
        self._find = find
        self._format: FormatOptions | None = None
        self.disks = 1
        self._outgoing = _Outgoing(self)
        self._lines: dict[int, _Line] = {}
        self._by_number: dict[int, _Line] = {}
        # The start or the stop that is under way.
        self._way: Iterator[int] | None = None
        self.on_up.append(lambda _: self._set_out(self._coming_up()))

    @property
    def node_id(self) -> int:
        return self.config.node_id

    def format(self, cluster_id: str, first_controllers: str, features: Mapping[str, int]) -> None:
        """As `ledgerstone format` does, before the first start."""
        is_controller = self.config.cluster.is_controller
        options = FormatOptions(
            cluster_id=cluster_id,
            initial_controllers=first_controllers if is_controller else None,
            has_no_initial_controllers=not is_controller,
            features=features,
        )
        self._format = options
        write_format(self.fs, self.clock, plan_format(self.config, options, self.dice))

    def lose_disk(self, down_ms: int) -> None:
        """Its operator puts in another one, formats it, and starts the node again."""
        assert self._format is not None
        self.kill("none", down_ms)
        self.disks += 1
        self.fs = SimFilesystem(
            dice=self.world.dice(f"{self.name}/disk {self.disks}"), clock=self.clock
        )
        options = replace(self._format, initial_controllers=None, has_no_initial_controllers=True)
        write_format(self.fs, self.clock, plan_format(self.config, options, self.dice))

    # -- life ---------------------------------------------------------------------------------

    def _guarded(
        self,
        action: Callable[[], None],
        *,
        is_due_sooner: Callable[[Broker], bool] = lambda broker: True,
    ) -> None:
        self.has_acted = True
        super()._guarded(action, is_due_sooner=is_due_sooner)

    def accepts(self, port: int) -> bool:
        if self.broker is None:
            return False
        is_known = any(each.port == port for each in self.advertised)
        return is_known and (self.is_serving or port == CONTROLLER_PORT)

    @property
    def _life(self) -> LifeAgent:
        assert self.broker is not None
        assert self.broker.membership is not None
        assert self.broker.membership.life is not None
        return self.broker.membership.life

    def _set_out(self, way: Iterator[int]) -> None:
        self._way = way
        self.later(0, "way", lambda: self._go_on(way))

    def _go_on(self, way: Iterator[int]) -> None:
        if way is not self._way:
            return
        try:
            wait_ms = next(way, None)
        except (LedgerstoneError, OSError) as error:
            # As a process that could not start: it ends, and its supervisor starts another one.
            self.world.note(f"{self.name} gives up: {error}")
            self.refusals += 1
            self.down_ms = RESTART_MS
            raise SimulatedCrash("gives up") from error
        if wait_ms is None:
            self._way = None
        elif self.broker is not None:
            self.later(wait_ms, "way", lambda: self._go_on(way))

    def _coming_up(self) -> Iterator[int]:
        broker, life = self.broker, self._life
        assert broker is not None
        while life.life.state < BrokerState.RECOVERY:
            yield _LOOK_MS
        for _ in first_publish(broker):
            yield self.latency()
        self._perform(broker.changed_from_outside())
        while broker.partitions.backlog:
            yield _LOOK_MS
        life.ready_to_unfence()
        self._perform(broker.changed_from_outside())
        while life.life.state < BrokerState.RUNNING:
            yield _LOOK_MS
        self.is_serving = True
        self.world.note(f"{self.name} serves")

    def stop(self, down_ms: int) -> None:
        """Controlled: leaderships go first, then that of the quorum, then the process."""
        if self.broker is not None and not self.is_leaving:
            self.down_ms = down_ms
            self._set_out(self._going_down(self.broker))

    @property
    def is_leaving(self) -> bool:
        return self.broker is not None and self._life.life.state > BrokerState.RUNNING

    def _going_down(self, broker: Broker) -> Iterator[int]:
        life, world = self._life, self.world
        limit_ms = world.now_ms + _LEAVE_MS
        life.leave()
        self._perform(broker.changed_from_outside())
        while life.life.state is not BrokerState.SHUTTING_DOWN and world.now_ms < limit_ms:
            yield _LOOK_MS
        if life.life.was_released:
            world.mark("a broker left with leave")
        life.leave_now()
        self.is_serving = False
        for connection in list(self._connections.values()):
            if connection.link.port == CLIENT_PORT:
                self.network.close(connection.link, self)
                self._perform(self._drop(connection))
        broker.quorum.stop()
        self._perform(broker.changed_from_outside())
        limit_ms = world.now_ms + _STOP_QUORUM_MS
        while not broker.quorum.node.is_stopped and world.now_ms < limit_ms:
            yield _LOOK_MS
        self._way = None
        self.close_down(broker, life.life.broker_epoch)

    def _end(self, death: PowerLoss | None) -> None:
        for line in self._lines.values():
            line.timeout.cancel()
        self._lines.clear()
        self._by_number.clear()
        self._way = None
        self.is_serving = False
        super()._end(death)
        if death is None:
            self.network.hang_up(self._outgoing)
        else:
            self.network.forget(self._outgoing)

    def halt(self, reason: str) -> None:
        self.world.mark("a process halted")
        self.world.note(f"{self.name} halts: {reason}")
        self.down_ms = RESTART_MS
        raise SimulatedCrash("halts")

    # -- connections that this node opens -------------------------------------------------------

    def dial(self, effect: Dial) -> None:
        target = self._find(effect.host)
        if target is None:
            self.later(0, "dial", lambda: self._dial_failed(effect, "no such host"))
            return
        link = self.network.dial(self._outgoing, target, effect.port, self._accepted)
        label = f"{self.name} gives {link.number} up"
        timeout = self.world.after(effect.timeout_ms, label, lambda: self._timed_out(link))
        self._lines[link.number] = _Line(link, effect, timeout)

    def _accepted(self, link: Link) -> None:
        line = self._lines.get(link.number)
        if line is None:
            return
        line.timeout.cancel()
        line.number = self._next_number
        self._next_number += 1
        self._by_number[line.number] = line
        result = Dialled(line.number)
        self._call(lambda broker: broker.completed(line.dial, result))

    def _timed_out(self, link: Link) -> None:
        line = self._lines.pop(link.number, None)
        if line is not None:
            self.network.close(link, self._outgoing)
            self._call(lambda broker: broker.completed(line.dial, DialFailed("timed out")))

    def _dial_failed(self, effect: Dial, reason: str) -> None:
        assert self.performer is not None
        self.performer.report(effect, DialFailed(reason))

    def hang_up(self, number: int) -> None:
        line = self._by_number.pop(number, None)
        if line is not None:
            del self._lines[line.link.number]
            self.network.close(line.link, self._outgoing)

    def send(self, number: int, pieces: list[Piece]) -> None:
        line = self._by_number.get(number)
        if line is None:
            super().send(number, pieces)
        elif line.link.is_open_for(self._outgoing):
            self.network.send(line.link, self._outgoing, b"".join(map(bytes_of, pieces)))

    def dialled_received(self, link: Link, data: bytes) -> None:
        line = self._lines.get(link.number)
        if line is not None and line.number is not None:
            self._guarded(
                lambda: self._perform(self._take(line, data)),
                is_due_sooner=lambda broker: broker.may_be_due_sooner_after(line.dial),
            )

    def _take(self, line: _Line, data: bytes) -> list[Effect]:
        broker = self.broker
        if broker is None or line.number not in self._by_number:
            return []
        # The runtime's buffer is writable, shared, and overwritten after the call.
        buffer = bytearray(data)
        effects = broker.received_from_dialled(line.dial, line.number, memoryview(buffer))
        buffer[:] = b"\xee" * len(buffer)
        return effects

    def dialled_closed(self, link: Link) -> None:
        line = self._lines.pop(link.number, None)
        if line is None:
            return
        line.timeout.cancel()
        number = line.number
        if number is None:
            self._call(lambda broker: broker.completed(line.dial, DialFailed("refused")))
        elif self._by_number.pop(number, None) is not None:
            self._call(lambda broker: broker.lost_dialled(line.dial, number, "it was closed"))
