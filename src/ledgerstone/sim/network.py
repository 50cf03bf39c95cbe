"""Connections between hosts: late, cut in one direction, reset, half open, never out of order.

A link is what TCP gives: bytes arrive in order or not at all. A lost packet is a delay, because TCP
sends it again. A cut holds one direction back until it ends; a reset ends a link for both sides, or
for one side only (half open): the other learns of it when it next sends. A dial may reach the
listener twice, as when a SYN is sent again; the twin never says anything.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.world import World

# What TCP waits before it sends a lost packet again.
RETRANSMIT_MS = 200
# Where clients find a broker.
CLIENT_PORT = 9092


class Host(Protocol):
    """One end of links. A host that is down answers nothing and is not called."""

    name: str

    def accepts(self, port: int) -> bool:
        """False while no process listens there: its system refuses connections."""
        ...

    def link_opened(self, link: "Link") -> None: ...

    def link_received(self, link: "Link", data: bytes) -> None: ...

    def link_closed(self, link: "Link") -> None: ...


@dataclass(slots=True, eq=False)
class Link:
    """`dialer` opened it to `listener`. A side is open until it closed or was told."""

    number: int
    dialer: Host
    listener: Host
    port: int
    dialer_is_open: bool = True
    listener_is_open: bool = False
    # When the last bytes of each direction arrive: the next ones never arrive before.
    arrives_ms: dict[str, int] = field(default_factory=dict)

    def is_open_for(self, host: Host) -> bool:
        return self.dialer_is_open if host is self.dialer else self.listener_is_open

    def shut_for(self, host: Host) -> None:
        if host is self.dialer:
            self.dialer_is_open = False
        else:
            self.listener_is_open = False

    def other(self, host: Host) -> Host:
        return self.listener if host is self.dialer else self.dialer


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How the network behaves when no fault is on; the seed draws it."""

    delay_min_ms: int = 0
    delay_mean_ms: int = 2
    loss_percent: int = 0
    twin_percent: int = 0
    fragments: int = 1


class Network:
    def __init__(self, world: World, weather: Weather) -> None:
        self.world = world
        self.weather = weather
        self.links: dict[int, Link] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._dice: dict[str, SeededDice] = {}
        self._next_number = 1

    # -- faults -------------------------------------------------------------------------------

    def cut(self, source: str, target: str, until_ms: int) -> None:
        """Nothing that leaves `source` reaches `target` before; "*" is every host."""
        self._cuts[source, target] = max(until_ms, self._cuts.get((source, target), 0))

    def heal(self) -> None:
        """What was held back has its arrival time; what is sent from now on is not held."""
        self._cuts.clear()
        self.weather = Weather()

    @property
    def arrived_ms(self) -> int:
        """When the last of what is on its way arrives."""
        times = [at_ms for link in self.links.values() for at_ms in link.arrives_ms.values()]
        return max(times, default=0)

    def reset(self, link: Link, *, is_half: bool) -> None:
        """Both sides are told, or only the listener: the dialer still takes it for open."""
        self.tell_closed(link, link.listener)
        if not is_half:
            self.tell_closed(link, link.dialer)

    # -- what hosts do ------------------------------------------------------------------------

    def dial(
        self,
        dialer: Host,
        listener: Host,
        port: int = CLIENT_PORT,
        accepted: Callable[[Link], None] | None = None,
    ) -> Link:
        """`accepted` is called once the dialer hears of it; a refusal is a link that closes."""
        link = self._new_link(dialer, listener, port)
        self._deliver(link, dialer, f"dial {link.number}", lambda: self._reach(link, accepted))
        if self._dice_of(dialer).chance(self.weather.twin_percent):
            twin = self._new_link(dialer, listener, port)
            twin.dialer_is_open = False
            self.world.mark("a connection was attempted twice")
            self._deliver(twin, dialer, f"dial {twin.number}", lambda: self._reach(twin, None))
        return link

    def send(self, link: Link, source: Host, data: bytes) -> None:
        target = link.other(source)
        for piece in self._fragments(source, data):
            label = f"bytes {link.number} {source.name} {len(piece)}"
            self._deliver(link, source, label, partial(self._arrive, link, target, piece))

    def close(self, link: Link, source: Host) -> None:
        """After everything that was sent before."""
        link.shut_for(source)
        target = link.other(source)
        label = f"close {link.number} {source.name}"
        self._deliver(link, source, label, lambda: self.tell_closed(link, target))

    def forget(self, host: Host) -> None:
        """The host lost its power: nobody is told, its links are half open."""
        for link in list(self.links.values()):
            if host in (link.dialer, link.listener):
                link.shut_for(host)

    def hang_up(self, host: Host) -> None:
        """The host's process died: its system closes every link of it."""
        for link in list(self.links.values()):
            if host in (link.dialer, link.listener) and link.is_open_for(host):
                self.close(link, host)

    def tell_closed(self, link: Link, host: Host) -> None:
        if link.is_open_for(host):
            link.shut_for(host)
            host.link_closed(link)
        if not (link.dialer_is_open or link.listener_is_open):
            self.links.pop(link.number, None)

    # -- inside -------------------------------------------------------------------------------

    def _new_link(self, dialer: Host, listener: Host, port: int) -> Link:
        link = Link(self._next_number, dialer, listener, port)
        self._next_number += 1
        self.links[link.number] = link
        return link

    def _reach(self, link: Link, accepted: Callable[[Link], None] | None) -> None:
        if link.listener.accepts(link.port):
            link.listener_is_open = True
            if accepted is not None:
                label = f"accept {link.number}"
                self._deliver(link, link.listener, label, partial(accepted, link))
            link.listener.link_opened(link)
        else:
            self._refuse(link, link.dialer)

    def _refuse(self, link: Link, target: Host) -> None:
        label = f"reset {link.number}"
        self._deliver(link, link.other(target), label, lambda: self.tell_closed(link, target))

    def _arrive(self, link: Link, target: Host, data: bytes) -> None:
        if link.is_open_for(target):
            target.link_received(link, data)
        else:
            # The system of a host that knows nothing of the link says so.
            self._refuse(link, link.other(target))

    def _deliver(self, link: Link, source: Host, label: str, action: Callable[[], None]) -> None:
        target = link.other(source)
        at_ms = self.world.now_ms + self._delay_ms(source, target)
        at_ms = max(at_ms, link.arrives_ms.get(source.name, 0))
        link.arrives_ms[source.name] = at_ms
        self.world.at(at_ms, label, action)

    def _delay_ms(self, source: Host, target: Host) -> int:
        weather, dice = self.weather, self._dice_of(source)
        delay_ms = weather.delay_min_ms + dice.below(2 * weather.delay_mean_ms + 1)
        if dice.chance(weather.loss_percent):
            delay_ms += RETRANSMIT_MS << dice.below(3)
        held_ms = 0
        if source.name == target.name:
            return delay_ms  # A loopback is never cut.
        for pair in ((source.name, target.name), (source.name, "*"), ("*", target.name)):
            held_ms = max(held_ms, self._cuts.get(pair, 0) - self.world.now_ms)
        return held_ms + delay_ms

    def _fragments(self, source: Host, data: bytes) -> list[bytes]:
        count = min(self.weather.fragments, len(data))
        if count <= 1:
            return [data]
        dice = self._dice_of(source)
        cuts = sorted({dice.below(len(data)) for _ in range(count - 1)} - {0})
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _dice_of(self, host: Host) -> SeededDice:
        dice = self._dice.get(host.name)
        if dice is None:
            dice = self._dice[host.name] = self.world.dice(f"network/{host.name}")
        return dice
