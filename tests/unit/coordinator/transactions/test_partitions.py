"""AddPartitionsToTxn: adding and verifying."""

import pytest

from ledgerstone.coordinator.transactions.metadata import TransactionMetadata, TxnState
from ledgerstone.coordinator.transactions.turn import ProducerRef
from ledgerstone.protocol.error_codes import ErrorCode
from tests.unit.coordinator.transactions.desk import (
    BAR_0,
    CLASSIC,
    EPOCHS,
    FOO_0,
    FOO_1,
    ID,
    T0,
    Desk,
)


@pytest.mark.parametrize("version", [CLASSIC, EPOCHS])
def test_the_first_partition_begins_the_transaction(desk: Desk, version: int) -> None:
    desk.init()
    desk.now_ms += 5

    assert desk.add(FOO_0, FOO_1, version=version) == 0

    metadata = desk.of().metadata
    assert metadata.state is TxnState.ONGOING
    assert list(metadata.partitions) == [FOO_0, FOO_1]
    assert metadata.start_ms == T0 + 5
    assert metadata.client_version == version


def test_more_partitions_do_not_move_the_start(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.now_ms += 1000

    desk.add(BAR_0)

    assert list(desk.of().metadata.partitions) == [FOO_0, BAR_0]
    assert desk.of().metadata.start_ms == T0
    assert desk.of().metadata.last_update_ms == T0 + 1000


def test_known_partitions_need_no_record(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0, FOO_1)
    written = len(desk.log)

    assert desk.add(FOO_1) == 0

    assert len(desk.log) == written


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (ProducerRef("unknown", 4000, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ProducerRef(ID, 4001, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ProducerRef(ID, 4000, 1), ErrorCode.PRODUCER_FENCED),
        (ProducerRef("", 4000, 0), ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_producers_are_refused(desk: Desk, producer: ProducerRef, code: int) -> None:
    desk.init()

    assert desk.add(FOO_0, producer=producer) == code
    assert desk.shard.verify_partitions(producer, [FOO_0]) == {FOO_0: code}


def test_while_a_transaction_ends_nothing_is_added(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.writes_markers = False
    desk.end(commit=True)

    assert desk.add(FOO_0) == ErrorCode.CONCURRENT_TRANSACTIONS
    verified = desk.shard.verify_partitions(desk.producer(), [FOO_0])
    assert verified == {FOO_0: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_a_pending_change_comes_before_all_other_checks(desk: Desk) -> None:
    """After an overflow the producer uses an id that is only pending here."""
    desk.place(TransactionMetadata(producer_id=1, producer_epoch=32_766, timeout_ms=1))
    desk.add(FOO_0, version=EPOCHS)
    desk.writes_markers = False

    next_one = desk.end(commit=True, version=EPOCHS)

    assert next_one[1:] == (4000, 0)
    producer = ProducerRef(ID, 4000, 0)
    assert desk.add(FOO_0, producer=producer, version=EPOCHS) == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.settle(desk.shard.marked(desk.markers[0], [FOO_0], desk.now_ms))
    assert desk.add(FOO_0, producer=producer, version=EPOCHS) == 0


def test_verifying_looks_at_each_partition(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)

    verified = desk.shard.verify_partitions(desk.producer(), [FOO_0, FOO_1])

    assert verified == {FOO_0: 0, FOO_1: ErrorCode.TRANSACTION_ABORTABLE}


def test_verifying_does_not_mind_a_change_under_way(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.holds = True
    desk.start_add(BAR_0)

    verified = desk.shard.verify_partitions(desk.producer(), [FOO_0, BAR_0])

    assert verified == {FOO_0: 0, BAR_0: ErrorCode.TRANSACTION_ABORTABLE}
