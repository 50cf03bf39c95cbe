"""InitProducerId with a transactional id: who gets which producer id and epoch."""

import pytest

from ledgerstone.coordinator.transactions.metadata import TransactionMetadata, TxnState
from ledgerstone.coordinator.transactions.turn import Decided, ProducerRef
from ledgerstone.protocol.error_codes import ErrorCode
from tests.unit.coordinator.transactions.desk import (
    CLASSIC,
    EPOCHS,
    FOO_0,
    ID,
    T0,
    Desk,
)


def test_each_start_of_a_producer_has_the_next_epoch(desk: Desk) -> None:
    assert [desk.init(), desk.init(), desk.init()] == [
        Decided(0, 4000, 0),
        Decided(0, 4000, 1),
        Decided(0, 4000, 2),
    ]


def test_nothing_is_answered_before_its_record_is_committed(desk: Desk) -> None:
    desk.holds = True

    desk.start_init()

    assert not desk.is_answered
    assert len(desk.log) == 1
    desk.release()
    assert desk.take() == Decided(0, 4000, 0)


def test_one_change_at_a_time(desk: Desk) -> None:
    desk.holds = True
    desk.start_init()

    second = desk.init()

    assert second == Decided(ErrorCode.CONCURRENT_TRANSACTIONS)
    desk.release()
    assert desk.take().error_code == 0


def test_an_empty_id_is_refused(desk: Desk) -> None:
    assert desk.init("").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(desk: Desk, timeout_ms: int) -> None:
    assert desk.init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not desk.ids


def test_a_producer_that_names_its_epoch_gets_the_next_and_may_ask_again(desk: Desk) -> None:
    desk.init()

    first = desk.init(expected=(4000, 0))
    again = desk.init(expected=(4000, 0))

    assert first == again == Decided(0, 4000, 1)
    assert desk.init(expected=(4000, 1)) == Decided(0, 4000, 2)


def test_a_producer_with_an_older_epoch_is_fenced(desk: Desk) -> None:
    desk.init()
    desk.init()

    # The second start came without an epoch: it forgot which one was before it.
    assert desk.init(expected=(4000, 0)).error_code == ErrorCode.PRODUCER_FENCED


def test_an_unknown_id_takes_any_expectation(desk: Desk) -> None:
    assert desk.init(expected=(17, 5)) == Decided(0, 4000, 0)


def test_another_producer_id_is_fenced(desk: Desk) -> None:
    desk.init()

    assert desk.init(expected=(17, 0)).error_code == ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_bring_a_new_producer_id(desk: Desk) -> None:
    desk.place(
        TransactionMetadata(
            producer_id=1,
            producer_epoch=32_766,
            state=TxnState.COMPLETE_COMMIT,
            start_ms=T0,
        )
    )

    first = desk.init(expected=(1, 32_766))
    again = desk.init(expected=(1, 32_766))

    assert first == Decided(0, 4000, 0)
    assert again == first


def test_a_repeated_request_at_the_last_epoch_gets_it_again(desk: Desk) -> None:
    """Kafka answers UNKNOWN_SERVER_ERROR."""
    desk.place(TransactionMetadata(producer_id=1, producer_epoch=32_765))
    desk.init(expected=(1, 32_765))

    assert desk.init(expected=(1, 32_765)) == Decided(0, 1, 32_766)


@pytest.mark.parametrize("server_version", [CLASSIC, EPOCHS])
def test_an_open_transaction_is_aborted_and_its_producer_shut_out(
    desk: Desk, server_version: int
) -> None:
    desk.shard.server_version = server_version
    desk.init()
    old = desk.producer()
    desk.add(FOO_0)

    fenced = desk.init()

    assert fenced == Decided(ErrorCode.CONCURRENT_TRANSACTIONS)
    (marker,) = desk.markers
    assert (marker.producer_epoch, marker.commit, marker.partitions) == (1, False, (FOO_0,))
    assert marker.transaction_version == server_version
    assert desk.state is TxnState.COMPLETE_ABORT
    assert desk.end(commit=True, producer=old).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.add(FOO_0, producer=old) == ErrorCode.PRODUCER_FENCED
    assert desk.init() == Decided(0, 4000, 2)


def test_a_fence_of_the_last_epoch_changes_the_producer_id(desk: Desk) -> None:
    desk.place(TransactionMetadata(producer_id=1, producer_epoch=32_766, timeout_ms=1))
    desk.add(FOO_0)

    desk.init()

    assert desk.markers[0][1:3] == (1, 32_767)
    assert desk.producer() == ProducerRef(ID, 4000, 0)
    assert desk.init() == Decided(0, 4000, 1)


def test_while_markers_are_written_every_producer_waits(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.writes_markers = False
    desk.end(commit=True)

    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.init(expected=(4000, 0)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    (marker,) = desk.markers
    desk.settle(desk.shard.marked(marker, [FOO_0], desk.now_ms))
    assert desk.init() == Decided(0, 4000, 1)


def test_a_restart_forgets_only_which_epoch_was_the_last(desk: Desk) -> None:
    desk.init()
    desk.init(expected=(4000, 0))
    desk.restart()

    assert desk.init(expected=(4000, 0)).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.init(expected=(4000, 1)) == Decided(0, 4000, 2)
