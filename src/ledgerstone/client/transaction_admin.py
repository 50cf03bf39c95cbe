"""Transactions as operators see them: list, describe, find hanging ones, abort. Shell over a
`Client`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import ask_about
from ledgerstone.client.errors import check
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.rounds import PartitionAnswer
from ledgerstone.client.routing import ToBroker
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import InvalidTxnState, TransactionalIdNotFound
from ledgerstone.protocol.messages.describe_producers import (
    DescribeProducersActiveProducer,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
)
from ledgerstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ledgerstone.protocol.messages.metadata import MetadataResponse
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersPartition,
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from ledgerstone.types import NO_OFFSET, TopicPartition

ONGOING: Final = "Ongoing"
# Kafka's own tool takes a transaction that wrote more recently than this for one under way.
HANGING_AFTER_MS: Final = 15 * 60_000
# Of the producer that takes the id over for a moment; the next one sets its own.
_FENCE_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int  # node id


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None  # None: no transaction is open
    partitions: tuple[TopicPartition, ...]


class TxnInPartition(NamedTuple):
    """A transaction as the leader of a partition knows it: by its producer."""

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp_ms: int


def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    client.call(ask_about([]), MetadataResponse)
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    found: dict[str, ListedTransaction] = {}
    for broker_id in sorted(client.session.cluster.brokers):
        # A broker knows only the transactions it coordinates.
        response = client.call(request, ListTransactionsResponse, to=ToBroker(broker_id))
        check(response.error_code, f"transactions of broker {broker_id}")
        for each in response.transaction_states:
            found[each.transactional_id] = ListedTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
                coordinator=broker_id,
            )
    return [found[each] for each in sorted(found)]


def describe_transaction(client: Client, transactional_id: str) -> TransactionDescription:
    """Asks the broker that lists the id. FindCoordinator would bring the coordinators' topic into
    being, and looking changes nothing."""
    for listed in list_transactions(client):
        if listed.transactional_id == transactional_id:
            return _describe(client, listed)
    raise TransactionalIdNotFound(f"transactional id {transactional_id} is unknown")


def _describe(client: Client, listed: ListedTransaction) -> TransactionDescription:
    transactional_id = listed.transactional_id
    response = client.call(
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        to=ToBroker(listed.coordinator),
    )
    for each in response.transaction_states:
        check(each.error_code, f"transactional id {transactional_id}")
        start_ms = each.transaction_start_time_ms
        return TransactionDescription(
            transactional_id=transactional_id,
            state=each.transaction_state,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            timeout_ms=each.transaction_timeout_ms,
            start_ms=None if start_ms < 0 else start_ms,
            partitions=tuple(
                TopicPartition(topic.topic, number)
                for topic in each.topics
                for number in topic.partitions
            ),
        )
    raise TransactionalIdNotFound(f"transactional id {transactional_id} is unknown")


def open_transactions(client: Client, partitions: Iterable[TopicPartition]) -> list[TxnInPartition]:
    """What is open in each partition, by its leader's word."""

    def build(group: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequestTopic(name=topic, partition_indexes=list(numbers))
                for topic, numbers in by_topic(group).items()
            ]
        )

    answers = client.ask_leaders(
        "DescribeProducers",
        dict.fromkeys(partitions),
        build,
        _read_producers,
        DescribeProducersResponse,
    )
    return [
        _open(partition, producer)
        for partition, found in sorted(answers.all_done().items())
        for producer in found.active_producers
        if producer.current_txn_start_offset != NO_OFFSET
    ]


def _read_producers(
    response: DescribeProducersResponse,
) -> Iterator[PartitionAnswer[DescribeProducersPartition]]:
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            yield PartitionAnswer(partition, each.error_code, each)


def _open(partition: TopicPartition, producer: DescribeProducersActiveProducer) -> TxnInPartition:
    return TxnInPartition(
        partition,
        producer.current_txn_start_offset,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.last_timestamp,
    )


def find_hanging(
    client: Client, partitions: Iterable[TopicPartition], *, older_than_ms: int, now_ms: int
) -> list[TxnInPartition]:
    """Open in a partition, silent for longer than `older_than_ms`, and no coordinator will ever end
    it: none knows the producer, or its transaction does not name the partition."""
    old = [
        each
        for each in open_transactions(client, partitions)
        if now_ms - each.last_timestamp_ms > older_than_ms
    ]
    owners = owners_of(client, old)
    return [each for each in old if each not in owners]


def owners_of(client: Client, transactions: Sequence[TxnInPartition]) -> dict[TxnInPartition, str]:
    """The transactional ids whose coordinators will end them; those without one hang."""
    producer_ids = sorted({each.producer_id for each in transactions})
    owned: dict[tuple[int, TopicPartition], str] = {}
    for listed in list_transactions(client, producer_ids=producer_ids) if producer_ids else ():
        try:
            described = _describe(client, listed)
        except TransactionalIdNotFound:
            continue  # expired between the two questions
        for partition in described.partitions:
            owned[described.producer_id, partition] = listed.transactional_id
    found = {each: owned.get((each.producer_id, each.partition)) for each in transactions}
    return {each: owner for each, owner in found.items() if owner is not None}


def abort_hanging(client: Client, transaction: TxnInPartition) -> None:
    """Writes the marker that no coordinator will write. Its epoch is the producer's own, so a
    producer that is still alive can go on."""
    partition = transaction.partition
    # As Kafka's tool has it: a leader that never saw a marker of this producer knows no epoch.
    coordinator_epoch = max(transaction.coordinator_epoch, 0)
    marker = WriteTxnMarkersRequestMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        coordinator_epoch=coordinator_epoch,
        topics=[
            WriteTxnMarkersRequestTopic(
                name=partition.topic, partition_indexes=[partition.partition]
            )
        ],
    )
    client.ask_leaders(
        "WriteTxnMarkers",
        {partition: None},
        lambda _: WriteTxnMarkersRequest(markers=[marker]),
        _read_written,
        WriteTxnMarkersResponse,
    ).all_done()


def _read_written(
    response: WriteTxnMarkersResponse,
) -> Iterator[PartitionAnswer[WriteTxnMarkersPartition]]:
    for marker in response.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                yield PartitionAnswer(partition, each.error_code, each)


def abort_transaction(client: Client, transactional_id: str) -> TransactionDescription:
    """Aborts the open transaction of an id and fences its producer; returns what was open.

    The coordinator has no request of its own for this: taking the id over does both, as Kafka's
    `forceTerminateTransaction` does it."""
    found = describe_transaction(client, transactional_id)
    if found.state != ONGOING:
        raise InvalidTxnState(
            f"transactional id {transactional_id} has no open transaction: it is {found.state}"
        )
    response = client.call(
        InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_FENCE_TIMEOUT_MS
        ),
        InitProducerIdResponse,
    )
    check(response.error_code, f"transactional id {transactional_id}")
    return found
