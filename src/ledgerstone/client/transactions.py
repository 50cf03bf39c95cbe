"""Transactions over a `Client`: performs what the session asks for. Shell.

`ProducerTransactions` is the numbering of a producer (`producer.Producer`, or Spark's): batches get
their epochs and sequences from the session. `TransactionalProducer` is both in one, for callers
that send records.
"""

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Self

from ledgerstone import __version__
from ledgerstone.client.blocking import Client
from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.producer import NewRecord, Placed, Producer, ProducerConfig
from ledgerstone.client.producer_id import ProducerId
from ledgerstone.client.txn_errors import MustAbort
from ledgerstone.client.txn_session import (
    ADD_PARTITIONS_AT_MOST,
    DEFAULT_TIMEOUT_MS,
    GroupMetadata,
    Prepared,
    TxnSession,
    TxnState,
)
from ledgerstone.errors import ConfigError, KafkaError, LedgerstoneError
from ledgerstone.protocol.client_connection import SOFTWARE_NAME
from ledgerstone.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ledgerstone.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.end_txn import EndTxnResponse
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdResponse
from ledgerstone.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from ledgerstone.types import TopicPartition


class ProducerTransactions:
    """Connects with `start` or with the first `begin`, which fences earlier producers of the id."""

    def __init__(
        self, client: Client, transactional_id: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        self._client = client
        self.session = TxnSession(transactional_id, timeout_ms)

    # -- the numbering of a producer -------------------------------------------------------------

    @property
    def transactional_id(self) -> str:
        return self.session.transactional_id

    @property
    def produce_at_most(self) -> int:
        return self.session.protocol.produce

    @property
    def identity(self) -> ProducerId:
        return self.session.identity

    def next_sequence(self, partition: TopicPartition) -> int:
        return self.session.next_sequence(partition)

    def before(self, partitions: Collection[TopicPartition]) -> None:
        request = self.session.before(partitions)
        if request is not None:
            answer = self._client.call(
                request, AddPartitionsToTxnResponse, at_most=ADD_PARTITIONS_AT_MOST
            )
            self.session.added(answer)

    def acknowledged(self, partition: TopicPartition, records: int) -> None:
        self.session.acknowledged(partition, records)

    def failed(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        if not errors:
            self.session.broke()
        for error in errors.values():
            self.session.refused(error.code, str(error))

    # -- a transaction ---------------------------------------------------------------------------

    def start(self) -> None:
        """Takes over the id: earlier producers are fenced, their open transaction is aborted."""
        if self.session.state is TxnState.NEW:
            versions = _versions(self._client)
            request = self.session.init_request()
            self.session.initialized(self._client.call(request, InitProducerIdResponse), versions)

    def begin(self) -> None:
        self.start()
        self.session.begin()

    def send_offsets(
        self, group: str | GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Commits a group's offsets with the transaction."""
        if isinstance(group, str):
            group = GroupMetadata(group)
        try:
            first = self.session.before_offsets(group.group_id)
            if first is not None:
                answer = self._client.call(first, AddOffsetsToTxnResponse)
                self.session.added_offsets(group.group_id, answer)
            taken = self._client.call(
                self.session.offsets_request(group, offsets),
                TxnOffsetCommitResponse,
                at_most=self.session.protocol.txn_offset_commit,
            )
            self.session.offsets_taken(group, taken)
        except LedgerstoneError:
            self.session.broke()
            raise

    def commit(self) -> None:
        """After an error other than a TransactionError, only `commit` can follow: it may have been
        carried out."""
        self._end(commit=True)

    def abort(self) -> None:
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        request = self.session.end_request(commit=commit)
        if request is not None:
            at_most = self.session.protocol.end_txn
            self.session.ended(self._client.call(request, EndTxnResponse, at_most=at_most))

    def prepared(self) -> Prepared:
        """For another process, which will end this transaction with `end_prepared`."""
        return self.session.prepared()


def _versions(client: Client) -> ApiVersionsResponse:
    """With the features of the cluster, which say which protocol to speak."""
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=__version__
    )
    return client.call(request, ApiVersionsResponse)


def end_prepared(client: Client, prepared: Prepared, *, commit: bool) -> None:
    """Ends a transaction that another process has prepared. May be repeated.

    Raises MustClose if that producer no longer owns the transactional id."""
    session = TxnSession.of_prepared(prepared, _versions(client))
    request = session.end_request(commit=commit)
    assert request is not None, f"{prepared} has sent records"
    at_most = session.protocol.end_txn
    session.ended(client.call(request, EndTxnResponse, at_most=at_most))


class TransactionalProducer:
    """Sends records and offsets in transactions: all of one become visible, or none.

    `send` and `send_offsets` raise MustAbort if only `abort` can follow, and every call raises
    MustClose once another producer has taken over the transactional id. One thread at a time.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        config: ProducerConfig | None = None,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        config = config or ProducerConfig()
        if config.acks != ProducerConfig().acks:
            raise ConfigError("acks", config.acks, "transactions need acks=all")
        self._transactions = ProducerTransactions(client, transactional_id, timeout_ms=timeout_ms)
        self._producer = Producer(client, config, numbering=self._transactions)

    @property
    def transactions(self) -> ProducerTransactions:
        return self._transactions

    def begin(self) -> Self:
        """Usable as a context: commits at its end, unless it was ended before; aborts if an
        exception leaves it."""
        self._transactions.begin()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        state = self._transactions.session.state
        if kind is not None and state in (TxnState.OPEN, TxnState.BROKEN):
            self.abort()
        elif kind is None and state not in (TxnState.READY, TxnState.NEW):
            # NEW: it was aborted, and the next one needs another epoch.
            self.commit()

    def send(self, records: Sequence[NewRecord]) -> list[Placed]:
        """Where each record is; all of them are acknowledged."""
        try:
            outcomes = self._producer.send(records)
        except LedgerstoneError:
            self._transactions.session.broke()
            raise
        placed = [each for each in outcomes if isinstance(each, Placed)]
        if len(placed) < len(outcomes):
            raise MustAbort("not every record was acknowledged")
        return placed

    def send_offsets(
        self, group: str | GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        self._transactions.send_offsets(group, offsets)

    def commit(self) -> None:
        self._transactions.commit()

    def abort(self) -> None:
        self._transactions.abort()
