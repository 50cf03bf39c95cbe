"""Open transactions on the page: shown with their producer, ended with the token."""

import pytest

from ledgerstone.records.builder import build_batch
from ledgerstone.server.http.server import BadRequest
from ledgerstone.types import TopicPartition
from tests.unit.server.erasing_kit import ErasingMachine
from tests.unit.server.transactions_kit import ID, TxnProducer, find_coordinator
from tests.web.kit import COMPACTED, Parsed, Visitor

P0 = TopicPartition(COMPACTED, 0)


@pytest.fixture
def producer(machine: ErasingMachine) -> TxnProducer:
    """With an open transaction that has a record in P0."""
    client = machine.connect()
    assert find_coordinator(client) == 0
    producer = TxnProducer(client)
    assert producer.init() == 0
    assert producer.add(P0) == 0
    batch = build_batch(
        [(machine.clock.now_ms(), b"alice", b"1", ())],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    machine.broker.partitions.get(P0).append(batch, acks=-1)
    return producer


def test_open_transaction_is_shown_where_people_look(
    visitor: Visitor, producer: TxnProducer
) -> None:
    listed = Parsed(str(visitor.get("/transactions").body)).text
    anatomy = Parsed(str(visitor.get(f"/topics/{COMPACTED}/anatomy").body)).text

    assert ID in listed
    assert f"{COMPACTED}-0" in listed
    assert f"{ID} (producer {producer.producer_id})" in anatomy


def test_operator_ends_it(visitor: Visitor, producer: TxnProducer) -> None:
    page = visitor.post("/transactions/abort", {"transactional_id": ID})

    assert page.status == 303
    assert "No transaction is open" in visitor.get("/transactions").body
    assert producer.described().transaction_state == "CompleteAbort"
    again = visitor.post("/transactions/abort", {"transactional_id": ID})
    assert again.status == 409


def test_stranger_ends_nothing(stranger: Visitor, producer: TxnProducer) -> None:
    with pytest.raises(BadRequest, match="changes need a token"):
        stranger.post("/transactions/abort", {"transactional_id": ID})

    assert producer.described().transaction_state == "Ongoing"
