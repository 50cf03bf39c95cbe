"""The broker: machines composed, no sockets. Grade D.

`connected`, `receive`, `sent`, `disconnected`, `tick` and `completed` each return effects; the
runtime performs them, a test looks at them. One request of a connection is in work at a time, and
answers leave in order. What an API does is in handlers/, never here; nothing here knows a loop.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ledgerstone.broker_config import BrokerConfig
from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.clock import Clock, Dice
from ledgerstone.errors import KafkaError, StorageError, UnknownTopicId
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.headers import RequestHeader
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ledgerstone.protocol.pieces import total_size
from ledgerstone.protocol.server_connection import ConnectionLimits, ServerConnection, State
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.replication.fetch_session import FetchSessions
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning import Cleaning
from ledgerstone.server.cleaning_parts import PassFailed
from ledgerstone.server.effects import Close, Effect, Flush, Send
from ledgerstone.server.groups import Groups
from ledgerstone.server.housekeeping import Housekeeping
from ledgerstone.server.metadata_log import MetadataLog
from ledgerstone.server.metrics import Counters, add
from ledgerstone.server.purgatory import Purgatory
from ledgerstone.server.request import Answer, Disconnect, Later, Parked, Request
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)

# Answers emitted for one connection before its socket must have taken them.
_ANSWER_BYTES_PER_TURN: Final = 1 << 20
# Requests served for one connection before the others get their turn.
_REQUESTS_PER_TURN: Final = 64
_IDLE_CHECK_MS: Final = 1000
# What a request may fail with when nothing can be answered; anything else is a fault of ours.
_REFUSALS: Final = (KafkaError, StorageError, ProtocolViolation, Disconnect, OSError)

Dispatch = Callable[["Broker", Request, ApiMessage], Answer]


@dataclass(slots=True, eq=False)
class _Peer:
    """One connected client."""

    number: int
    host: str
    wire: ServerConnection
    last_active_ms: int
    in_work: Request | None = None
    is_closing: bool = False
    is_cut_short: bool = False  # its turn ended with requests left, or what breaks the protocol


@dataclass(slots=True, kw_only=True)
class Broker:
    """Made by bootstrap, which opens the log directory and replays the metadata first."""

    config: BrokerConfig
    clock: Clock
    dice: Dice
    dispatch: Dispatch
    handled: frozenset[int]
    log_dir: LogDir
    metadata_log: MetadataLog
    image: MetadataImage
    controller: Controller
    partitions: HostedPartitions
    groups: Groups
    fetch_sessions: FetchSessions
    housekeeping: Housekeeping
    cleaning: Cleaning
    counters: Counters = field(default_factory=Counters)
    purgatory: Purgatory = field(default_factory=Purgatory)
    _producer_ids: range = range(0)
    _peers: dict[int, _Peer] = field(default_factory=dict)
    _hosts: dict[str, int] = field(default_factory=dict)
    _effects: list[Effect] = field(default_factory=list)
    # Partitions that grew since effects were last taken: who waits for them is tried then.
    _grown: dict[TopicPartition, None] = field(default_factory=dict)
    # Connections whose waiting request was answered: what came behind it is served then.
    _answered: dict[int, None] = field(default_factory=dict)
    _idle_check_ms: int = 0

    # -- what the runtime calls ---------------------------------------------------------------

    def connected(self, number: int, host: str) -> list[Effect]:
        here = self._hosts.get(host, 0)
        if len(self._peers) >= self.config.max_connections:
            return self._refuse(number, f"max.connections={self.config.max_connections} reached")
        if here >= self.config.max_connections_per_ip:
            limit = self.config.max_connections_per_ip
            return self._refuse(number, f"max.connections.per.ip={limit} reached by {host}")
        self._hosts[host] = here + 1
        limits = ConnectionLimits(max_frame_bytes=self.config.socket_request_max_bytes)
        wire = ServerConnection(limits, self.handled)
        self._peers[number] = _Peer(number, host, wire, self.clock.monotonic_ms())
        self.counters.connections_accepted += 1
        return []

    def _refuse(self, number: int, reason: str) -> list[Effect]:
        self.counters.connections_refused += 1
        return [Close(number, reason)]

    def receive(self, number: int, data: memoryview) -> list[Effect]:
        peer = self._peers.get(number)
        if peer is None or peer.is_closing:
            return []
        peer.last_active_ms = self.clock.monotonic_ms()
        peer.wire.receive_data(data)
        self._serve(peer)
        # The caller reuses its buffer: what has to wait needs memory of its own.
        peer.wire.own_queue()
        return self._take_effects()

    def sent(self, number: int) -> list[Effect]:
        """The socket has taken all it was given: the connection may be served on."""
        peer = self._peers.get(number)
        if peer is not None:
            self._serve(peer)
        return self._take_effects()

    def taking(self, number: int) -> None:
        """The socket has taken a part of what it was given."""
        peer = self._peers.get(number)
        if peer is not None:
            peer.last_active_ms = self.clock.monotonic_ms()

    def wants_read(self, number: int) -> bool:
        """False while a whole request waits: as in Kafka, who sends ahead is muted meanwhile."""
        peer = self._peers.get(number)
        if peer is None or peer.is_closing or peer.is_cut_short or peer.wire.queued_bytes:
            return False
        return peer.wire.wants_read

    def has_backlog(self, number: int) -> bool:
        """True while requests wait that nothing but the socket holds up."""
        peer = self._peers.get(number)
        if peer is None or peer.is_closing or peer.in_work is not None:
            return False
        return peer.is_cut_short

    def disconnected(self, number: int) -> list[Effect]:
        peer = self._peers.pop(number, None)
        if peer is not None:
            left = self._hosts[peer.host] - 1
            if left:
                self._hosts[peer.host] = left
            else:
                del self._hosts[peer.host]
            self.purgatory.forget(number)
            self._answered.pop(number, None)
        return self._take_effects()

    def tick(self) -> list[Effect]:
        now_ms = self.clock.monotonic_ms()
        for request, response in self.purgatory.expire(now_ms):
            self.answer(request, response)
        self.groups.tick(self)
        self._effects.extend(self.housekeeping.tick(self))
        self._effects.extend(self.cleaning.tick(self))
        self._close_idle(now_ms)
        return self._take_effects()

    def completed(self, effect: Flush, failure: OSError | None) -> list[Effect]:
        partition = self.partitions.find(effect.topic_partition)
        if partition is not None and partition.topic_id == effect.topic_id:
            if failure is None:
                partition.log.flush_done(effect.plan)
            else:
                partition.log.fail(f"fsync failed: {failure}")
                self.log_failed(effect.topic_partition, failure)
        self.housekeeping.flushed(effect.topic_partition)
        self._effects.extend(self.cleaning.flushed(self, effect.topic_partition))
        return self._take_effects()

    def group_cleaned(self, number: int, group: CleanedGroup) -> list[Effect]:
        """A worker has written a `.cleaned` segment and waits for a `Proceed`."""
        self._effects.extend(self.cleaning.group_cleaned(self, number, group))
        return self._take_effects()

    def cleaning_ended(self, number: int, outcome: PassReport | PassFailed) -> list[Effect]:
        self.cleaning.ended(self, number, outcome)
        return self._take_effects()

    def stop_cleaning(self) -> list[Effect]:
        """No pass starts any more; those at work are called off."""
        self._effects.extend(self.cleaning.stop())
        return self._take_effects()

    def clock_moved(self) -> None:
        """Somebody has set the wall clock: what goes by it is looked at without waiting."""
        self.housekeeping.look_now()
        self.cleaning.look_now()

    @property
    def next_deadline_ms(self) -> int:
        """When `tick` is due next, in monotonic time."""
        # Asked after every request, so it makes no list of them.
        deadline_ms = self.housekeeping.next_deadline_ms
        for other_ms in (
            self.cleaning.next_deadline_ms,
            self.purgatory.next_deadline_ms,
            self.groups.next_deadline_ms,
        ):
            if other_ms is not None and other_ms < deadline_ms:
                deadline_ms = other_ms
        return deadline_ms

    @property
    def connection_count(self) -> int:
        return len(self._peers)

    # -- serving ------------------------------------------------------------------------------

    def _serve(self, peer: _Peer) -> None:
        """Serves requests of one connection until one has to wait or its turn is over."""
        budget, requests = _ANSWER_BYTES_PER_TURN, _REQUESTS_PER_TURN
        peer.is_cut_short = False
        while peer.in_work is None and not peer.is_closing:
            if budget <= 0 or requests == 0:
                peer.is_cut_short = True
                break
            requests -= 1
            try:
                received = peer.wire.next_request()
                if received is None:
                    break
                # Noted before the handler runs: a machine it calls may answer in the same turn.
                request = peer.in_work = self._request(peer, received.header)
                add(self.counters.requests, received.message.name)
                answer = self.dispatch(self, request, received.message)
            except _REFUSALS as error:
                self._send(peer)
                self._close(peer, str(error))
                return
            if isinstance(answer, Parked):
                self.purgatory.park(request, answer)
            elif not isinstance(answer, Later):
                peer.in_work = None
                if answer is None:
                    peer.wire.skip_response()
                else:
                    peer.wire.respond(answer)
                budget -= self._send(peer)
        self._send(peer)

    def _request(self, peer: _Peer, header: RequestHeader) -> Request:
        return Request(
            peer.number,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            peer.host,
            self.clock.monotonic_ms(),
        )

    def _send(self, peer: _Peer) -> int:
        """Hands what the connection has to say to the runtime; returns how many bytes that is."""
        pieces = peer.wire.data_to_send()
        if not pieces:
            return 0
        self._effects.append(Send(peer.number, pieces))
        return total_size(pieces)

    def answer(self, request: Request, response: ApiMessage) -> None:
        """Answers a request that had to wait.

        What came behind it is served once the machine that answers is done: its next request may
        change that very machine, or answer the one that is being handled."""
        peer = self._peers.get(request.connection)
        if peer is None or peer.in_work is not request or peer.is_closing:
            return
        peer.in_work = None
        peer.wire.respond(response)
        self._send(peer)
        self._answered[peer.number] = None

    def _close(self, peer: _Peer, reason: str, *, at_once: bool = False) -> None:
        peer.is_closing = True
        self._effects.append(Close(peer.number, reason, at_once))

    def _close_idle(self, now_ms: int) -> None:
        """Looks at every connection, so not at every tick."""
        if now_ms < self._idle_check_ms:
            return
        self._idle_check_ms = now_ms + _IDLE_CHECK_MS
        oldest_ms = now_ms - self.config.connections_max_idle_ms
        for peer in self._peers.values():
            is_waited_for = peer.in_work is not None and not peer.is_closing
            if peer.last_active_ms < oldest_ms and not is_waited_for:
                # At once: who takes no answer for so long will not take this one either.
                self._close(peer, f"idle for {now_ms - peer.last_active_ms} ms", at_once=True)

    def _take_effects(self) -> list[Effect]:
        """Wakes who waited for what grew, serves who was answered, hands over what was decided."""
        while self._grown or self._answered:
            grown, self._grown = self._grown, {}
            for topic_partition in grown:
                for request, response in self.purgatory.wake(topic_partition):
                    self.answer(request, response)
            answered, self._answered = self._answered, {}
            for number in answered:
                self._serve(self._peers[number])
        effects, self._effects = self._effects, []
        return effects

    def check_invariants(self) -> None:
        hosts: dict[str, int] = {}
        for peer in self._peers.values():
            add(hosts, peer.host)
            peer_waits = peer.wire.state is State.IN_WORK
            assert peer.is_closing or peer_waits == (peer.in_work is not None), peer
        assert hosts == self._hosts, (hosts, self._hosts)
        for request in self.purgatory.requests():
            assert self._peers[request.connection].in_work is request, request
        assert not self._effects
        assert not self._grown
        assert not self._answered
        self.image.check_invariants()
        self.groups.check_invariants()
        self.cleaning.check_invariants()

    # -- what handlers ask --------------------------------------------------------------------

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.image.topic_names.get(topic_id)

    def partition_of(self, topic: str | bytes, number: int) -> Partition:
        """By name or by topic id."""
        if isinstance(topic, str):
            return self.partitions.get(TopicPartition(topic, number))
        name = self.topic_name(topic)
        if name is None:
            raise UnknownTopicId(f"topic id {topic.hex()} is not known")
        return self.partitions.get(TopicPartition(name, number))

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port that clients are told for a broker."""
        endpoint = self.image.brokers[node_id].endpoints[0]
        return endpoint.host, endpoint.port

    def next_producer_id(self) -> int:
        """From the block this broker holds; a new block is drawn when it is used up."""
        if not self._producer_ids:
            request = AllocateProducerIdsRequest(
                broker_id=self.config.node_id,
                broker_epoch=self.image.brokers[self.config.node_id].broker_epoch,
            )
            decision = self.controller.allocate_producer_ids(request)
            self.commit_metadata(decision.records)
            first = decision.response.producer_id_start
            self._producer_ids = range(first, first + decision.response.producer_id_len)
        producer_id, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return producer_id

    def appended(self, topic_partition: TopicPartition, size: int = 0) -> None:
        self._grown[topic_partition] = None
        add(self.counters.batches_in, topic_partition.topic)
        add(self.counters.bytes_in, topic_partition.topic, size)

    def log_failed(self, topic_partition: TopicPartition | None, error: Exception) -> None:
        _LOG.error("log failed partition=%s reason=%s", topic_partition, error)

    def commit_metadata(self, records: list[MetadataRecord]) -> None:
        """Makes controller records durable, then true: image, hosted partitions, who waits."""
        if not records:
            return
        self.metadata_log.commit(records)
        delta = self.controller.replay(records)
        self.image = self.controller.image
        self.partitions.apply(delta, self.image)
        for topic in delta.topics_deleted:
            for number in topic.partitions:
                self._grown[TopicPartition(topic.name, number)] = None
        self.groups.metadata_changed(self, delta)
        self._effects.extend(self.cleaning.metadata_changed(self, delta))
