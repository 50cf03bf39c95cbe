"""EndTxn: every cell of both tables, and what follows from each."""

import pytest

from ledgerstone.coordinator.transactions.ending import ends, ends_classic
from ledgerstone.coordinator.transactions.metadata import (
    Transaction,
    TransactionMetadata,
    TxnState,
)
from ledgerstone.coordinator.transactions.turn import Decided, ProducerRef
from ledgerstone.errors import KafkaError
from ledgerstone.protocol.error_codes import ErrorCode
from tests.unit.coordinator.transactions.desk import (
    CLASSIC,
    EPOCHS,
    FOO_0,
    FOO_1,
    ID,
    T0,
    Desk,
)

# "write": the transaction is ended; "done": it has been; else an error code.
STATES = (
    TxnState.ONGOING,
    TxnState.PREPARE_COMMIT,
    TxnState.PREPARE_ABORT,
    TxnState.COMPLETE_COMMIT,
    TxnState.COMPLETE_ABORT,
    TxnState.EMPTY,
)
CLASSIC_CELLS = {
    True: ("write", 51, 48, "done", 48, 48),
    False: ("write", 48, 51, 48, "done", 48),
}
# By commit, and whether the request names the epoch before the stored one.
EPOCH_CELLS = {
    (True, True): (90, 51, 48, "done", 48, 90),
    (False, True): (90, 48, 51, 48, "done", 90),
    (True, False): ("write", 90, 90, 48, 48, 48),
    (False, False): ("write", 90, 90, "write", "write", "write"),
}


def outcome_of(decide: object, transaction: Transaction, epoch: int, *, commit: bool) -> object:
    assert callable(decide)
    try:
        is_wanted = decide(transaction, ProducerRef(ID, 1, epoch), commit=commit)
    except KafkaError as error:
        return error.code
    return "write" if is_wanted else "done"


def in_state(state: TxnState) -> Transaction:
    return Transaction(ID, TransactionMetadata(producer_id=1, producer_epoch=5, state=state))


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_every_cell_of_the_classic_protocol(state: TxnState, *, commit: bool) -> None:
    expected = CLASSIC_CELLS[commit][STATES.index(state)]

    assert outcome_of(ends_classic, in_state(state), 5, commit=commit) == expected
    assert outcome_of(ends_classic, in_state(state), 4, commit=commit) == 90
    assert outcome_of(ends_classic, in_state(state), 6, commit=commit) == 90


@pytest.mark.parametrize("is_repeated", [True, False])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_every_cell_of_version_2(state: TxnState, *, commit: bool, is_repeated: bool) -> None:
    expected = EPOCH_CELLS[commit, is_repeated][STATES.index(state)]
    epoch = 4 if is_repeated else 5

    assert outcome_of(ends, in_state(state), epoch, commit=commit) == expected
    assert outcome_of(ends, in_state(state), 6, commit=commit) == 90
    assert outcome_of(ends, in_state(state), 3, commit=commit) == 90


@pytest.mark.parametrize("decide", [ends, ends_classic])
@pytest.mark.parametrize("state", STATES)
def test_a_change_under_way_makes_everyone_wait(decide: object, state: TxnState) -> None:
    transaction = in_state(state)
    transaction.pending = TxnState.ONGOING

    assert outcome_of(decide, transaction, 5, commit=True) == 51


def test_the_classic_protocol_looks_at_the_producer_before_a_change_under_way(desk: Desk) -> None:
    transaction = in_state(TxnState.ONGOING)
    transaction.pending = TxnState.ONGOING

    assert outcome_of(ends_classic, transaction, 4, commit=True) == 90


@pytest.mark.parametrize("commit", [True, False])
def test_the_classic_protocol_keeps_its_epoch(desk: Desk, *, commit: bool) -> None:
    desk.init()
    desk.add(FOO_0, FOO_1)

    assert desk.end(commit=commit) == Decided(0)

    (marker,) = desk.markers
    assert marker[1:] == (4000, 0, commit, (FOO_0, FOO_1), CLASSIC)
    assert desk.state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)
    assert desk.producer() == ProducerRef(ID, 4000, 0)
    assert desk.end(commit=commit) == Decided(0)


@pytest.mark.parametrize("commit", [True, False])
def test_version_2_has_an_epoch_for_each_transaction(desk: Desk, *, commit: bool) -> None:
    desk.init()
    first = desk.producer()
    desk.add(FOO_0, version=EPOCHS)

    assert desk.end(commit=commit, version=EPOCHS) == Decided(0, 4000, 1)

    (marker,) = desk.markers
    assert marker[1:] == (4000, 1, commit, (FOO_0,), EPOCHS)
    again = desk.end(commit=commit, producer=first, version=EPOCHS)
    assert again == Decided(0, 4000, 1)
    assert len(desk.markers) == 1


def test_a_late_end_of_the_last_transaction_does_not_touch_the_next(desk: Desk) -> None:
    """KAFKA-17754, which the classic protocol has."""
    desk.init()
    first = desk.producer()
    desk.add(FOO_0, version=EPOCHS)
    desk.end(commit=False, version=EPOCHS)
    desk.add(FOO_0, version=EPOCHS)

    late = desk.end(commit=True, producer=first, version=EPOCHS)

    assert late == Decided(ErrorCode.PRODUCER_FENCED)
    assert desk.state is TxnState.ONGOING


def test_a_late_end_of_the_classic_protocol_ends_the_next_transaction(desk: Desk) -> None:
    """As in Kafka: nothing in the request tells the two apart."""
    desk.init()
    desk.add(FOO_0)
    desk.end(commit=False)
    desk.add(FOO_0)

    assert desk.end(commit=True) == Decided(0)
    assert desk.state is TxnState.COMPLETE_COMMIT


def test_an_abort_of_what_never_arrived_uses_up_the_epoch(desk: Desk) -> None:
    desk.init()
    desk.now_ms += 9

    assert desk.end(commit=False, version=EPOCHS) == Decided(0, 4000, 1)

    assert desk.state is TxnState.COMPLETE_ABORT
    assert desk.of().metadata.start_ms == T0 + 9
    assert [each.partitions for each in desk.markers] == [()]


def test_the_last_epoch_is_followed_by_another_producer_id(desk: Desk) -> None:
    desk.place(TransactionMetadata(producer_id=1, producer_epoch=32_766, timeout_ms=1))
    old = desk.producer()
    desk.add(FOO_0, version=EPOCHS)

    assert desk.end(commit=True, version=EPOCHS) == Decided(0, 4000, 0)

    assert desk.markers[0][1:3] == (1, 32_767)
    metadata = desk.of().metadata
    assert (metadata.producer_id, metadata.producer_epoch) == (4000, 0)
    assert (metadata.previous_producer_id, metadata.next_producer_id) == (1, -1)
    again = desk.end(commit=True, producer=old, version=EPOCHS)
    assert again == Decided(0, 4000, 0)


def test_the_new_producer_id_survives_a_failover_between_prepare_and_complete(desk: Desk) -> None:
    desk.place(TransactionMetadata(producer_id=1, producer_epoch=32_766, timeout_ms=1))
    desk.add(FOO_0, version=EPOCHS)
    desk.writes_markers = False
    assert desk.end(commit=True, version=EPOCHS) == Decided(0, 4000, 0)

    desk.writes_markers = True
    desk.restart()

    assert desk.markers[-1][1:3] == (1, 32_767)
    assert desk.producer() == ProducerRef(ID, 4000, 0)


def test_the_answer_waits_for_the_decision_only(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.writes_markers = False
    desk.holds = True

    desk.start_end(commit=True)
    assert not desk.is_answered
    assert not desk.markers
    desk.release()

    assert desk.take() == Decided(0)
    assert len(desk.markers) == 1
    assert desk.state is TxnState.PREPARE_COMMIT


def test_markers_arrive_one_by_one(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0, FOO_1)
    desk.writes_markers = False
    desk.end(commit=True)
    (markers,) = desk.markers

    desk.settle(desk.shard.marked(markers, [FOO_1], desk.now_ms))

    assert desk.of().pending is TxnState.COMPLETE_COMMIT
    rest = desk.shard.markers(ID)
    assert rest is not None
    assert rest.partitions == (FOO_0,)
    desk.settle(desk.shard.marked(markers, [FOO_0], desk.now_ms))
    assert desk.of().metadata.state == TxnState.COMPLETE_COMMIT
    assert desk.shard.markers(ID) is None


def test_an_answer_about_another_transactions_markers_means_nothing(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0, version=EPOCHS)
    desk.end(commit=True, version=EPOCHS)
    old = desk.markers[0]
    desk.add(FOO_0, version=EPOCHS)
    desk.writes_markers = False
    desk.end(commit=False, version=EPOCHS)

    assert not desk.shard.marked(old, [FOO_0], desk.now_ms).changes
    assert desk.state is TxnState.PREPARE_ABORT


def test_a_repeated_answer_of_a_leader_does_not_end_the_next_transaction(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.writes_markers = False
    desk.end(commit=True)
    (markers,) = desk.markers
    desk.holds = True
    desk.settle(desk.shard.marked(markers, [FOO_0], desk.now_ms))

    assert desk.shard.markers(ID) is None
    assert not desk.shard.marked(markers, [FOO_0], desk.now_ms).changes

    desk.release()
    assert desk.add(FOO_1) == 0
