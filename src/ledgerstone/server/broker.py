"""The broker: machines composed, no sockets. Grade D.

`connected`, `received`, `sent`, `disconnected`, `tick` and `completed` each return effects; the
runtime performs them, a test looks at them. One request of a connection is in work at a time, and
answers leave in order. What an API does is in handlers/, never here; nothing here knows a loop.

Bytes are received where `room_for` says: into the buffer of a frame under way, or into one that all
connections share, so that an idle connection owns none.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError, StorageError, UnknownTopicId
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.server_connection import ServerConnection
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.replication.fetch_session import FetchSessions
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.server.agents import Agents
from ledgerstone.server.anatomy.book import AnatomyBook
from ledgerstone.server.cleaning.agent import Cleaning
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.directories.agent import Directories
from ledgerstone.server.effects import Close, Dial, Effect, Resume, Send
from ledgerstone.server.erasing.agent import Erasing
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.server.following import Following
from ledgerstone.server.groups.agent import Groups
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.housekeeping.agent import Housekeeping
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.server.isr.agent import IsrAgent
from ledgerstone.server.login.logins import Logins
from ledgerstone.server.markers import PartitionMarkers
from ledgerstone.server.metrics import Counters, TlsFacts
from ledgerstone.server.peers import Peer, Peers
from ledgerstone.server.producer_ids import ProducerIds
from ledgerstone.server.purgatory import Ended, Purgatory
from ledgerstone.server.quorum.agent import QuorumAgent
from ledgerstone.server.quotas.agent import QuotaAgent
from ledgerstone.server.quotas.client_quotas import ClientQuotas
from ledgerstone.server.quotas.connection_quotas import ConnectionQuotas, EntryVerdict
from ledgerstone.server.request import (
    Answer,
    Disconnect,
    Encoded,
    Farewell,
    InnerRequest,
    Later,
    Parked,
    Request,
    Response,
    outermost,
)
from ledgerstone.server.results import Result
from ledgerstone.server.session import DEFAULT_LISTENER, Login
from ledgerstone.server.state_agents import build_state_agents
from ledgerstone.server.throttle import LogThrottle
from ledgerstone.server.tombstones.near import NearTombstoneWatch
from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.server.verification import TxnVerification
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import INT64_MAX, TopicPartition

if TYPE_CHECKING:
    # A single node does without it.
    from ledgerstone.server.auditing.auditor import Auditor
    from ledgerstone.server.broker_life.joining import ClusterMembership

_LOG: Final = logging.getLogger(__name__)

# Answers emitted for one connection before its socket must have taken them.
_ANSWER_BYTES_PER_TURN: Final = 1 << 20
# Requests served for one connection before the others get their turn.
_REQUESTS_PER_TURN: Final = 64
_IDLE_CHECK_MS: Final = 1000
# Between the last answer of a connection and its end.
_LINGER_MS: Final = 50
# APIs that make nothing due sooner, but the end of their own waiting.
_UNSCHEDULED: Final = (0, 1)
# APIs whose requests are views of their frames; the others were copied out of them.
_KEEPS_FRAME: Final = (0,)
# What a request may fail with when nothing can be answered; anything else is a fault of ours.
_REFUSALS: Final = (KafkaError, StorageError, ProtocolViolation, Disconnect, OSError)

Dispatch = Callable[["Broker", Request, ApiMessage], Answer]


@dataclass(slots=True, kw_only=True)
class Broker:
    """Made by bootstrap, which opens the log directory and replays the metadata first."""

    config: BrokerConfig
    clock: Clock
    dice: Dice
    dispatch: Dispatch
    handled: frozenset[int]
    controller_handled: frozenset[int]
    log_dirs: LogDirs
    quorum: QuorumAgent
    controller_link: ControllerLink
    producer_ids: ProducerIds
    partitions: HostedPartitions
    shards: HostedShards
    txn_shards: TransactionShards
    scans: Scans
    fetch_sessions: FetchSessions
    disk: DiskWatch
    housekeeping: Housekeeping
    cleaning: Cleaning
    near_tombstones: NearTombstoneWatch
    anatomy: AnatomyBook
    # None: everybody may do everything.
    authorizer: Authorizer | None = None
    auditor: "Auditor | None" = None
    counters: Counters = field(default_factory=Counters)
    purgatory: Purgatory = field(default_factory=Purgatory)
    peers: Peers = field(init=False)
    quotas: ClientQuotas = field(init=False)
    quota_agent: QuotaAgent = field(init=False)
    groups: Groups = field(init=False)
    transactions: Transactions = field(init=False)
    erasing: Erasing = field(init=False)
    markers: PartitionMarkers = field(init=False)
    verification: TxnVerification = field(init=False)
    agents: Agents = field(init=False)
    following: Following = field(init=False)
    directories: Directories = field(init=False)
    isr: IsrAgent = field(init=False)
    logins: Logins = field(init=False)
    # Of a node of a cluster; None where there is no cluster.
    membership: "ClusterMembership | None" = None
    # Of a node with TLS, for operators.
    tls: TlsFacts | None = None
    _effects: list[Effect] = field(default_factory=list)
    # Partitions that grew since effects were last taken: who waits for them is tried then.
    _grown: dict[TopicPartition, None] = field(default_factory=dict)
    # Connections whose waiting request was answered: what came behind it is served then.
    _answered: dict[int, None] = field(default_factory=dict)
    _faults: LogThrottle = field(default_factory=LogThrottle)
    # `next_deadline_ms` may have come closer; the runtime sets it back when it has looked.
    may_be_due_sooner: bool = True
    # When `tick` is called at the latest; kept by the runtime.
    wakes_ms: int = INT64_MAX
    _idle_check_ms: int = 0

    def __post_init__(self) -> None:
        self.peers = Peers(self.config, self.handled, self.controller_handled)
        self.quotas = ClientQuotas(self.config)
        self.logins = Logins(
            self.config,
            self.clock,
            self.dice,
            image=lambda: self.controller_link.image,
            counters=self.counters,
            turn=self,
        )
        (
            self.groups,
            self.markers,
            self.transactions,
            self.verification,
            self.erasing,
        ) = build_state_agents(
            config=self.config,
            clock=self.clock,
            dice=self.dice,
            log_dirs=self.log_dirs,
            image=lambda: self.controller_link.image,
            partitions=self.partitions,
            controller=self.controller_link,
            producer_ids=self.producer_ids,
            shards=self.shards,
            txn_shards=self.txn_shards,
            scans=self.scans,
            cleaning=self.cleaning,
            disk=self.disk,
            unlinking=self.housekeeping,
            turn=self,
        )
        self.agents = Agents(
            groups=self.groups,
            transactions=self.transactions,
            housekeeping=self.housekeeping,
            erasing=self.erasing,
            cleaning=self.cleaning,
            anatomy=self.anatomy,
        )
        self.agents.add(self.markers)
        if self.auditor is not None:
            self.agents.add(self.auditor)
            self.logins.on_failure = self.auditor.login_failed
        self.agents.add(self.verification)
        self.agents.add(self.producer_ids)
        self._add_quotas()
        self.following = Following(
            turn=self,
            partitions=self.partitions,
            disk=self.disk,
            counters=self.counters,
            near_tombstones=self.near_tombstones,
            cleaning=self.cleaning,
            groups=self.groups,
            transactions=self.transactions,
            erasing=self.erasing,
            markers=self.markers,
            agents=self.agents,
            authorizer=self.authorizer,
        )
        self._add_replica_agents()
        self.agents.add_quorum(self.quorum)
        self.agents.add_dialling(self.quorum.calls.purpose, self.quorum.calls)
        self.quorum.turn = self.quorum.calls.turn = self
        self.controller_link.subscriber = self.following
        if self.authorizer is not None:
            self.authorizer.follow(added=self.image.acls.values())

    def _add_quotas(self) -> None:
        self.quota_agent = QuotaAgent(
            clock=self.clock,
            image=lambda: self.controller_link.image,
            clients=self.quotas,
            connections=ConnectionQuotas(self.config),
            settings=lambda: self.image.broker_values(self.config.node_id, self.config.raw),
            set_caps=self.peers.set_caps,
        )
        self.agents.add(self.quota_agent)
        self.controller_link.quotas = self.quotas
        self.quota_agent.load()

    def _add_replica_agents(self) -> None:
        """What looks after directories, and after replicas that are in sync."""
        self.directories = Directories(
            clock=self.clock,
            node_id=self.config.node_id,
            log_dirs=self.log_dirs,
            partitions=self.partitions,
            cleaning=self.cleaning,
            turn=self,
            image=lambda: self.controller_link.image,
            ask=self.controller_link.ask,
            leadership=self.following.leadership,
            settings=lambda: self.image.broker_values(self.config.node_id, self.config.raw),
        )
        self.agents.add_directories(self.directories)
        self.isr = IsrAgent(
            config=self.config,
            clock=self.clock,
            partitions=self.partitions,
            image=lambda: self.controller_link.image,
            ask=partial(self.controller_link.ask, by_broker=True),
            counters=self.counters,
            moved=self.following.high_watermark_moved,
        )

    # -- what the runtime calls ---------------------------------------------------------------

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
            return []
        self.greeting_failed(session.listener)
        return [Close(number, refusal, kind="certificate")]

    def greeting_failed(self, listener: str) -> None:
        """No TLS came about with somebody."""
        self.counters.count_login("failed_authentication", listener)

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
        self.erasing.something_happened()

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

    @property
    def connection_count(self) -> int:
        return len(self.peers.by_number)

    # -- serving ------------------------------------------------------------------------------

    def _serve(self, peer: Peer) -> None:
        """Serves requests of one connection until one has to wait or its turn is over."""
        budget, requests = _ANSWER_BYTES_PER_TURN, _REQUESTS_PER_TURN
        wire, session = peer.wire, peer.session
        has_quotas = self.quotas.is_active
        peer.is_cut_short = False
        while peer.in_work is None and not peer.is_closing:
            if budget <= 0 or requests == 0 or session.muted_until_ms:
                peer.is_cut_short = True
                break
            requests -= 1
            try:
                received = wire.next_request()
                if received is None:
                    break
                # Noted before the handler runs: a machine it calls may answer in the same turn.
                request = peer.in_work = Request(
                    peer.number,
                    *received.header,
                    session,
                    peer.last_active_ms,
                    received.frame_bytes,
                )
                answer = self.dispatch(self, request, received.message)
            except _REFUSALS as error:
                self._send(peer)
                self._close(peer, str(error), kind=type(error).__name__)
                return
            # The frame's memory is used again once it is answered, so nothing may look at it.
            del received
            if isinstance(answer, Parked):
                if request.api_key not in _KEEPS_FRAME:
                    wire.let_go_of_frame()
                self.purgatory.park(request, answer)
                if answer.deadline_ms < self.wakes_ms or request.api_key not in _UNSCHEDULED:
                    self.may_be_due_sooner = True
                continue
            if request.api_key not in _UNSCHEDULED:
                self.may_be_due_sooner = True
            if isinstance(answer, Later):
                if request.api_key not in _KEEPS_FRAME:
                    wire.let_go_of_frame()
                continue
            peer.in_work = None
            if has_quotas and type(answer) is not Encoded:
                answer = self._charged(request, answer)
            if answer is None:
                wire.skip_response()
            else:
                budget -= self._respond(wire, answer)
        self._send(peer)

    def _charged(self, request: Request, answer: Response | None) -> Response | None:
        """Counts what was asked and answered. Whoever has used too much waits from now on."""
        now_ms = self.clock.monotonic_ms()
        answer, throttle_ms = self.quotas.answered(request, answer, now_ms)
        if throttle_ms:
            self.mute(request.connection, now_ms + throttle_ms)
        return answer

    def _respond(self, wire: ServerConnection, answer: Response) -> int:
        if type(answer) is bytes:
            return wire.respond(answer)
        if type(answer) is Encoded:
            return wire.respond(answer.pieces, answer.size)
        assert isinstance(answer, ApiMessage)
        # Where there is a code for the whole answer, it has this name.
        code = getattr(answer, "error_code", 0)
        if code:
            self.counters.answered_error(answer.name, code)
        return wire.respond(answer)

    def _send(self, peer: Peer) -> None:
        """Hands what the connection has to say to the runtime."""
        pieces = peer.wire.data_to_send()
        if pieces:
            self._effects.append(Send(peer.number, pieces))

    def answer(self, request: Request, response: ApiMessage | Encoded) -> None:
        """Answers a request that had to wait.

        What came behind it is served once the machine that answers is done: its next request may
        change that very machine, or answer the one that is being handled."""
        while isinstance(request, InnerRequest):
            assert isinstance(response, ApiMessage), response
            response, request = request.wrapped(response), request.outer
        peer = self.peers.by_number.get(request.connection)
        if peer is None or peer.in_work is not request or peer.is_closing:
            return
        peer.in_work = None
        answer: Response | None = response
        if self.quotas.is_active and type(response) is not Encoded:
            answer = self._charged(request, response)
        assert answer is not None
        self._respond(peer.wire, answer)
        self._send(peer)
        self._answered[peer.number] = None

    def wire_of(self, request: Request) -> ServerConnection:
        """Of a request in work: its connection is there."""
        return self.peers.by_number[request.connection].wire

    def is_awaited(self, request: Request) -> bool:
        """Whether its client is still there and waits for the answer."""
        peer = self.peers.by_number.get(request.connection)
        return peer is not None and peer.in_work is outermost(request) and not peer.is_closing

    def finish(self, request: Request, answer: Answer | Exception) -> None:
        """Does with a handler's answer what would have been done, had it returned it itself."""
        if isinstance(answer, Later) or not self.is_awaited(request):
            return
        if isinstance(answer, Parked):
            while isinstance(request, InnerRequest):
                answer, request = answer.with_answer(request.wrapped), request.outer
            self.purgatory.park(request, answer)
            self.may_be_due_sooner = True
        elif answer is None:
            peer = self.peers.by_number[request.connection]
            peer.in_work = None
            if self.quotas.is_active:
                self._charged(outermost(request), None)
            peer.wire.skip_response()
            self._answered[peer.number] = None
        elif isinstance(answer, bytes):
            raise AssertionError(f"encoded for another turn: {answer.hex()}")
        else:
            self._end_parked([(request, answer)])

    def _end_parked(self, ended: Ended) -> None:
        for request, outcome in ended:
            if isinstance(outcome, Farewell):
                self._bid_farewell(request, outcome)
                continue
            if not isinstance(outcome, Exception):
                self.answer(request, outcome)
                continue
            if not isinstance(outcome, _REFUSALS):
                kind = f"parked request failed {type(outcome).__name__}"
                suppressed = self._faults.admit(kind, self.clock.monotonic_ms())
                if suppressed is not None:
                    _LOG.error("%s suppressed=%d", kind, suppressed, exc_info=outcome)
            peer = self.peers.by_number[request.connection]
            if not peer.is_closing:
                self._close(peer, str(outcome), kind=type(outcome).__name__)

    def _bid_farewell(self, request: Request, farewell: Farewell) -> None:
        peer = self.peers.by_number[request.connection]
        if peer.is_closing:
            return
        if farewell.message is None:
            self._close(peer, farewell.reason, kind="login")
            return
        self.answer(request, farewell.message)
        # Some clients take what comes together with the end of a connection for nothing.
        peer.farewell = farewell.reason
        self.mute(peer.number, self.clock.monotonic_ms() + _LINGER_MS)

    def mute(self, connection: int, until_ms: int) -> None:
        """Answers still leave; the connection is not read or served before then."""
        self.peers.mute(connection, until_ms)
        self.may_be_due_sooner = True

    def _unmuted(self, peer: Peer) -> None:
        if peer.farewell is None:
            self._effects.append(Resume(peer.number))
        elif not peer.is_closing:
            self._close(peer, peer.farewell, kind="login")

    def _close(self, peer: Peer, reason: str, *, kind: str, at_once: bool = False) -> None:
        peer.is_closing = True
        self._effects.append(Close(peer.number, reason, at_once, kind))

    def _close_idle(self, now_ms: int) -> None:
        """Looks at every connection, so not at every tick."""
        if now_ms < self._idle_check_ms:
            return
        self._idle_check_ms = now_ms + _IDLE_CHECK_MS
        for peer, reason in self.peers.too_silent(now_ms):
            # At once: who takes no answer for so long will not take this one either.
            self._close(peer, reason, kind="silent", at_once=True)

    def _take_effects(self) -> list[Effect]:
        """Wakes who waited for what grew, serves who was answered, hands over what was decided."""
        while self._grown or self._answered:
            grown, self._grown = self._grown, {}
            for topic_partition in grown:
                self._end_parked(self.purgatory.wake(topic_partition))
            answered, self._answered = self._answered, {}
            for number in answered:
                peer = self.peers.by_number[number]
                if peer.wire.has_news:
                    self._serve(peer)
        if self.peers.starved and self.peers.memory.has_given_back:
            self._effects.extend(map(Resume, self.peers.take_resumable()))
        effects, self._effects = self._effects, []
        return effects

    def check_invariants(self) -> None:
        self.peers.check_invariants()
        for request in self.purgatory.requests():
            assert self.peers.by_number[request.connection].in_work is request, request
        assert not self._effects
        assert not self._grown
        assert not self._answered
        self.image.check_invariants()
        self.partitions.check_invariants()
        self.groups.check_invariants()
        self.transactions.check_invariants()
        self.cleaning.check_invariants()
        self.anatomy.check_invariants()

    # -- what handlers ask --------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """What is committed of the metadata."""
        return self.controller_link.committed_image.image

    @property
    def log_dir(self) -> LogDir:
        """The directory of the metadata log; with one directory, the one of everything."""
        return self.log_dirs.metadata

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.image.topic_names.get(topic_id)

    def partition_of(self, topic: str | bytes, number: int) -> Partition:
        """By name or by topic id."""
        if isinstance(topic, str):
            return self.partitions.get(TopicPartition(topic, number))
        # Written out: every Fetch by topic id comes here.
        name = self.controller_link.committed_image.image.topic_names.get(topic)
        if name is None:
            raise UnknownTopicId(f"topic id {topic.hex()} is not known")
        return self.partitions.get(TopicPartition(name, number))

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port of a broker's first listener; of its own before it is registered."""
        registered = self.image.brokers.get(node_id)
        endpoints = () if registered is None else registered.endpoints
        first = endpoints[0] if endpoints else self.config.listeners[0]
        return first.host, first.port

    def grew(self, topic_partition: TopicPartition) -> None:
        """Requests that wait for the partition are tried again before the turn ends."""
        if topic_partition in self.purgatory.awaited:
            self._grown[topic_partition] = None

    def act(self, effects: Iterable[Effect]) -> None:
        """What an agent wants done leaves with this turn's effects."""
        self._effects.extend(effects)

    def appended(self, topic_partition: TopicPartition, size: int = 0) -> None:
        # Written out, as every produced batch comes here.
        if topic_partition in self.purgatory.awaited:
            self._grown[topic_partition] = None
        if self.disk.refusals:
            self.disk.accepted(str(topic_partition))
        topic, counters = topic_partition.topic, self.counters
        counters.batches_in[topic] = counters.batches_in.get(topic, 0) + 1
        counters.bytes_in[topic] = counters.bytes_in.get(topic, 0) + size

    def high_watermark_moved(self, topic_partition: TopicPartition) -> None:
        self.following.high_watermark_moved(topic_partition)

    def host_topic(self, topic: str) -> None:
        """Makes what is missing of a topic now, for callers that cannot wait."""
        self.following.host_topic(topic)

    def log_failed(self, topic_partition: TopicPartition | None, error: Exception) -> None:
        self.disk.log_failed(topic_partition, error, self.clock.monotonic_ms())
        if topic_partition is not None:
            self.log_dirs.partition_error(topic_partition, error)
        if self.log_dirs.has_failures:
            self.may_be_due_sooner = True
