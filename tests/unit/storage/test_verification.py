"""Guards of transactions whose coordinator is being asked. What a broker makes of them is in
tests/unit/server/test_txn_produce.py."""

import pytest

from ledgerstone.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence
from ledgerstone.records.batch import read_header
from ledgerstone.records.validation import Origin
from ledgerstone.storage.producer_state import ProducerStateTable
from ledgerstone.storage.verification import (
    MAX_VERIFICATIONS,
    TxnTerms,
    VerificationGuard,
    Verifications,
)
from tests.kit.logs import batch

PID = 7


def started(
    verifications: Verifications, sequence: int = 0, *, producer_id: int = PID, epoch: int = 0
) -> VerificationGuard:
    return verifications.start(producer_id, epoch, sequence, supports_epoch_bump=False, now_ms=0)


def check(table: ProducerStateTable, guard: VerificationGuard | None, sequence: int = 0) -> None:
    header = read_header(
        batch(
            ("k", "v"),
            producer_id=PID,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
    )
    terms = TxnTerms(guard, must_be_verified=True)
    table.check_append(header, origin=Origin.CLIENT, terms=terms)


def test_only_the_guard_in_place_lets_a_batch_in() -> None:
    table = ProducerStateTable()
    guard = started(table.verifications)

    check(table, guard)
    for other in (None, VerificationGuard()):
        with pytest.raises(InvalidTxnState):
            check(table, other)


def test_question_asked_twice_has_one_guard() -> None:
    verifications = Verifications()

    assert started(verifications) is started(verifications, 5)
    assert started(verifications) is not started(verifications, producer_id=8)


@pytest.mark.parametrize(
    ("asked", "lowest"),
    [
        ([(0, 5), (0, 3), (0, 9)], 3),
        ([(0, 5), (1, 8), (1, 9)], 8),
        ([(1, 5), (0, 0)], 5),
    ],
)
def test_lowest_sequence_is_that_of_the_newest_epoch(
    asked: list[tuple[int, int]], lowest: int
) -> None:
    verifications = Verifications()

    for epoch, sequence in asked:
        started(verifications, sequence, epoch=epoch)

    entry = verifications.get(PID)
    assert entry is not None
    assert (entry.lowest_sequence, entry.producer_epoch) == (lowest, max(asked)[0])


def test_later_batch_is_out_of_order_while_an_earlier_one_is_asked_about() -> None:
    table = ProducerStateTable()
    started(table.verifications, 3)
    guard = started(table.verifications, 5)

    with pytest.raises(OutOfOrderSequence):
        check(table, guard, 5)
    check(table, guard, 3)


def test_replaced_producer_is_refused_before_anything_is_asked() -> None:
    table = ProducerStateTable()
    table.end_transaction(
        producer_id=PID,
        producer_epoch=2,
        coordinator_epoch=0,
        marker_offset=0,
        timestamp=0,
        commit=True,
    )

    with pytest.raises(InvalidProducerEpoch):
        table.start_verification(PID, 1, 0, supports_epoch_bump=True, now_ms=0)
    assert len(table.verifications) == 0


def test_question_that_nobody_answers_expires_with_its_producer() -> None:
    table = ProducerStateTable()
    table.start_verification(PID, 0, 0, supports_epoch_bump=False, now_ms=1000)

    table.remove_expired(now_ms=1999, expiration_ms=1000)
    before = len(table.verifications)
    table.remove_expired(now_ms=2000, expiration_ms=1000)

    assert (before, len(table.verifications)) == (1, 0)


def test_ids_that_nobody_handed_out_push_out_the_oldest_questions() -> None:
    verifications = Verifications()
    guards = [
        started(verifications, producer_id=producer_id) for producer_id in range(MAX_VERIFICATIONS)
    ]

    newest = started(verifications, producer_id=MAX_VERIFICATIONS)

    assert len(verifications) == MAX_VERIFICATIONS - MAX_VERIFICATIONS // 10 + 1
    verifications.check(MAX_VERIFICATIONS, newest)
    verifications.check(MAX_VERIFICATIONS - 1, guards[-1])
    with pytest.raises(InvalidTxnState):
        verifications.check(0, guards[0])
