"""Who is connected: how many may be, whose turn to be read it is, who has been silent for too long.

Pure: time is handed in. What a peer says and is answered is the broker's business. The memory of
half-received requests is shared by all of them; whoever needs more than there is starves, that is,
is not read until others have given some back. A muted peer is not read until its time has come.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.frame_memory import FIRST_PART_BYTES, MAX_SPARES, FrameMemory
from ledgerstone.protocol.server_connection import (
    ConnectionLimits,
    ServerConnection,
    ServerState,
    Shortcut,
)
from ledgerstone.protocol.single_produce import read_single_produce
from ledgerstone.quotas.entities import plain_address
from ledgerstone.security.distinguished_name import BrokenName, rfc2253, subject_of
from ledgerstone.security.mapping_rules import NoMatchingRule, parse_mapping_rules
from ledgerstone.security.principal import Principal
from ledgerstone.server.quotas.connection_caps import ConnectionCaps
from ledgerstone.server.request import Request
from ledgerstone.server.session import DEFAULT_LISTENER, Login, Session

RECEIVE_BYTES: Final = 1 << 20
# Silence in the middle of a frame that costs the connection, once others wait for its memory.
_STALLED_MS: Final = 10_000
# Below this many ends of mutes, those of who has left cost nothing worth saving.
_SMALL_HEAP: Final = 64
_SHORTCUTS: Final[Mapping[int, Shortcut]] = {int(ApiKey.PRODUCE): read_single_produce}


@dataclass(slots=True, eq=False)
class Peer:
    """One connected client."""

    number: int
    session: Session
    wire: ServerConnection
    last_active_ms: int
    in_work: Request | None = None
    fills_frame: bool = False  # it was told to receive into the buffer of its frame
    is_closing: bool = False
    farewell: str | None = None  # it had its last answer, and why; closed when its mute ends
    is_cut_short: bool = False  # its turn ended with requests left, or what breaks the protocol


def _is_slow_to_log_in(peer: Peer, oldest_ms: int) -> bool:
    session = peer.session
    if session.login is Login.COMPLETE or peer.is_closing:
        return False
    return session.sasl is not None and session.sasl.began_ms < oldest_ms


class TooSilent(NamedTuple):
    peer: Peer
    reason: str


class Peers:
    """Invariant: everyone who starves is connected; every muted peer has its end in the heap."""

    def __init__(
        self,
        config: BrokerConfig,
        handled: frozenset[int],
        controller_handled: frozenset[int] = frozenset(),
    ) -> None:
        """APIs that are handled on listeners for clients, and on those for controllers."""
        self._config = config
        self._handled = handled
        self._controller_handled = controller_handled
        self._limits = ConnectionLimits(max_frame_bytes=config.socket_request_max_bytes)
        limit_bytes = config.queued_max_request_bytes
        self.memory = (
            FrameMemory(max_spares=MAX_SPARES)
            if limit_bytes < 0
            else FrameMemory(limit_bytes, max_spares=MAX_SPARES)
        )
        self.by_number: dict[int, Peer] = {}
        # Connections that are not read until others give memory back.
        self.starved: dict[int, None] = {}
        self.shared = memoryview(bytearray(RECEIVE_BYTES))
        self._first_part = self.shared[:FIRST_PART_BYTES]
        self._caps = ConnectionCaps.of(config, config.raw)
        # Called when there may be room for more, and nobody has left.
        self.on_room: Callable[[], object] = lambda: None
        # Whether the other side of a connection that is not read has closed it.
        self.has_hung_up: Callable[[int], bool] = lambda number: False
        self._hosts: dict[str, int] = {}
        self._listeners: dict[str, int] = {}
        # When peers stop being muted. Peers that left since, or are muted for longer now, stay in
        # it until their old time comes, or there are too many of them.
        self._mute_ends: list[tuple[int, int]] = []
        self._mapping_rules = {
            name: parse_mapping_rules(
                listener_values(config.raw, name).get("ssl.principal.mapping.rules", "")
            )
            for name, protocol in config.listener_protocols.items()
            if protocol is SecurityProtocol.SSL
        }

    # -- coming and going ---------------------------------------------------------------------

    def admit(
        self, number: int, host: str, now_ms: int, listener: str = DEFAULT_LISTENER
    ) -> str | None:
        """Why the connection is refused; None when it is not."""
        config, here = self._config, self._hosts.get(host, 0)
        if not self.has_room(listener):
            # Who listens asks before it accepts; between the two others may have come.
            return f"max.connections={self._caps.total} reached"
        if here >= (most := self._caps.of_ip(plain_address(host) or host)):
            return f"max.connections.per.ip={most} reached by {host}"
        self._hosts[host] = here + 1
        self._listeners[listener] = self._listeners.get(listener, 0) + 1
        is_controller = listener in config.cluster.controller_listener_names
        handled = self._controller_handled if is_controller else self._handled
        wire = ServerConnection(
            self._limits, handled, memory=self.memory, number=number, shortcuts=_SHORTCUTS
        )
        protocol = config.listener_protocols.get(listener, SecurityProtocol.PLAINTEXT)
        session = Session(
            host,
            listener,
            login=Login.AWAITED if protocol.uses_sasl else Login.COMPLETE,
            is_controller_listener=is_controller,
            protocol=protocol,
        )
        self.by_number[number] = Peer(number, session, wire, now_ms)
        return None

    def certified(self, number: int, certificate: bytes | None) -> str | None:
        """Why the certificate of a connection is refused; None when it is not. With SASL it is the
        login that says who it is."""
        peer = self.by_number.get(number)
        if peer is None or certificate is None or peer.session.protocol.uses_sasl:
            return None
        try:
            subject = rfc2253(subject_of(certificate))
            name = self._mapping_rules[peer.session.listener].name_of(subject)
        except (BrokenName, NoMatchingRule) as error:
            return str(error)
        peer.session.principal = Principal("User", name)
        return None

    def leave(self, number: int) -> None:
        peer = self.by_number.pop(number, None)
        if peer is None:
            return
        host = peer.session.host
        left = self._hosts[host] - 1
        if left:
            self._hosts[host] = left
        else:
            del self._hosts[host]
        self._listeners[peer.session.listener] -= 1
        self.starved.pop(number, None)
        peer.wire.abandon()

    def set_caps(self, values: Mapping[str, str]) -> None:
        """The broker's settings as they are now. Nobody has to leave for them."""
        self._caps = ConnectionCaps.of(self._config, values)
        self.on_room()

    def has_room(self, listener: str) -> bool:
        """Whether one more may come in there; if not, it waits until somebody leaves."""
        caps = self._caps
        if self._listeners.get(listener, 0) >= caps.of_listener(listener):
            return False
        return listener == caps.protected or len(self.by_number) < caps.total

    def one_too_many(self) -> Peer | None:
        """Whom a broker's connection takes the place of: who was silent for longest."""
        caps = self._caps
        if caps.protected is None or len(self.by_number) <= caps.total:
            return None
        others = (
            each
            for each in self.by_number.values()
            if each.session.listener != caps.protected and not each.is_closing
        )
        return min(others, key=lambda each: each.last_active_ms, default=None)

    # -- memory -------------------------------------------------------------------------------

    def room_for(self, number: int) -> memoryview | None:
        """Where to receive what a connection sends; None: do not read it now."""
        peer = self.by_number.get(number)
        if peer is None or peer.session.muted_until_ms:
            return None
        reader = peer.wire.reader
        if reader.is_between_frames:
            # Nearly always.
            peer.fills_frame = False
            return self._first_part if reader.is_bulk or self.memory.is_tight else self.shared
        if reader.is_starved:
            self.starved[number] = None
            return None
        peer.fills_frame = reader.is_worth_room
        if peer.fills_frame:
            return reader.room()
        return self._first_part if reader.is_bulk or self.memory.is_tight else self.shared

    def take_resumable(self) -> list[int]:
        """Who starved and need not any more."""
        self.memory.has_given_back = False
        fed = [each for each in self.starved if not self.by_number[each].wire.reader.is_starved]
        for number in fed:
            del self.starved[number]
        return fed

    # -- muting -------------------------------------------------------------------------------

    def mute(self, number: int, until_ms: int) -> None:
        """Neither reads nor serves a peer until then. A longer mute stays."""
        peer = self.by_number.get(number)
        if peer is not None and until_ms > peer.session.muted_until_ms:
            peer.session.muted_until_ms = until_ms
            heapq.heappush(self._mute_ends, (until_ms, number))
            if len(self._mute_ends) > 2 * len(self.by_number) + _SMALL_HEAP:
                # A mute may last for weeks, and whoever is muted may leave and come again at once.
                self._mute_ends = [each for each in self._mute_ends if self._is_current(each)]
                heapq.heapify(self._mute_ends)

    def take_unmuted(self, now_ms: int) -> list[int]:
        """Peers whose time has come. They count as active until now: silence was not theirs."""
        unmuted = []
        while self._mute_ends and self._mute_ends[0][0] <= now_ms:
            end = heapq.heappop(self._mute_ends)
            if self._is_current(end):
                peer = self.by_number[end[1]]
                peer.session.muted_until_ms = 0
                peer.last_active_ms = now_ms
                unmuted.append(peer.number)
        return unmuted

    @property
    def muted_count(self) -> int:
        return sum(1 for each in self.by_number.values() if each.session.muted_until_ms)

    @property
    def next_unmute_ms(self) -> int | None:
        while self._mute_ends and not self._is_current(self._mute_ends[0]):
            heapq.heappop(self._mute_ends)
        return self._mute_ends[0][0] if self._mute_ends else None

    def _is_current(self, end: tuple[int, int]) -> bool:
        until_ms, number = end
        peer = self.by_number.get(number)
        return peer is not None and peer.session.muted_until_ms == until_ms

    # -- silence ------------------------------------------------------------------------------

    def too_silent(self, now_ms: int) -> Iterator[TooSilent]:
        """Whom to close; nobody twice, if they are marked so meanwhile."""
        oldest_ms = now_ms - self._config.connections_max_idle_ms
        for number, peer in self.by_number.items():
            is_held_up = peer.in_work is not None or peer.session.muted_until_ms
            is_waited_for = is_held_up and not peer.is_closing
            is_idle = peer.last_active_ms < oldest_ms and number not in self.starved
            if is_idle and not is_waited_for:
                yield TooSilent(peer, f"idle for {now_ms - peer.last_active_ms} ms")
            elif is_idle and self.has_hung_up(number):
                # It may be held up for weeks, and its place and its descriptor with it.
                yield TooSilent(peer, "the other side has left while it was held up")
            elif _is_slow_to_log_in(peer, now_ms - self._config.ledgerstone_login_timeout_ms):
                yield TooSilent(peer, "the login took too long")
        if self.starved:
            yield from self._stalled(now_ms - _STALLED_MS)

    def _stalled(self, oldest_ms: int) -> Iterator[TooSilent]:
        """Who is silent in the middle of a request holds memory that others wait for."""
        for number in self.memory.collecting:
            peer = self.by_number[number]
            is_held_up = number in self.starved or peer.session.muted_until_ms
            if not is_held_up and not peer.is_closing and peer.last_active_ms < oldest_ms:
                yield TooSilent(peer, "silent in the middle of a request")

    def check_invariants(self) -> None:
        hosts: dict[str, int] = {}
        for peer in self.by_number.values():
            host, muted_until_ms = peer.session.host, peer.session.muted_until_ms
            hosts[host] = hosts.get(host, 0) + 1
            assert not muted_until_ms or (muted_until_ms, peer.number) in self._mute_ends, peer
            peer_waits = peer.wire.state is ServerState.IN_WORK
            assert peer.is_closing or peer_waits == (peer.in_work is not None), peer
        assert hosts == self._hosts, (hosts, self._hosts)
        assert all(number in self.by_number for number in self.starved), self.starved
