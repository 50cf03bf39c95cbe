"""What a walk knows about transactions, step by step."""

from ledgerstone.cleaner.aborted_txns import AbortedTxns
from ledgerstone.records.control import ControlType
from ledgerstone.storage.txn_index import AbortedTxnEntry

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
P, Q = 7, 8


def _aborted(producer_id: int, first_offset: int, last_offset: int) -> AbortedTxnEntry:
    return AbortedTxnEntry(producer_id, first_offset, last_offset, last_offset + 1)


def test_data_between_first_offset_and_marker_is_aborted_and_later_data_is_not() -> None:
    entry = _aborted(P, 10, 20)
    txns = AbortedTxns([entry])

    assert not txns.on_data(P, 9)
    assert txns.on_data(P, 10)
    assert not txns.on_data(Q, 12)
    assert not txns.on_marker(P, 20, ABORT)
    assert not txns.on_data(P, 21)
    assert txns.take_kept() == [entry]


def test_abort_marker_without_data_before_it_stands_for_nothing() -> None:
    txns = AbortedTxns([_aborted(P, 10, 20)])

    assert txns.on_marker(P, 20, ABORT)
    assert txns.on_marker(Q, 21, ABORT)
    assert txns.take_kept() == []


def test_commit_marker_stands_for_the_data_since_the_marker_before_it() -> None:
    txns = AbortedTxns[AbortedTxnEntry]([])

    txns.on_data(P, 1)
    assert not txns.on_marker(P, 2, COMMIT)
    assert txns.on_marker(P, 3, COMMIT)


def test_aborted_data_is_no_data_of_the_commit_that_follows() -> None:
    txns = AbortedTxns([_aborted(P, 0, 2)])

    txns.on_data(P, 1)
    txns.on_marker(P, 2, ABORT)

    assert txns.on_marker(P, 5, COMMIT)


def test_emptied_control_batch_says_nothing_and_ends_nothing() -> None:
    txns = AbortedTxns([_aborted(P, 0, 9)])
    txns.on_data(P, 1)

    assert txns.on_marker(P, 2, None)
    assert txns.on_data(P, 3)


def test_control_that_ends_no_transaction_stays() -> None:
    txns = AbortedTxns[AbortedTxnEntry]([])

    assert not txns.on_marker(P, 1, ControlType.LEADER_CHANGE)
    assert not txns.on_marker(P, 2, ControlType.UNKNOWN)


def test_second_entry_of_a_transaction_under_way_forgets_nothing_of_it() -> None:
    """A log may list one twice, and one that is under way keeps what was seen of it."""
    entry = _aborted(P, 0, 9)
    txns = AbortedTxns([entry, _aborted(P, 5, 9)])

    txns.on_data(P, 1)
    txns.on_data(Q, 6)
    assert not txns.on_marker(P, 9, ABORT)

    assert txns.take_kept() == [entry]


def test_kept_transactions_come_in_the_order_of_their_markers_and_only_once() -> None:
    first, second = _aborted(P, 0, 30), _aborted(Q, 5, 20)
    txns = AbortedTxns([first, second])
    for producer_id, offset in ((P, 1), (Q, 6)):
        txns.on_data(producer_id, offset)

    txns.on_marker(Q, 20, ABORT)
    txns.on_marker(P, 30, ABORT)

    assert txns.take_kept() == [second, first]
    assert txns.take_kept() == []
