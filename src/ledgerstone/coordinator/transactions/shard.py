"""All transactional ids of one partition of __transaction_state. Pure. The contract: README.md.

Requests, time and replayed records come in; a `TxnOutcome` of changes, answers and ids whose
markers are due comes out. What the shell does with an outcome, and in which order: `turn`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ledgerstone.coordinator.failures import coordinator_error
from ledgerstone.coordinator.transactions import transitions
from ledgerstone.coordinator.transactions.checks import (
    check_id,
    check_producer,
    check_timeout,
    fresh,
    is_timed_out,
    raises_epoch,
)
from ledgerstone.coordinator.transactions.ending import ends, ends_classic
from ledgerstone.coordinator.transactions.memory import TransactionMemory, partitions_bytes
from ledgerstone.coordinator.transactions.metadata import (
    AT_REST,
    CLASSIC,
    PREPARED,
    Transaction,
    TransactionMetadata,
    TxnState,
)
from ledgerstone.coordinator.transactions.starting import check_may_start, started
from ledgerstone.coordinator.transactions.table import TransactionTable
from ledgerstone.coordinator.transactions.transaction_records import (
    read_record,
    transaction_key,
    transaction_value,
)
from ledgerstone.coordinator.transactions.turn import (
    Decided,
    DecidedAnswer,
    ProducerRef,
    Token,
    TransactionConfig,
    TxnChange,
    TxnOutcome,
    UnwrittenMarkers,
    refused,
)
from ledgerstone.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    KafkaError,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

_DONE: Final = Decided(ErrorCode.NONE)


class TransactionShard:
    """Life cycle: `replay` every record of the partition, `loaded` once, then requests and time;
    `release` when another broker takes over.

    `fresh_producer_id` is an id that no producer has had. It is needed for new transactional ids,
    and for those that are exhausted; without it they get COORDINATOR_LOAD_IN_PROGRESS."""

    def __init__(
        self, config: TransactionConfig, memory: TransactionMemory, server_version: int
    ) -> None:
        # The finalized level of the feature transaction.version.
        self.server_version = server_version
        self.table = TransactionTable(memory)
        # Records of versions that are not ours.
        self.skipped_record_count = 0
        self._config = config

    # -- records ------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Takes in a committed record while loading."""
        entry = read_record(key, value)
        if entry is None:
            self.skipped_record_count += 1
        elif entry.metadata is None:
            self.table.remove(entry.transactional_id)
        else:
            self.table.put(Transaction(entry.transactional_id, entry.metadata))

    def loaded(self) -> TxnOutcome:
        """Every record has been replayed: what was decided is carried out."""
        prepared = [each for each in self.table if each.metadata.state in PREPARED]
        for each in prepared:
            self._begin_end(each)
        return TxnOutcome(to_mark=[each.transactional_id for each in prepared])

    def records(self, outcome: TxnOutcome) -> Iterator[tuple[bytes, bytes | None]]:
        """Keys and values of the outcome's changes."""
        for transactional_id, metadata, _ in outcome.changes:
            value = None
            if metadata is not None:
                value = transaction_value(metadata, self.server_version)
            yield transaction_key(transactional_id), value

    def committed(self, outcome: TxnOutcome) -> TxnOutcome:
        """The outcome's records are committed, and now true."""
        to_mark = []
        for transactional_id, metadata, _ in outcome.changes:
            if metadata is None:
                self.table.remove(transactional_id)
                continue
            transaction = self.table.existing(transactional_id)
            transaction.metadata, transaction.pending = metadata, None
            if metadata.state in PREPARED:
                self._begin_end(transaction)
                to_mark.append(transactional_id)
            self.table.changed(transaction)
        return TxnOutcome(to_mark=to_mark)

    def append_failed(self, outcome: TxnOutcome, error_code: int) -> TxnOutcome:
        """The records of the outcome are not in the log; what to answer, and do, instead."""
        to_mark = []
        for transactional_id, metadata, is_fence in outcome.changes:
            transaction = self.table.existing(transactional_id)
            if transaction.metadata.state in PREPARED:
                # The decision stands: its end is written when the log takes records again.
                transaction.is_completing = False
                to_mark.append(transactional_id)
                continue
            transaction.pending = None
            if is_fence and metadata is not None and not raises_epoch(metadata.client_version):
                transaction.has_failed_epoch_fence = True
            if transaction.metadata.producer_epoch == NO_PRODUCER_EPOCH:
                # Nothing of it is in the log.
                self.table.remove(transactional_id)
            else:
                self.table.changed(transaction)
        code = coordinator_error(error_code)
        return TxnOutcome(answers=refused(outcome.answers, code), to_mark=to_mark)

    def release(self) -> None:
        """Leadership is lost: nothing of the shard is counted any more, nor of any use."""
        self.table.clear()

    # -- requests -----------------------------------------------------------------------------

    def is_new(self, transactional_id: str) -> bool:
        return self.table.find(transactional_id) is None

    def is_exhausted(self, transactional_id: str) -> bool:
        """Whether the id's producer has used all its epochs."""
        transaction = self.table.find(transactional_id)
        return transaction is not None and transaction.metadata.is_exhausted

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        token: Token,
        *,
        now_ms: int,
        fresh_producer_id: int | None = None,
    ) -> TxnOutcome:
        """`expected` is the producer id and epoch that the producer had."""
        try:
            check_id(transactional_id)
            check_timeout(timeout_ms, self._config)
            transaction = self._for_init(transactional_id, timeout_ms, fresh_producer_id, now_ms)
            check_may_start(transaction, expected)
            if transaction.metadata.state is TxnState.ONGOING:
                # The new epoch is never given to the producer: it asks again, and gets the next.
                retry = DecidedAnswer(token, Decided(ErrorCode.CONCURRENT_TRANSACTIONS))
                return self._fence(transaction, fresh_producer_id, [retry], now_ms)
            after = started(transaction.metadata, timeout_ms, expected, fresh_producer_id, now_ms)
        except KafkaError as error:
            return _refusal(token, error)
        decided = Decided(ErrorCode.NONE, after.producer_id, after.producer_epoch)
        return self._change(transaction, after, [DecidedAnswer(token, decided)])

    def add_partitions(
        self,
        producer: ProducerRef,
        partitions: Sequence[TopicPartition],
        client_version: int,
        token: Token,
        *,
        now_ms: int,
    ) -> TxnOutcome:
        try:
            transaction = self._known(producer.transactional_id)
            if transaction.pending is not None:
                # First: after an overflow the producer uses an id that is only pending here.
                raise ConcurrentTransactions(f"{producer.transactional_id!r} is changing")
            metadata = transaction.metadata
            check_producer(metadata, producer)
            added = [each for each in partitions if each not in metadata.partitions]
            if metadata.state is TxnState.ONGOING and not added:
                return TxnOutcome(answers=[DecidedAnswer(token, _DONE)])
            self.table.check_room(transaction, partitions_bytes(added))
        except KafkaError as error:
            return _refusal(token, error)
        after = transitions.with_partitions(metadata, added, client_version, now_ms)
        return self._change(transaction, after, [DecidedAnswer(token, _DONE)])

    def verify_partitions(
        self, producer: ProducerRef, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Whether each partition is in the transaction. A change under way does not matter: the
        partition's leader looks again when it appends."""
        try:
            metadata = self._known(producer.transactional_id).metadata
            check_producer(metadata, producer)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return {
            each: ErrorCode.NONE if each in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }

    def end_transaction(
        self,
        producer: ProducerRef,
        client_version: int,
        token: Token,
        *,
        commit: bool,
        now_ms: int,
        fresh_producer_id: int | None = None,
    ) -> TxnOutcome:
        decide = ends if raises_epoch(client_version) else ends_classic
        try:
            transaction = self._known(producer.transactional_id)
            metadata = transaction.metadata
            if not decide(transaction, producer, commit=commit):
                decided = _ended((metadata.producer_id, metadata.producer_epoch), client_version)
                return TxnOutcome(answers=[DecidedAnswer(token, decided)])
            after = self._prepared(
                metadata, client_version, fresh_producer_id, commit=commit, now_ms=now_ms
            )
        except KafkaError as error:
            return _refusal(token, error)
        decided = _ended(transitions.producer_after(after), client_version)
        return self._change(transaction, after, [DecidedAnswer(token, decided)])

    # -- markers ------------------------------------------------------------------------------

    def markers(self, transactional_id: str) -> UnwrittenMarkers | None:
        """What is still to be written to end the transaction, perhaps only its last record; None:
        nothing, or that record is in flight."""
        transaction = self.table.find(transactional_id)
        if transaction is None or transaction.metadata.state not in PREPARED:
            return None
        if transaction.is_completing:
            return None
        metadata = transaction.metadata
        return UnwrittenMarkers(
            transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.state is TxnState.PREPARE_COMMIT,
            tuple(transaction.unmarked),
            metadata.client_version,
        )

    def marked(
        self, markers: UnwrittenMarkers, partitions: Collection[TopicPartition], now_ms: int
    ) -> TxnOutcome:
        """These partitions need no marker any more. With the last one the transaction is over."""
        current = self.markers(markers.transactional_id)
        if current is None or current[1:4] != markers[1:4]:
            return TxnOutcome()
        transaction = self.table.existing(markers.transactional_id)
        for each in partitions:
            transaction.unmarked.pop(each, None)
        if transaction.unmarked:
            return TxnOutcome()
        after = transitions.completed(transaction.metadata, now_ms)
        transaction.has_failed_epoch_fence = False
        transaction.is_completing = True
        return TxnOutcome(changes=[TxnChange(transaction.transactional_id, after)])

    # -- time ---------------------------------------------------------------------------------

    def timed_out(self, now_ms: int) -> list[str]:
        """Ids whose transaction has been open for longer than its time-out."""
        return [
            each.transactional_id
            for each in self.table.ongoing()
            if each.pending is None and is_timed_out(each.metadata, now_ms)
        ]

    def abort_timed_out(
        self, transactional_id: str, now_ms: int, fresh_producer_id: int | None = None
    ) -> TxnOutcome:
        transaction = self.table.find(transactional_id)
        if transaction is None or not is_timed_out(transaction.metadata, now_ms):
            return TxnOutcome()
        return self.abort_open(transactional_id, now_ms, fresh_producer_id)

    def abort_open(
        self, transactional_id: str, now_ms: int, fresh_producer_id: int | None = None
    ) -> TxnOutcome:
        """Aborts what the id has open, and fences its producer."""
        transaction = self.table.find(transactional_id)
        if (
            transaction is None
            or transaction.pending is not None
            or transaction.metadata.state is not TxnState.ONGOING
        ):
            return TxnOutcome()
        return self._fence(transaction, fresh_producer_id, [], now_ms)

    def expired(self, now_ms: int) -> list[str]:
        """Ids that nothing has been heard of for so long that they are forgotten."""
        limit_ms = now_ms - self._config.transactional_id_expiration_ms
        return [
            each.transactional_id
            for each in self.table
            if each.pending is None
            and each.metadata.state in AT_REST
            and each.metadata.last_update_ms <= limit_ms
        ]

    def expire(self, transactional_ids: Sequence[str]) -> TxnOutcome:
        """Tombstones for ids that `expired` has named in the same turn."""
        for each in transactional_ids:
            self.table.existing(each).pending = TxnState.DEAD
        return TxnOutcome(changes=[TxnChange(each, None) for each in transactional_ids])

    def check_invariants(self) -> None:
        self.table.check_invariants()

    # -- inside -------------------------------------------------------------------------------

    def _known(self, transactional_id: str) -> Transaction:
        check_id(transactional_id)
        transaction = self.table.find(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping(f"{transactional_id!r} is not known")
        return transaction

    def _for_init(
        self, transactional_id: str, timeout_ms: int, fresh_producer_id: int | None, now_ms: int
    ) -> Transaction:
        transaction = self.table.find(transactional_id)
        if transaction is not None:
            return transaction
        metadata = TransactionMetadata(
            producer_id=fresh(fresh_producer_id), timeout_ms=timeout_ms, last_update_ms=now_ms
        )
        return self.table.new(Transaction(transactional_id, metadata))

    def _prepared(
        self,
        metadata: TransactionMetadata,
        client_version: int,
        fresh_producer_id: int | None,
        *,
        commit: bool,
        now_ms: int,
    ) -> TransactionMetadata:
        next_producer_id = NO_PRODUCER_ID
        if raises_epoch(client_version) and metadata.is_exhausted:
            next_producer_id = fresh(fresh_producer_id)
        return transitions.prepared(
            metadata,
            commit=commit,
            client_version=client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )

    def _fence(
        self,
        transaction: Transaction,
        fresh_producer_id: int | None,
        answers: Sequence[DecidedAnswer],
        now_ms: int,
    ) -> TxnOutcome:
        """Aborts an open transaction and shuts out its producer, by an epoch nobody was given.

        By the server's version, since no client asks. Version 2 raises the epoch with the abort;
        the classic one before it, and at once: if the record is refused, the epoch stays raised."""
        version = self.server_version if raises_epoch(self.server_version) else CLASSIC
        if not raises_epoch(version):
            transaction.metadata = transitions.fenced(
                transaction.metadata, has_failed_before=transaction.has_failed_epoch_fence
            )
        after = self._prepared(
            transaction.metadata, version, fresh_producer_id, commit=False, now_ms=now_ms
        )
        return self._change(transaction, after, answers, is_fence=True)

    def _change(
        self,
        transaction: Transaction,
        after: TransactionMetadata,
        answers: Sequence[DecidedAnswer],
        *,
        is_fence: bool = False,
    ) -> TxnOutcome:
        transaction.pending = after.state
        change = TxnChange(transaction.transactional_id, after, is_fence)
        self.table.change_begun(transaction, after)
        return TxnOutcome(changes=[change], answers=answers)

    def _begin_end(self, transaction: Transaction) -> None:
        metadata = transaction.metadata
        is_commit = metadata.state is TxnState.PREPARE_COMMIT
        transaction.pending = TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT
        transaction.unmarked = dict(metadata.partitions)
        transaction.is_completing = False


def _refusal(token: Token, error: KafkaError) -> TxnOutcome:
    return TxnOutcome(answers=[DecidedAnswer(token, Decided(error.code))])


def _ended(producer: tuple[int, int], client_version: int) -> Decided:
    """Version 2 learns from the answer what to use for the next transaction."""
    return Decided(ErrorCode.NONE, *producer) if raises_epoch(client_version) else _DONE
