"""Transactions that time out, ids that expire, and logs that take no records."""

import pytest

from ledgerstone.coordinator.transactions.metadata import TransactionMetadata, TxnState
from ledgerstone.coordinator.transactions.turn import Decided, ProducerRef
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.types import INT32_MAX
from tests.unit.coordinator.transactions.desk import (
    CLASSIC,
    EPOCHS,
    FOO_0,
    FOO_1,
    ID,
    TIMEOUT_MS,
    Desk,
)

DAY_MS = 86_400_000


def test_a_transaction_times_out_after_its_own_time(desk: Desk) -> None:
    desk.init()
    desk.now_ms += 10 * TIMEOUT_MS
    assert not desk.abort_timed_out()
    desk.add(FOO_0, version=EPOCHS)
    old = desk.producer()
    desk.now_ms += TIMEOUT_MS
    desk.add(FOO_1, version=EPOCHS)
    assert not desk.abort_timed_out()
    desk.now_ms += 1

    assert desk.abort_timed_out() == [ID]

    assert desk.state is TxnState.COMPLETE_ABORT
    assert desk.markers[0][1:4] == (4000, 1, False)
    assert desk.end(commit=True, producer=old, version=EPOCHS).error_code == 48
    assert desk.add(FOO_0, producer=old) == ErrorCode.PRODUCER_FENCED


def test_a_late_abort_of_a_timed_out_transaction_is_not_applied_twice(desk: Desk) -> None:
    desk.place(TransactionMetadata(producer_id=1, producer_epoch=32_766, timeout_ms=TIMEOUT_MS))
    desk.add(FOO_0, version=EPOCHS)
    desk.now_ms += TIMEOUT_MS + 1
    desk.abort_timed_out()
    assert desk.producer() == ProducerRef(ID, 4000, 0)

    late = desk.end(commit=False, producer=ProducerRef(ID, 1, 32_766), version=EPOCHS)

    assert late == Decided(0, 4000, 0)
    assert len(desk.markers) == 1


def test_a_change_under_way_is_not_timed_out(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.now_ms += TIMEOUT_MS + 1
    desk.holds = True
    desk.start_end(commit=True)

    assert not desk.abort_timed_out()
    desk.release()
    assert desk.state is TxnState.COMPLETE_COMMIT


def test_two_phase_commits_never_time_out(desk: Desk) -> None:
    desk.place(TransactionMetadata(producer_id=1, producer_epoch=0, timeout_ms=INT32_MAX))
    desk.add(FOO_0)
    desk.now_ms += 400 * DAY_MS

    assert not desk.abort_timed_out()


def test_a_timeout_counts_on_after_a_restart(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.now_ms += TIMEOUT_MS + 1
    desk.restart()

    assert desk.abort_timed_out() == [ID]


def test_ids_at_rest_expire(desk: Desk) -> None:
    desk.init("empty")
    desk.init("open", timeout_ms=900_000)
    desk.settle(
        desk.shard.add_partitions(desk.producer("open"), [FOO_0], 0, None, now_ms=desk.now_ms)
    )
    desk.take()
    desk.now_ms += 7 * DAY_MS - 1
    assert not desk.shard.expired(desk.now_ms)
    desk.now_ms += 1

    expired = desk.shard.expired(desk.now_ms)
    desk.settle(desk.shard.expire(expired))

    assert expired == ["empty"]
    assert desk.ids == ["open"]
    assert desk.log[-1][1] is None
    desk.restart()
    assert desk.ids == ["open"]


def test_an_id_whose_tombstone_is_refused_stays(desk: Desk) -> None:
    desk.init()
    desk.now_ms += 8 * DAY_MS
    desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.settle(desk.shard.expire(desk.shard.expired(desk.now_ms)))
    desk.refuses = None

    assert desk.init() == Decided(0, 4000, 1)


def test_an_expiring_id_makes_its_producer_wait(desk: Desk) -> None:
    desk.init()
    desk.now_ms += 8 * DAY_MS
    desk.holds = True
    desk.settle(desk.shard.expire(desk.shard.expired(desk.now_ms)))

    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    desk.release()
    assert desk.init() == Decided(0, 4001, 0)


# -- a log that refuses ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("append_error", "code"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_the_log_refuses_is_undone(desk: Desk, append_error: int, code: int) -> None:
    desk.init()
    before = desk.of().metadata
    desk.refuses = append_error

    assert desk.add(FOO_0) == code
    assert desk.init() == Decided(code)

    assert desk.of().metadata == before
    assert desk.of().pending is None
    desk.refuses = None
    assert desk.add(FOO_0) == 0


def test_a_new_id_whose_record_is_refused_is_forgotten(desk: Desk) -> None:
    desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS

    assert desk.init().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not desk.ids


def test_a_fence_that_fails_again_and_again_raises_the_epoch_once(desk: Desk) -> None:
    desk.shard.server_version = CLASSIC
    desk.init()
    old = desk.producer()
    desk.add(FOO_0)
    desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.init().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.init().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.refuses = None

    assert desk.end(commit=True, producer=old).error_code == ErrorCode.PRODUCER_FENCED
    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.init() == Decided(0, 4000, 2)


def test_the_end_of_a_decided_transaction_is_never_given_up(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0)
    desk.writes_markers = False
    desk.end(commit=True)
    (markers,) = desk.markers
    done = desk.shard.marked(markers, [FOO_0], desk.now_ms)

    failed = desk.shard.append_failed(done, ErrorCode.NOT_ENOUGH_REPLICAS)

    assert failed.to_mark == [ID]
    rest = desk.shard.markers(ID)
    assert rest is not None
    assert rest.partitions == ()
    desk.settle(desk.shard.marked(rest, [], desk.now_ms))
    assert desk.state is TxnState.COMPLETE_COMMIT


def test_what_was_prepared_is_marked_again_by_the_next_coordinator(desk: Desk) -> None:
    desk.init()
    desk.add(FOO_0, FOO_1, version=EPOCHS)
    desk.writes_markers = False
    desk.end(commit=True, version=EPOCHS)
    desk.settle(desk.shard.marked(desk.markers[0], [FOO_0], desk.now_ms))

    desk.restart()

    assert desk.markers[1] == desk.markers[0]
    assert desk.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
