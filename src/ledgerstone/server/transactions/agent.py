"""The transaction coordinators of this broker: one shard per partition of __transaction_state.

Grade D. The shards decide; `hosted_shard` appends what they decide; this module finds the shard,
sends markers, and gives the answers. With one replica all of that happens in the turn of the
request, markers included: so an answered commit is a visible one, though nobody may rely on it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.coordinator.transactions.checks import check_id, check_timeout, raises_epoch
from ledgerstone.coordinator.transactions.memory import TransactionMemory
from ledgerstone.coordinator.transactions.shard import TransactionShard
from ledgerstone.coordinator.transactions.turn import (
    Answer,
    Decided,
    Markers,
    Outcome,
    ProducerRef,
    TransactionConfig,
)
from ledgerstone.coordinator.turn import Now
from ledgerstone.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptRecord,
    Damage,
    KafkaError,
    LogStorageError,
    NotCoordinator,
    StorageError,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.records import TRANSACTION_VERSION_FEATURE
from ledgerstone.metadata.topic_names import TRANSACTION_STATE
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from ledgerstone.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.server.effects import Effect
from ledgerstone.server.groups.needs import Appends, CountsTombstones, DiskTrouble, HostedLogs
from ledgerstone.server.results import Result
from ledgerstone.server.throttle import LogThrottle, shown
from ledgerstone.server.transactions.adding import add_partitions
from ledgerstone.server.transactions.hosted_shard import HostedShard
from ledgerstone.server.transactions.marking import Retries, Verdict, markers_request, verdicts
from ledgerstone.server.transactions.needs import DrawsProducerIds, WritesMarkers
from ledgerstone.server.transactions.topic import TransactionTopic
from ledgerstone.storage.filenames import Kind
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)

_TROUBLE: Final = (KafkaError, StorageError, OSError)
# A tombstone is its key and some bytes around it.
_TOMBSTONE_OVERHEAD: Final = 32

OnDecided = Callable[[Decided], None]
# Asks a shard, at a time, with a fresh producer id where it may want one.
Call = Callable[[TransactionShard, int, int | None], Outcome]
WantsId = Callable[[TransactionShard], bool]


@dataclass(slots=True, kw_only=True)
class Transactions:
    """An agent (`server.agent`)."""

    config: BrokerConfig
    clock: Clock
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedLogs
    topic: TransactionTopic
    producer_ids: DrawsProducerIds
    markers: WritesMarkers
    cleaning: CountsTombstones
    disk: DiskTrouble
    appends: Appends
    memory: TransactionMemory = field(init=False)
    retries: Retries = field(default_factory=Retries)
    # Of partitions led here; the others have their coordinator elsewhere, or none.
    shards: dict[int, HostedShard] = field(default_factory=dict)
    _settings: TransactionConfig = field(init=False)
    _throttle: LogThrottle = field(default_factory=LogThrottle)
    _abort_check_ms: int | None = None
    _expiry_check_ms: int | None = None

    def __post_init__(self) -> None:
        config = self.config
        self._settings = TransactionConfig(
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
            ledgerstone_transactions_max_bytes=config.ledgerstone_transactions_max_bytes,
            ledgerstone_transaction_max_bytes=config.ledgerstone_transaction_max_bytes,
        )
        self.memory = TransactionMemory(self._settings)

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if not self.shards:
            return None
        times = [self._abort_check_ms, self._expiry_check_ms, self.retries.next_deadline_ms]
        times += [each.next_deadline_ms for each in self.shards.values() if each.in_flight]
        return min((each for each in times if each is not None), default=None)

    def tick(self) -> list[Effect]:
        if not self.shards:
            return []
        now = self._now()
        for hosted in list(self.shards.values()):
            if hosted.in_flight:
                _deliver(hosted.overdue(now))
        for number, transactional_id in self.retries.due(now.monotonic_ms):
            self._mark(number, self.shards[number], transactional_id)
        if _is_due(self._abort_check_ms, now):
            interval_ms = self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._abort_check_ms = now.monotonic_ms + interval_ms
            self._abort_timed_out(now)
        if _is_due(self._expiry_check_ms, now):
            interval_ms = self.config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._expiry_check_ms = now.monotonic_ms + interval_ms
            self._expire(now)
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"transactions asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """A deleted partition needs no marker any more."""
        self.topic.changed()
        if delta.features_changed:
            for hosted in self.shards.values():
                hosted.shard.server_version = self.server_version
        if delta.topics_deleted and len(self.retries):
            self.retries.hurry(self.clock.monotonic_ms())
        return []

    @property
    def server_version(self) -> int:
        """The finalized level of transaction.version."""
        return self.image().features.get(TRANSACTION_VERSION_FEATURE, 0)

    # -- leadership ---------------------------------------------------------------------------

    def leadership_changed(self, event: LeadershipChanged) -> None:
        """Of a partition of __transaction_state. A new epoch is a new coordinator: it loads again,
        and writes again what the one before it may have left unwritten."""
        number = event.topic_partition.partition
        if event.kind is Leadership.COMMITTED:
            self.high_watermark_moved(number)
            return
        self._resign(number)
        if event.kind is not Leadership.LOST:
            self._open_shard(number)

    def _open_shard(self, number: int) -> None:
        partition = self.partitions.find(TopicPartition(TRANSACTION_STATE, number))
        if partition is None or not partition.is_leader or partition.log.damage is not None:
            return
        shard = TransactionShard(self._settings, self.memory, self.server_version)
        self.shards[number] = HostedShard(shard, partition)
        if self._abort_check_ms is None:
            now_ms, config = self.clock.monotonic_ms(), self.config
            self._abort_check_ms = (
                now_ms + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            )
            self._expiry_check_ms = (
                now_ms + config.transaction_remove_expired_transaction_cleanup_interval_ms
            )
        self.high_watermark_moved(number)

    def high_watermark_moved(self, number: int) -> None:
        """More of the partition is committed: a shard that waited for it loads, and changes that
        waited for it are true."""
        hosted = self.shards.get(number)
        if hosted is None:
            return
        if hosted.is_loaded:
            self._advance(number, hosted)
        elif hosted.can_load:
            self._load(number, hosted)

    def _load(self, number: int, hosted: HostedShard) -> None:
        log = hosted.partition.log
        last = log.log_start_offset
        try:
            for offset in hosted.load():
                last = offset
        except (CorruptRecord, StorageError, ValueError, KeyError) as error:
            path = (log.segments.floor(last) or log.segments.first).path(Kind.LOG)
            reason = f"after offset {last} it cannot be replayed: {error}"
            log.damaged([Damage(path, 0, 0, reason)])
            hosted.shard.release()
            del self.shards[number]
            return
        # The markers leave with the next tick: the leaders of other partitions may still load.
        for transactional_id in hosted.shard.loaded().to_mark:
            self.retries.later(number, transactional_id, self.clock.monotonic_ms())
        self.retries.hurry(self.clock.monotonic_ms())

    def _resign(self, number: int) -> None:
        hosted = self.shards.pop(number, None)
        self.retries.forget_shard(number)
        if hosted is not None:
            _deliver(hosted.resign())

    def loaded_shard(self, number: int) -> HostedShard:
        """A coordinator error where this broker does not serve the partition, or not yet."""
        hosted = self.shards.get(number)
        if hosted is not None and hosted.is_loaded:
            return hosted
        name = f"{TRANSACTION_STATE}-{number}"
        if hosted is not None:
            raise CoordinatorLoadInProgress(f"{name} is not committed to its end yet")
        state = self.image().partition(TRANSACTION_STATE, number)
        if state is not None and state.leader == self.config.node_id:
            raise CoordinatorNotAvailable(f"{name} is offline")
        raise NotCoordinator(f"{name} is not led here")

    # -- requests -----------------------------------------------------------------------------

    def coordinator_of(self, transactional_id: str) -> int:
        number_of_broker = self.topic.coordinator_of(transactional_id)
        if number_of_broker == self.config.node_id:
            number = self.topic.number_for(transactional_id)
            if number not in self.shards:
                raise CoordinatorNotAvailable(f"{TRANSACTION_STATE}-{number} is offline")
        return number_of_broker

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        on_decided: OnDecided,
    ) -> None:
        try:
            check_id(transactional_id)
            check_timeout(timeout_ms, self._settings)
        except KafkaError as error:
            on_decided(Decided(error.code))
            return

        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> Outcome:
            return shard.init_producer_id(
                transactional_id,
                timeout_ms,
                expected,
                on_decided,
                now_ms=now_ms,
                fresh_producer_id=fresh,
            )

        def wants_id(shard: TransactionShard) -> bool:
            return shard.is_new(transactional_id) or shard.is_exhausted(transactional_id)

        self._ask(transactional_id, call, on_decided, wants_id=wants_id)

    def add(
        self,
        producer: ProducerRef,
        partitions: Sequence[TopicPartition],
        client_version: int,
        on_decided: OnDecided,
    ) -> None:
        """Adds partitions to the producer's transaction, which begins with the first."""

        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> Outcome:
            return shard.add_partitions(
                producer, partitions, client_version, on_decided, now_ms=now_ms
            )

        self._ask(producer.transactional_id, call, on_decided)

    def verify(
        self, producer: ProducerRef, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """An error code for each partition."""
        try:
            check_id(producer.transactional_id)
            number = self.topic.number_for(producer.transactional_id)
            hosted = self.loaded_shard(number)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return hosted.shard.verify_partitions(producer, partitions)

    def add_partitions(
        self,
        request: AddPartitionsToTxnRequest,
        on_answer: Callable[[AddPartitionsToTxnResponse], None],
    ) -> None:
        """In the form of version 4: what the leader of a partition asks before the first write of a
        transaction. Answers in this turn or in a later one."""
        add_partitions(self, request, on_answer)

    def end(
        self, producer: ProducerRef, client_version: int, on_decided: OnDecided, *, commit: bool
    ) -> None:
        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> Outcome:
            return shard.end_transaction(
                producer,
                client_version,
                on_decided,
                commit=commit,
                now_ms=now_ms,
                fresh_producer_id=fresh,
            )

        def wants_id(shard: TransactionShard) -> bool:
            is_raised = raises_epoch(client_version)
            return is_raised and shard.is_exhausted(producer.transactional_id)

        self._ask(producer.transactional_id, call, on_decided, wants_id=wants_id)

    def _ask(
        self,
        transactional_id: str,
        call: Call,
        on_decided: OnDecided,
        *,
        wants_id: WantsId = lambda shard: False,
        fresh_producer_id: int | None = None,
    ) -> None:
        try:
            check_id(transactional_id)
            number = self.topic.number_for(transactional_id)
            hosted = self.loaded_shard(number)
        except KafkaError as error:
            on_decided(Decided(error.code))
            return
        if fresh_producer_id is None and wants_id(hosted.shard):
            self._draw_for(transactional_id, call, on_decided)
            return
        outcome = call(hosted.shard, self.clock.now_ms(), fresh_producer_id)
        if self.memory.refusal is not None:
            self._tell_refusal()
        self._settle(number, hosted, outcome)

    def _draw_for(self, transactional_id: str, call: Call, on_decided: OnDecided) -> None:
        def drawn(producer_id: int | None) -> None:
            if producer_id is None:
                # As Kafka says while it has no block: clients repeat the request.
                on_decided(Decided(CoordinatorLoadInProgress.code))
                return
            self._ask(transactional_id, call, on_decided, fresh_producer_id=producer_id)

        try:
            self.producer_ids.draw(drawn)
        except _TROUBLE as error:
            self.disk.log_failed(None, error, self.clock.monotonic_ms())
            on_decided(Decided(CoordinatorLoadInProgress.code))

    def _tell_refusal(self) -> None:
        reason, self.memory.refusal = self.memory.refusal, None
        limit = (reason or "").partition("=")[0]
        suppressed = self._throttle.admit(limit, self.clock.monotonic_ms())
        if suppressed is not None:
            _LOG.warning("transaction refused reason=%s suppressed=%d", shown(reason), suppressed)

    # -- what comes of it ---------------------------------------------------------------------

    def _settle(self, number: int, hosted: HostedShard, outcome: Outcome) -> None:
        """Records first, then answers: nothing is said that could still be lost."""
        if not outcome.changes:
            _deliver(outcome.answers)
            return
        now = self._now()
        topic_partition = hosted.partition.topic_partition
        try:
            appended = hosted.take(outcome, now)
        except _TROUBLE as error:
            self.disk.log_failed(topic_partition, error, now.monotonic_ms)
            code = error.code if isinstance(error, KafkaError) else LogStorageError.code
            instead = hosted.shard.append_failed(outcome, code)
            for transactional_id in instead.to_mark:
                self.retries.later(number, transactional_id, now.monotonic_ms)
            _deliver(instead.answers)
            return
        self.appends.appended(topic_partition, appended.size)
        if appended.tombstone_count:
            self.cleaning.appended(hosted.partition.log, appended.tombstone_count)
        self._advance(number, hosted)

    def _advance(self, number: int, hosted: HostedShard) -> None:
        """What is committed is true: markers are sent, and then the answers. In this order, so that
        a commit that is answered can be read, wherever the markers are written at once."""
        answers: list[Answer] = []
        for outcome in hosted.committed():
            for transactional_id in hosted.shard.committed(outcome).to_mark:
                self._mark(number, hosted, transactional_id)
            answers += outcome.answers
        _deliver(answers)

    # -- markers ------------------------------------------------------------------------------

    def _mark(self, number: int, hosted: HostedShard, transactional_id: str) -> None:
        """Writes the markers that are missing; without any, the transaction is over."""
        markers = hosted.shard.markers(transactional_id)
        if markers is None:
            self.retries.forget(number, transactional_id)
            return
        image = self.image()
        there = [each for each in markers.partitions if image.partition(*each) is not None]
        if len(there) < len(markers.partitions) or not there:
            gone = [each for each in markers.partitions if image.partition(*each) is None]
            self._marked(number, hosted, markers, gone)
        if not there:
            return
        request = markers_request(markers, there, hosted.coordinator_epoch)
        self.markers.write_markers(request, partial(self._answered, number, hosted, markers))

    def _answered(
        self, number: int, hosted: HostedShard, markers: Markers, response: WriteTxnMarkersResponse
    ) -> None:
        if self.shards.get(number) is not hosted:
            # Another coordinator has taken over, and writes them all again.
            return
        found = verdicts(response)
        fenced, again = found[Verdict.FENCED], found[Verdict.RETRY]
        if fenced:
            _LOG.warning(
                "markers refused transactional_id=%r producer_id=%d epoch=%d partitions=%s",
                shown(markers.transactional_id), markers.producer_id, markers.producer_epoch,
                dict(fenced),
            )  # fmt: skip
            self.retries.forget(number, markers.transactional_id)
            return
        if again:
            self.retries.later(number, markers.transactional_id, self.clock.monotonic_ms())
        self._marked(number, hosted, markers, list(found[Verdict.DONE]))

    def _marked(
        self,
        number: int,
        hosted: HostedShard,
        markers: Markers,
        partitions: Sequence[TopicPartition],
    ) -> None:
        outcome = hosted.shard.marked(markers, partitions, self.clock.now_ms())
        if outcome.changes:
            self.retries.forget(number, markers.transactional_id)
            self._settle(number, hosted, outcome)

    # -- time ---------------------------------------------------------------------------------

    def _abort_timed_out(self, now: Now) -> None:
        for hosted in list(self.shards.values()):
            for transactional_id in hosted.shard.timed_out(now.wall_ms):
                _LOG.info("transaction timed out transactional_id=%r", shown(transactional_id))
                self._abort_one(transactional_id)

    def _abort_one(self, transactional_id: str) -> None:
        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> Outcome:
            return shard.abort_timed_out(transactional_id, now_ms, fresh)

        self._ask(
            transactional_id,
            call,
            lambda decided: None,
            wants_id=lambda shard: shard.is_exhausted(transactional_id),
        )

    def _expire(self, now: Now) -> None:
        for number, hosted in list(self.shards.items()):
            most_bytes = hosted.partition.log.config.max_message_bytes // 2
            chunk: list[str] = []
            size = 0
            for transactional_id in hosted.shard.expired(now.wall_ms):
                size += len(transactional_id.encode()) + _TOMBSTONE_OVERHEAD
                if chunk and size > most_bytes:
                    self._settle(number, hosted, hosted.shard.expire(chunk))
                    chunk, size = [], len(transactional_id.encode()) + _TOMBSTONE_OVERHEAD
                chunk.append(transactional_id)
            if chunk:
                self._settle(number, hosted, hosted.shard.expire(chunk))

    def check_invariants(self) -> None:
        for hosted in self.shards.values():
            hosted.shard.check_invariants()
            assert hosted.partition.is_leader, hosted.partition.topic_partition

    def _now(self) -> Now:
        return Now(self.clock.now_ms(), self.clock.monotonic_ms())


def _deliver(answers: Iterable[Answer]) -> None:
    for token, decided in answers:
        assert callable(token)
        token(decided)


def _is_due(deadline_ms: int | None, now: Now) -> bool:
    return deadline_ms is not None and deadline_ms <= now.monotonic_ms
