"""The transaction coordinators of this broker: one shard per partition of __transaction_state.

Grade D. The shards decide; `hosted_shard` appends what they decide; this module finds the shard,
gives the answers, and sends markers. With one replica all of that happens before another request
is served, markers included: so an answered commit is a visible one, though nobody may rely on it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.coordinator.transactions.checks import check_id, check_timeout, raises_epoch
from ledgerstone.coordinator.transactions.memory import TransactionMemory
from ledgerstone.coordinator.transactions.shard import TransactionShard
from ledgerstone.coordinator.transactions.turn import (
    Decided,
    ProducerRef,
    TransactionConfig,
    TxnOutcome,
)
from ledgerstone.coordinator.turn import Now
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.features import TRANSACTION_VERSION_FEATURE
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import TRANSACTION_STATE
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.replication.sliced_replay import SlicedReplays
from ledgerstone.server.effects import Effect
from ledgerstone.server.groups.needs import DiskTrouble, HostedLogs
from ledgerstone.server.results import Result
from ledgerstone.server.throttle import LogThrottle, shown
from ledgerstone.server.transactions.adding import add_partitions
from ledgerstone.server.transactions.hosted_shard import HostedTransactions
from ledgerstone.server.transactions.needs import DrawsProducerIds
from ledgerstone.server.transactions.settling import TROUBLE, Settling, deliver
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.server.transactions.topic import TransactionTopic
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)

# A tombstone is its key and some bytes around it.
_TOMBSTONE_OVERHEAD: Final = 32

OnDecided = Callable[[Decided], None]
# Asks a shard, at a time, with a fresh producer id where it may want one.
Call = Callable[[TransactionShard, int, int | None], TxnOutcome]
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
    settling: Settling
    disk: DiskTrouble
    shards: TransactionShards = field(init=False)
    memory: TransactionMemory = field(init=False)
    _loading: SlicedReplays[HostedTransactions] = field(init=False)
    _settings: TransactionConfig = field(init=False)
    _throttle: LogThrottle = field(default_factory=LogThrottle)
    timed_out_count: int = 0
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
        self._loading = SlicedReplays(self.clock)
        self.shards = self.settling.shards

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if not self.shards.by_number:
            return None
        if len(self._loading):
            return 0
        retry_ms = self.settling.retries.next_deadline_ms
        times = [self._abort_check_ms, self._expiry_check_ms, retry_ms]
        times += [each.next_deadline_ms for each in self.settling.waiting.values()]
        return min((each for each in times if each is not None), default=None)

    def tick(self) -> list[Effect]:
        if not self.shards.by_number:
            return []
        self.go_on_loading()
        now = Now(self.clock.now_ms(), self.clock.monotonic_ms())
        for hosted in list(self.settling.waiting.values()):
            deliver(hosted.overdue(now))
        self.settling.follow_up()
        self.settling.mark_due()
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
        self.settling.follow_up()
        return []

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """A deleted partition needs no marker any more, and one that moved has another leader."""
        self.topic.changed()
        if delta.features_changed:
            for hosted in self.shards.by_number.values():
                hosted.shard.server_version = self.server_version
        has_news = delta.topics_deleted or delta.partitions_changed
        if has_news and len(self.settling.retries):
            self.settling.retries.hurry(self.clock.monotonic_ms())
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
        hosted = self.shards.by_number[number] = HostedTransactions(shard, partition)
        self._loading.add(number, hosted)
        if self._abort_check_ms is None:
            now_ms, config = self.clock.monotonic_ms(), self.config
            self._abort_check_ms = (
                now_ms + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            )
            self._expiry_check_ms = (
                now_ms + config.transaction_remove_expired_transaction_cleanup_interval_ms
            )

    def go_on_loading(self) -> bool:
        """One slice of what is to be replayed; True if there is more."""
        for number, hosted, is_damaged in self._loading.work_off():
            if is_damaged:
                hosted.shard.release()
                del self.shards.by_number[number]
            else:
                self.high_watermark_moved(number)
        return len(self._loading) > 0

    def high_watermark_moved(self, number: int) -> None:
        """More of the partition is committed: changes that waited for it are true, and a shard
        that has replayed it serves."""
        hosted = self.shards.by_number.get(number)
        if hosted is None:
            return
        if hosted.is_loaded:
            self.settling.advance(number, hosted)
        elif hosted.can_serve:
            hosted.is_loaded = True
            self.settling.mark_loaded(number, hosted.shard.loaded().to_mark)

    def _resign(self, number: int) -> None:
        hosted = self.shards.by_number.pop(number, None)
        self._loading.forget(number)
        self.settling.forget_shard(number)
        if hosted is not None:
            deliver(hosted.resign())

    # -- requests -----------------------------------------------------------------------------

    def coordinator_of(self, transactional_id: str) -> int:
        number_of_broker = self.topic.coordinator_of(transactional_id)
        if number_of_broker == self.config.node_id:
            number = self.topic.number_for(transactional_id)
            if number not in self.shards.by_number:
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

        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> TxnOutcome:
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

        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> TxnOutcome:
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
            hosted = self.shards.loaded(number)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        self.settling.follow_up()
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
        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> TxnOutcome:
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
            hosted = self.shards.loaded(number)
        except KafkaError as error:
            on_decided(Decided(error.code))
            return
        self.settling.follow_up()
        if fresh_producer_id is None and wants_id(hosted.shard):
            self._draw_for(transactional_id, call, on_decided)
            return
        outcome = call(hosted.shard, self.clock.now_ms(), fresh_producer_id)
        if self.memory.refusal is not None:
            self._tell_refusal()
        self.settling.settle(number, hosted, outcome)

    def _draw_for(self, transactional_id: str, call: Call, on_decided: OnDecided) -> None:
        def drawn(producer_id: int | None) -> None:
            if producer_id is None:
                # As Kafka says while it has no block: clients repeat the request.
                on_decided(Decided(CoordinatorLoadInProgress.code))
                return
            self._ask(transactional_id, call, on_decided, fresh_producer_id=producer_id)

        try:
            self.producer_ids.draw(drawn)
        except TROUBLE as error:
            self.disk.log_failed(None, error, self.clock.monotonic_ms())
            on_decided(Decided(CoordinatorLoadInProgress.code))

    def _tell_refusal(self) -> None:
        reason, self.memory.refusal = self.memory.refusal, None
        limit = (reason or "").partition("=")[0]
        suppressed = self._throttle.admit(limit, self.clock.monotonic_ms())
        if suppressed is not None:
            _LOG.warning("transaction refused reason=%s suppressed=%d", shown(reason), suppressed)

    # -- time ---------------------------------------------------------------------------------

    def look_now(self) -> None:
        """The wall clock was set: open transactions may have timed out, ids expired."""
        if self.shards.by_number:
            self._abort_check_ms = self._expiry_check_ms = self.clock.monotonic_ms()

    def abort(self, transactional_id: str) -> None:
        """An operator ends what the id has open; its producer is fenced."""
        _LOG.warning("transaction aborted by request transactional_id=%r", shown(transactional_id))

        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> TxnOutcome:
            return shard.abort_open(transactional_id, now_ms, fresh)

        self._abort(transactional_id, call)

    def _abort_timed_out(self, now: Now) -> None:
        for _, hosted in self.shards.all_loaded():
            for transactional_id in hosted.shard.timed_out(now.wall_ms):
                _LOG.info("transaction timed out transactional_id=%r", shown(transactional_id))
                self.timed_out_count += 1
                self._abort_one(transactional_id)

    def _abort_one(self, transactional_id: str) -> None:
        def call(shard: TransactionShard, now_ms: int, fresh: int | None) -> TxnOutcome:
            return shard.abort_timed_out(transactional_id, now_ms, fresh)

        self._abort(transactional_id, call)

    def _abort(self, transactional_id: str, call: Call) -> None:
        self._ask(
            transactional_id,
            call,
            lambda decided: None,
            wants_id=lambda shard: shard.is_exhausted(transactional_id),
        )

    def _expire(self, now: Now) -> None:
        for number, hosted in self.shards.all_loaded():
            most_bytes = hosted.partition.log.config.max_message_bytes // 2
            chunk: list[str] = []
            size = 0
            for transactional_id in hosted.shard.expired(now.wall_ms):
                size += len(transactional_id.encode()) + _TOMBSTONE_OVERHEAD
                if chunk and size > most_bytes:
                    self.settling.settle(number, hosted, hosted.shard.expire(chunk))
                    chunk, size = [], len(transactional_id.encode()) + _TOMBSTONE_OVERHEAD
                chunk.append(transactional_id)
            if chunk:
                self.settling.settle(number, hosted, hosted.shard.expire(chunk))

    def check_invariants(self) -> None:
        self.shards.check_invariants()


def _is_due(deadline_ms: int | None, now: Now) -> bool:
    return deadline_ms is not None and deadline_ms <= now.monotonic_ms
