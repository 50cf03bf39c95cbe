"""Transactions of a producer over a client: how they end when something goes wrong halfway."""

from collections.abc import Iterator

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.client.transactions import TransactionalProducer
from ledgerstone.client.txn_errors import MustAbort
from ledgerstone.client.txn_session import TxnState
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ledgerstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdRequest
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from tests.unit.client.fake_cluster import FakeCluster

RECORD = NewRecord("t", b"k", b"v")


@pytest.fixture
def cluster() -> FakeCluster:
    """Its transactions are of version 1: an epoch lasts until somebody asks for another."""
    made = FakeCluster()
    made.topic("t", [1])
    partition = AddPartitionsToTxnPartitionResult(partition_index=0)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[partition])
    for _ in range(2):
        made.once(
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]),
        )
        made.once(EndTxnRequest, EndTxnResponse())
    return made


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with cluster.client() as made:
        yield made


def test_transaction_that_was_interrupted_at_a_leader_is_followed_by_a_new_epoch(
    cluster: FakeCluster, client: Client
) -> None:
    def interrupted(_: ApiMessage) -> ApiMessage:
        raise KeyboardInterrupt

    producer = TransactionalProducer(client, "tx")
    cluster.once(ProduceRequest, interrupted)
    with pytest.raises(KeyboardInterrupt), producer.begin():
        producer.send([RECORD])
    with producer.begin():
        producer.send([RECORD])

    # The leader may have the first batch: the second must not come under its number and epoch.
    assert len(cluster.asked(InitProducerIdRequest)) == 2


def test_transaction_that_was_aborted_before_the_end_of_its_block_needs_no_other_end(
    cluster: FakeCluster, client: Client
) -> None:
    answer = ProducePartitionResponse(index=0, error_code=ErrorCode.MESSAGE_TOO_LARGE)
    topic = ProduceTopicResponse("t", partition_responses=[answer])
    cluster.once(ProduceRequest, ProduceResponse(responses=[topic]))
    producer = TransactionalProducer(client, "tx")

    with producer.begin():
        with pytest.raises(MustAbort):
            producer.send([RECORD])
        producer.abort()

    assert producer.transactions.session.state is TxnState.NEW
    assert len(cluster.asked(EndTxnRequest)) == 1
