"""A transaction shard with its shell: time, a log to replay from, and what was decided."""

from dataclasses import dataclass, field

from ledgerstone.coordinator.transactions.memory import TransactionMemory
from ledgerstone.coordinator.transactions.metadata import (
    Transaction,
    TransactionMetadata,
    TxnState,
)
from ledgerstone.coordinator.transactions.shard import TransactionShard
from ledgerstone.coordinator.transactions.turn import (
    Decided,
    ProducerRef,
    TransactionConfig,
    TxnOutcome,
    UnwrittenMarkers,
)
from ledgerstone.types import TopicPartition

T0 = 1_700_000_000_000
ID = "transfers"
TIMEOUT_MS = 60_000
CLASSIC, EPOCHS = 0, 2
FOO_0, FOO_1, BAR_0 = (
    TopicPartition("foo", 0),
    TopicPartition("foo", 1),
    TopicPartition("bar", 0),
)


@dataclass(slots=True)
class Desk:
    """`holds` keeps outcomes back, as replicas that have not fetched do; `refuses` is the error of
    a log that takes no records; `writes_markers` writes them at once."""

    config: TransactionConfig = field(default_factory=TransactionConfig)
    server_version: int = EPOCHS
    now_ms: int = T0
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    holds: bool = False
    refuses: int | None = None
    writes_markers: bool = True
    held: list[TxnOutcome] = field(default_factory=list)
    markers: list[UnwrittenMarkers] = field(default_factory=list)
    next_producer_id: int = 4000
    shard: TransactionShard = field(init=False)
    _answers: list[Decided] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.held.clear()
        memory = TransactionMemory(self.config)
        self.shard = TransactionShard(self.config, memory, self.server_version)
        for key, value in self.log:
            self.shard.replay(key, value)
        self.settle(self.shard.loaded())

    def settle(self, outcome: TxnOutcome) -> None:
        if outcome.changes and self.refuses is not None:
            instead = self.shard.append_failed(outcome, self.refuses)
            self._answers += [each.decided for each in instead.answers]
            return
        if outcome.changes:
            self.log += self.shard.records(outcome)
            if self.holds:
                self.held.append(outcome)
                return
        self.commit(outcome)

    def commit(self, outcome: TxnOutcome) -> None:
        to_mark = [*outcome.to_mark, *self.shard.committed(outcome).to_mark]
        self._answers += [each.decided for each in outcome.answers]
        for each in to_mark:
            self.mark(each)
        self.shard.check_invariants()

    def release(self) -> None:
        """What was held back is committed."""
        self.holds = False
        held, self.held = self.held, []
        for each in held:
            self.commit(each)

    def mark(self, transactional_id: str) -> None:
        markers = self.shard.markers(transactional_id)
        assert markers is not None
        self.markers.append(markers)
        if self.writes_markers:
            self.settle(self.shard.marked(markers, markers.partitions, self.now_ms))

    def take(self) -> Decided:
        (answer,), self._answers = self._answers, []
        return answer

    @property
    def is_answered(self) -> bool:
        return bool(self._answers)

    # -- requests -----------------------------------------------------------------------------

    def fresh(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def start_init(
        self,
        transactional_id: str = ID,
        expected: tuple[int, int] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        shard = self.shard
        wants = shard.is_new(transactional_id) or shard.is_exhausted(transactional_id)
        self.settle(
            shard.init_producer_id(
                transactional_id,
                timeout_ms,
                expected,
                None,
                now_ms=self.now_ms,
                fresh_producer_id=self.fresh() if wants else None,
            )
        )

    def init(
        self,
        transactional_id: str = ID,
        expected: tuple[int, int] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Decided:
        self.start_init(transactional_id, expected, timeout_ms)
        return self.take()

    def producer(self, transactional_id: str = ID) -> ProducerRef:
        """The one that the id belongs to now."""
        metadata = self.of(transactional_id).metadata
        return ProducerRef(transactional_id, metadata.producer_id, metadata.producer_epoch)

    def start_add(
        self,
        *partitions: TopicPartition,
        producer: ProducerRef | None = None,
        version: int = CLASSIC,
    ) -> None:
        self.settle(
            self.shard.add_partitions(
                producer or self.producer(), partitions, version, None, now_ms=self.now_ms
            )
        )

    def add(
        self,
        *partitions: TopicPartition,
        producer: ProducerRef | None = None,
        version: int = CLASSIC,
    ) -> int:
        self.start_add(*partitions, producer=producer, version=version)
        return self.take().error_code

    def start_end(
        self, *, commit: bool, producer: ProducerRef | None = None, version: int = CLASSIC
    ) -> None:
        who = producer or self.producer()
        is_exhausted = self.shard.is_exhausted(who.transactional_id)
        self.settle(
            self.shard.end_transaction(
                who,
                version,
                None,
                commit=commit,
                now_ms=self.now_ms,
                fresh_producer_id=self.fresh() if is_exhausted else None,
            )
        )

    def end(
        self, *, commit: bool, producer: ProducerRef | None = None, version: int = CLASSIC
    ) -> Decided:
        self.start_end(commit=commit, producer=producer, version=version)
        return self.take()

    def abort_timed_out(self) -> list[str]:
        found = self.shard.timed_out(self.now_ms)
        for each in found:
            is_exhausted = self.shard.is_exhausted(each)
            fresh = self.fresh() if is_exhausted else None
            self.settle(self.shard.abort_timed_out(each, self.now_ms, fresh))
        return found

    # -- looking ------------------------------------------------------------------------------

    def of(self, transactional_id: str = ID) -> Transaction:
        return self.shard.table.existing(transactional_id)

    @property
    def state(self) -> TxnState:
        return self.of().metadata.state

    def place(self, metadata: TransactionMetadata) -> None:
        """Puts an id into a state as if its record had just been replayed."""
        self.shard.table.put(Transaction(ID, metadata))

    @property
    def ids(self) -> list[str]:
        return [each.transactional_id for each in self.shard.table]
