"""The broker: what the runtime, a test or a simulator calls. Grade D.

`connected`, `received`, `sent`, `disconnected`, `tick` and `completed` each return effects; the
runtime performs them, a test looks at them. `machines` composes what decides, `turn` serves
requests.

Bytes are received where `room_for` says: into the buffer of a frame under way, or into one that all
connections share, so that an idle connection owns none.
"""

from collections.abc import Callable
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.effects import Close, Dial, Effect
from ledgerstone.server.machines import Machines
from ledgerstone.server.peers import Peer
from ledgerstone.server.quotas.connection_quotas import EntryVerdict
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.results import Result
from ledgerstone.server.session import DEFAULT_LISTENER, Login
from ledgerstone.types import INT64_MAX

_IDLE_CHECK_MS: Final = 1000

Dispatch = Callable[["Broker", Request, ApiMessage], Answer]


@dataclass(slots=True, kw_only=True)
class Broker(Machines):
    _idle_check_ms: int = 0

    # -- connections that were accepted --------------------------------------------------------

    def connected(self, number: int, host: str, listener: str = DEFAULT_LISTENER) -> list[Effect]:
        refusal = self.peers.admit(number, host, self.clock.monotonic_ms(), listener)
        if refusal is not None:
            self.counters.connections_refused += 1
            return [Close(number, refusal, kind="refused")]
        self.counters.connections_accepted += 1
        peer = self.peers.by_number[number]
        if peer.session.login is not Login.COMPLETE:
            self.logins.admitted(peer, peer.last_active_ms)
        if (other := self.peers.one_too_many()) is not None:
            self._close(other, "a broker needs its place", kind="too many", at_once=True)
        return self._take_effects()

    def has_room(self, listener: str) -> bool:
        """Whether a listener may accept now. If not, it asks again when a connection has ended."""
        return self.peers.has_room(listener)

    def admission(self, listener: str, host: str) -> EntryVerdict:
        """What to do with a socket that was accepted; then comes `connected`."""
        return self.quota_agent.connections.admit(listener, host, self.clock.monotonic_ms())

    def turn_took(self, number: int, spent_ns: int) -> None:
        """How long the loop was busy with a connection; asked for while `quotas.counts_time`."""
        peer = self.peers.by_number.get(number)
        if peer is not None:
            self.quotas.turn_took(peer.session, spent_ns, self.clock.monotonic_ms())

    def certified(self, number: int, certificate: bytes | None) -> list[Effect]:
        """The handshake is over. `certificate` is what the other side has shown, in DER."""
        session = self.peers.by_number[number].session
        refusal = self.peers.certified(number, certificate)
        if refusal is None:
            if not session.protocol.uses_sasl:
                self.counters.count_login("successful_authentication", session.listener)
                if certificate is not None and self.logins.on_success is not None:
                    who, host = str(session.principal), session.host
                    self.logins.on_success(who, host, session.listener, "SSL")
            return []
        self.greeting_failed(session.listener, session.host)
        return [Close(number, refusal, kind="certificate")]

    def greeting_failed(self, listener: str, host: str) -> None:
        """No TLS came about with somebody."""
        self.counters.count_login("failed_authentication", listener)
        if self.logins.on_failure is not None:
            self.logins.on_failure(host, listener, "SSL")

    def room_for(self, number: int) -> memoryview | None:
        """Where to receive what a connection sends; None: do not read it now. Let go of the view
        before saying in `received` how many bytes came."""
        return self.peers.room_for(number)

    def received(self, number: int, count: int) -> list[Effect]:
        """`count` bytes were put where `room_for` said."""
        peers = self.peers
        peer = peers.by_number[number]
        if not peer.fills_frame:
            return self.receive(number, peers.shared[:count])
        peer.last_active_ms = self.clock.monotonic_ms()
        peer.wire.filled(count)
        return self._react(peer)

    def expects_more(self, number: int) -> bool:
        """In the middle of a large frame: the rest is likely to be there already."""
        return self.peers.by_number[number].wire.reader.is_worth_room

    def receive(self, number: int, data: memoryview) -> list[Effect]:
        """Bytes of a connection, in memory that is used again after the call."""
        peer = self.peers.by_number.get(number)
        if peer is None or peer.is_closing:
            return []
        peer.last_active_ms = self.clock.monotonic_ms()
        peer.wire.receive_data(data)
        return self._react(peer)

    def _react(self, peer: Peer) -> list[Effect]:
        """To what was received."""
        wire = peer.wire
        has_news = wire.has_news
        if has_news:
            self._serve(peer)
            if wire.queued_bytes:
                # What has to wait needs memory of its own.
                wire.own_queue()
        if wire.reader.is_starved:
            self.peers.starved[peer.number] = None
        # A part of a request has no effects.
        return self._take_effects() if has_news else []

    def sent(self, number: int) -> list[Effect]:
        """The socket has taken all it was given: the connection may be served on."""
        peer = self.peers.by_number.get(number)
        if peer is not None:
            self._serve(peer)
        return self._take_effects()

    def taking(self, number: int) -> None:
        """The socket has taken a part of what it was given."""
        peer = self.peers.by_number.get(number)
        if peer is not None:
            peer.last_active_ms = self.clock.monotonic_ms()

    def wants_read(self, number: int) -> bool:
        """False while a whole request waits: as in Kafka, who sends ahead is muted meanwhile."""
        peer = self.peers.by_number.get(number)
        if peer is None or peer.is_closing or peer.is_cut_short or peer.wire.queued_bytes:
            return False
        return peer.wire.wants_read and not peer.session.muted_until_ms

    def has_backlog(self, number: int) -> bool:
        """True while requests wait that nothing but the socket holds up."""
        peer = self.peers.by_number.get(number)
        if peer is None or peer.is_closing or peer.in_work is not None:
            return False
        return peer.is_cut_short and not peer.session.muted_until_ms

    def disconnected(self, number: int) -> list[Effect]:
        self.purgatory.forget(number)
        self._answered.pop(number, None)
        self.peers.leave(number)
        self.controller_link.disconnected(number)
        self.may_be_due_sooner = True
        return self._take_effects()

    @property
    def connection_count(self) -> int:
        return len(self.peers.by_number)

    # -- time, and what came of effects -------------------------------------------------------

    def tick(self) -> list[Effect]:
        now_ms = self.clock.monotonic_ms()
        self._end_parked(self.purgatory.expire(now_ms))
        self.following.work_off()
        # What they sent ahead is served by the runtime's turns, once their answers have left.
        for number in self.peers.take_unmuted(now_ms):
            self._unmuted(self.peers.by_number[number])
        for agent in self.agents.all:
            self._effects.extend(agent.tick())
        self._close_idle(now_ms)
        return self._take_effects()

    def _close_idle(self, now_ms: int) -> None:
        """Looks at every connection, so not at every tick."""
        if now_ms < self._idle_check_ms:
            return
        self._idle_check_ms = now_ms + _IDLE_CHECK_MS
        for peer, reason in self.peers.too_silent(now_ms):
            # At once: who takes no answer for so long will not take this one either.
            self._close(peer, reason, kind="silent", at_once=True)

    @property
    def next_deadline_ms(self) -> int:
        """When `tick` is due next, in monotonic time."""
        if self.partitions.backlog:
            return self.clock.monotonic_ms()
        parked_ms = self.purgatory.next_deadline_ms
        deadline_ms = INT64_MAX if parked_ms is None else parked_ms
        unmute_ms = self.peers.next_unmute_ms
        if unmute_ms is not None and unmute_ms < deadline_ms:
            deadline_ms = unmute_ms
        for agent in self.agents.all:
            other_ms = agent.next_deadline_ms
            if other_ms is not None and other_ms < deadline_ms:
                deadline_ms = other_ms
        return deadline_ms

    def may_be_due_sooner_after(self, dial: Dial) -> bool:
        """Whether an answer on a connection we opened may have brought `next_deadline_ms` closer.
        Followers get one for every batch, so agents that it cannot concern are not asked."""
        concerned = self.agents.concerned_by.get(dial.purpose)
        if concerned is None or self.may_be_due_sooner or self.partitions.backlog:
            return True
        for agent in concerned:
            due_ms = agent.next_deadline_ms
            if due_ms is not None and due_ms < self.wakes_ms:
                return True
        return False

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        """What came of an effect; `results` says which result is the last."""
        for agent in self.agents.heard_by(effect):
            self._effects.extend(agent.completed(effect, result))
        return self._take_effects()

    def received_from_dialled(self, dial: Dial, number: int, data: memoryview) -> list[Effect]:
        """Bytes of a connection we opened, in memory that is used again after the call."""
        self._effects.extend(self.agents.dialling[dial.purpose].received(number, data))
        return self._take_effects()

    def room_for_dialled(self, dial: Dial, number: int) -> memoryview | None:
        """Where to receive the rest of a large answer. Let go of the view, then say in
        `filled_dialled` how many bytes came."""
        return self.agents.dialling[dial.purpose].room(number)

    def filled_dialled(self, dial: Dial, number: int, count: int) -> list[Effect]:
        self._effects.extend(self.agents.dialling[dial.purpose].filled(number, count))
        return self._take_effects()

    def lost_dialled(self, dial: Dial, number: int, reason: str) -> list[Effect]:
        """The other side hung up, or the connection broke; not called after a `Hangup`."""
        self._effects.extend(self.agents.dialling[dial.purpose].lost(number, reason))
        return self._take_effects()

    # -- what else happens --------------------------------------------------------------------

    def stop_cleaning(self) -> list[Effect]:
        """No pass starts any more; those at work are called off."""
        self._effects.extend(self.cleaning.stop())
        return self._take_effects()

    def changed_from_outside(self) -> list[Effect]:
        """Something was appended or committed and no connection had asked for it: who waited for
        it is served."""
        return self._take_effects()

    def clock_moved(self) -> None:
        """Somebody has set the wall clock: what goes by it is looked at without waiting."""
        self.housekeeping.look_now()
        self.cleaning.look_now()
        self.transactions.look_now()
        self.erasing_on_demand.something_happened()
