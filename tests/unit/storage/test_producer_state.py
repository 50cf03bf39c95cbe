"""Sequences, epochs, duplicates and transactions of one partition's producers."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from ledgerstone.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from ledgerstone.records.validation import Origin
from ledgerstone.storage.producer_entry import BatchMeta
from ledgerstone.storage.producer_snapshot import decode_snapshot, encode_snapshot
from ledgerstone.storage.producer_state import (
    MAX_PRODUCERS,
    CompletedTxn,
    LastRecord,
    ProducerStateTable,
)
from ledgerstone.types import INT32_MAX

PRODUCER = 42
DAY_MS = 86_400_000


@pytest.fixture
def table() -> Iterator[ProducerStateTable]:
    table = ProducerStateTable()
    yield table
    table.check_invariants()


def _batch(
    offset: int = 0,
    sequence: int = 0,
    *,
    count: int = 1,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    timestamp: int = 1_000,
    transactional: bool = False,
    control: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL_FLAG * transactional | CONTROL_FLAG * control,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def _txn(offset: int, sequence: int = 0, producer_id: int = PRODUCER) -> BatchHeader:
    return _batch(offset, sequence, producer_id=producer_id, transactional=True)


def _end(
    table: ProducerStateTable,
    marker_offset: int,
    *,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    commit: bool = True,
    timestamp: int = 1_000,
) -> CompletedTxn | None:
    return table.end_transaction(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        marker_offset=marker_offset,
        timestamp=timestamp,
        commit=commit,
    )


def _accept(table: ProducerStateTable, header: BatchHeader) -> None:
    assert table.check_append(header, origin=Origin.CLIENT) is None
    table.update(header)


def _refuse(
    table: ProducerStateTable,
    header: BatchHeader,
    error: type[Exception],
    origin: Origin = Origin.CLIENT,
) -> None:
    with pytest.raises(error, match=str(header.producer_id)):
        table.check_append(header, origin=origin)


# -- sequences and epochs -------------------------------------------------------------------------


def test_a_producer_without_state_may_begin_with_any_sequence(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 16))

    _accept(table, _batch(1, 17))


def test_a_gap_or_a_step_back_in_the_sequence_is_refused(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0, count=3))

    _refuse(table, _batch(3, 4), OutOfOrderSequence)
    _refuse(table, _batch(3, 2), OutOfOrderSequence)


def test_the_sequence_wraps_from_the_largest_number_to_zero(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, INT32_MAX))

    _refuse(table, _batch(1, 1), OutOfOrderSequence)
    _accept(table, _batch(1, 0))


def test_the_sequence_may_wrap_inside_a_batch(table: ProducerStateTable) -> None:
    wrapping = _batch(0, INT32_MAX - 1, count=5)
    _accept(table, wrapping)

    duplicate = table.check_append(wrapping, origin=Origin.CLIENT)

    assert duplicate == BatchMeta(2, 4, 4, 1_000)
    assert duplicate.first_sequence == INT32_MAX - 1
    _accept(table, _batch(5, 3))


def test_gaps_from_replication_are_kept_as_they_are(table: ProducerStateTable) -> None:
    table.update(_batch(0, 0))

    table.update(_batch(8, 100))

    _accept(table, _batch(9, 101))


def test_an_older_epoch_is_refused(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0, epoch=5))

    _refuse(table, _batch(1, 1, epoch=4), InvalidProducerEpoch)
    _refuse(table, _batch(1, 0, epoch=4), InvalidProducerEpoch, Origin.COORDINATOR)


def test_a_new_epoch_starts_at_sequence_zero(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0, epoch=5))

    _refuse(table, _batch(1, 1, epoch=6), OutOfOrderSequence)
    _accept(table, _batch(1, 0, epoch=6))


def test_a_new_epoch_forgets_the_batches_of_the_old_one(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0, epoch=0))
    _accept(table, _batch(1, 0, epoch=1))

    assert table.check_append(_batch(2, 0, epoch=1), origin=Origin.CLIENT) is not None
    _refuse(table, _batch(2, 0, epoch=0), InvalidProducerEpoch)


def test_a_sequence_known_from_the_old_epoch_is_new_in_the_next(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0, epoch=0))
    _accept(table, _batch(1, 1, epoch=0))
    _accept(table, _batch(2, 0, epoch=1))

    _accept(table, _batch(3, 1, epoch=1))


def test_after_a_marker_alone_the_first_data_starts_at_sequence_zero(
    table: ProducerStateTable,
) -> None:
    _end(table, 0, epoch=3)

    _refuse(table, _batch(1, 1, epoch=3), OutOfOrderSequence)
    _accept(table, _batch(1, 0, epoch=3))


def test_a_coordinator_may_use_sequence_zero_for_ever(table: ProducerStateTable) -> None:
    for offset in range(3):
        header = _batch(offset, 0)
        assert table.check_append(header, origin=Origin.COORDINATOR) is None
        table.update(header)

    assert table.active_producers() == {PRODUCER: LastRecord(2, 0)}


def test_batches_without_a_producer_id_leave_no_trace(table: ProducerStateTable) -> None:
    _accept(table, _batch(producer_id=-1, sequence=-1, epoch=-1))

    assert table.is_empty


# -- duplicates -----------------------------------------------------------------------------------


def test_each_of_the_last_five_batches_is_recognised_when_it_comes_again(
    table: ProducerStateTable,
) -> None:
    batches = [_batch(10 * i, 2 * i, count=2, timestamp=i) for i in range(6)]
    for header in batches:
        _accept(table, header)

    found = [table.check_append(header, origin=Origin.CLIENT) for header in batches[1:]]

    assert found == [BatchMeta(2 * i + 1, 10 * i + 1, 1, i) for i in range(1, 6)]
    assert [meta.first_offset for meta in found if meta] == [10, 20, 30, 40, 50]


def test_a_sixth_last_batch_is_out_of_order(table: ProducerStateTable) -> None:
    batches = [_batch(i, i) for i in range(6)]
    for header in batches:
        _accept(table, header)

    _refuse(table, batches[0], OutOfOrderSequence)


def test_a_batch_that_only_overlaps_a_known_one_is_no_duplicate(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0, count=3))

    _refuse(table, _batch(3, 0, count=2), OutOfOrderSequence)
    _refuse(table, _batch(3, 1, count=2), OutOfOrderSequence)


def test_a_duplicate_is_recognised_while_its_transaction_is_open(table: ProducerStateTable) -> None:
    header = _txn(7)
    _accept(table, header)

    assert table.check_append(header, origin=Origin.CLIENT) == BatchMeta(0, 7, 0, 1_000)


# -- transactions ---------------------------------------------------------------------------------


def test_a_write_outside_of_the_open_transaction_is_refused(table: ProducerStateTable) -> None:
    _accept(table, _txn(0))

    _refuse(table, _batch(1, 1), InvalidTxnState)
    _refuse(table, _batch(1, 1), InvalidTxnState, Origin.COORDINATOR)


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker(
    table: ProducerStateTable,
) -> None:
    _accept(table, _txn(3, 0))
    _accept(table, _txn(4, 1))

    completed = _end(table, 5, commit=False)

    assert completed == CompletedTxn(PRODUCER, 3, 5, is_aborted=True)
    _accept(table, _batch(6, 2))


def test_a_marker_without_data_completes_nothing(table: ProducerStateTable) -> None:
    completed = _end(table, 9, commit=False)

    assert completed is None
    assert table.first_unstable_offset is None
    assert table.active_producers() == {PRODUCER: LastRecord(None, 0)}


def test_an_emptied_control_batch_opens_no_transaction(table: ProducerStateTable) -> None:
    table.update(_batch(5, -1, transactional=True, control=True))

    assert table.first_unstable_offset is None
    assert table.last_entry(PRODUCER) is None


def test_a_marker_of_an_older_coordinator_is_refused(table: ProducerStateTable) -> None:
    _accept(table, _txn(0))
    _end(table, 1, coordinator_epoch=5)

    table.check_marker(producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced, match="4 of producer 42 is older than 5"):
        table.check_marker(producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=4)


def test_a_marker_of_an_older_producer_epoch_is_refused(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, epoch=3))

    with pytest.raises(InvalidProducerEpoch):
        table.check_marker(producer_id=PRODUCER, producer_epoch=2, coordinator_epoch=0)
    table.check_marker(producer_id=PRODUCER + 1, producer_epoch=0, coordinator_epoch=0)


def test_a_marker_with_a_bumped_epoch_fences_the_old_one(table: ProducerStateTable) -> None:
    _accept(table, _txn(0))

    _end(table, 1, epoch=1)

    _refuse(table, _txn(2, 1), InvalidProducerEpoch)


def test_the_first_unstable_offset_is_the_oldest_open_transaction(
    table: ProducerStateTable,
) -> None:
    _accept(table, _txn(10, producer_id=1))
    _accept(table, _txn(11, producer_id=2))

    seen = [table.first_unstable_offset]
    _end(table, 12, producer_id=1)
    table.on_high_watermark(13)
    seen.append(table.first_unstable_offset)

    assert seen == [10, 11]


def test_a_decided_transaction_stays_unstable_until_its_marker_is_replicated(
    table: ProducerStateTable,
) -> None:
    _accept(table, _txn(10))
    _end(table, 11)

    seen = []
    for high_watermark in (5, 10, 11, 12):
        table.on_high_watermark(high_watermark)
        seen.append(table.first_unstable_offset)

    assert seen == [10, 10, 10, None]


def test_the_recorded_stable_offset_is_the_next_open_transaction_of_another_producer(
    table: ProducerStateTable,
) -> None:
    _accept(table, _txn(10, producer_id=1))
    _accept(table, _txn(11, producer_id=2))

    second = _end(table, 12, producer_id=2, commit=False)
    assert second is not None
    while_first_is_open = table.last_stable_offset(second)
    first = _end(table, 13, producer_id=1, commit=False)
    assert first is not None

    assert while_first_is_open == 10
    assert table.last_stable_offset(first) == 14


# -- snapshots and expiry -------------------------------------------------------------------------


def _restarted(table: ProducerStateTable, end_offset: int) -> ProducerStateTable:
    restarted = ProducerStateTable()
    restarted.load(decode_snapshot(encode_snapshot(table.entries())), end_offset)
    restarted.check_invariants()
    return restarted


def test_a_snapshot_remembers_only_the_newest_batch(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0))
    _accept(table, _batch(1, 1, count=2))

    restarted = _restarted(table, 3)

    assert restarted.map_end_offset == 3
    assert restarted.check_append(_batch(9, 1, count=2), origin=Origin.CLIENT) == BatchMeta(
        2, 2, 1, 1_000
    )
    _refuse(restarted, _batch(9, 0), OutOfOrderSequence)
    _accept(restarted, _batch(3, 3))


def test_a_snapshot_restores_an_open_transaction(table: ProducerStateTable) -> None:
    _accept(table, _txn(7))

    restarted = _restarted(table, 8)

    assert restarted.first_unstable_offset == 7
    assert _end(restarted, 8) == CompletedTxn(PRODUCER, 7, 8, is_aborted=False)


def test_a_snapshot_of_a_finished_transaction_has_none_open(table: ProducerStateTable) -> None:
    _accept(table, _txn(7))
    _end(table, 8, coordinator_epoch=3)

    restarted = _restarted(table, 9)

    assert restarted.first_unstable_offset is None
    with pytest.raises(TransactionCoordinatorFenced):
        restarted.check_marker(producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=2)


def test_a_snapshot_of_a_producer_with_only_markers_has_no_batch(table: ProducerStateTable) -> None:
    _end(table, 8, epoch=2, timestamp=77)

    (entry,) = table.entries()

    assert (entry.last_sequence, entry.last_offset, entry.offset_delta) == (-1, -1, 0)
    assert entry.timestamp == 77
    assert _restarted(table, 9).entries() == [entry]
    assert _restarted(table, 9).active_producers() == {PRODUCER: LastRecord(None, 2)}


def test_snapshot_entries_are_ordered_by_producer_id(table: ProducerStateTable) -> None:
    for producer_id in (9, 1, 5):
        _accept(table, _batch(producer_id=producer_id))

    assert [entry.producer_id for entry in table.entries()] == [1, 5, 9]


def test_quiet_producers_expire_and_may_begin_anywhere(table: ProducerStateTable) -> None:
    _accept(table, _batch(0, 0, producer_id=1, timestamp=1_000))
    _accept(table, _batch(1, 0, producer_id=2, timestamp=1_001))

    expired = table.remove_expired(1_000 + DAY_MS, DAY_MS)

    assert expired == 1
    assert list(table.active_producers()) == [2]
    _accept(table, _batch(2, 99, producer_id=1))


def test_a_producer_with_an_open_transaction_never_expires(table: ProducerStateTable) -> None:
    _accept(table, _txn(0))

    assert table.remove_expired(100 * DAY_MS, DAY_MS) == 0

    _end(table, 1)
    assert table.remove_expired(100 * DAY_MS, DAY_MS) == 1


def test_full_truncation_forgets_everything(table: ProducerStateTable) -> None:
    _accept(table, _txn(0, producer_id=1))
    _accept(table, _txn(1, producer_id=2))
    _end(table, 2, producer_id=2)

    table.truncate_fully_and_start_at(50)

    assert (table.is_empty, table.first_unstable_offset, table.map_end_offset) == (True, None, 50)


_ACTIONS = st.lists(
    st.tuples(st.sampled_from(["data", "commit", "abort", "advance"]), st.integers(1, 4)),
    max_size=60,
)


@given(_ACTIONS)
def test_nothing_below_the_first_unstable_offset_is_undecided(
    actions: list[tuple[str, int]],
) -> None:
    table = ProducerStateTable()
    open_since: dict[int, int] = {}
    decided: list[tuple[int, int]] = []
    high_watermark = 0
    for offset, (action, producer_id) in enumerate(actions):
        if action == "data":
            table.update(_txn(offset, offset, producer_id))
            open_since.setdefault(producer_id, offset)
        elif action == "advance":
            high_watermark = max(high_watermark, offset - producer_id)
            table.on_high_watermark(high_watermark)
        else:
            completed = _end(table, offset, producer_id=producer_id, commit=action == "commit")
            assert (completed is None) == (producer_id not in open_since)
            if completed is not None:
                decided.append((open_since.pop(producer_id), offset))
        table.check_invariants()
        waiting = [first for first, marker in decided if marker >= high_watermark]

        assert table.first_unstable_offset == min([*open_since.values(), *waiting], default=None)


def test_ids_that_nobody_handed_out_push_out_the_oldest_and_none_with_a_transaction(
    table: ProducerStateTable,
) -> None:
    # One with each batch would be remembered for a day each.
    table.update(_batch(0, producer_id=1, transactional=True))
    table.update(_batch(1, producer_id=2))
    for offset in range(2, 2 * MAX_PRODUCERS):
        # It keeps writing with a slow clock; the flooding producers' clocks are ahead.
        is_honest = offset % 1000 == 0
        producer_id, timestamp = (3, 1) if is_honest else (100 + offset, 10**15)
        table.update(_batch(offset, producer_id=producer_id, timestamp=timestamp))
        if is_honest:
            assert len(table.active_producers()) <= MAX_PRODUCERS
    assert table.last_entry(1) is not None, "its transaction is open"
    assert table.last_entry(2) is None
    assert table.last_entry(3) is not None, "it wrote a while ago"
    # Whoever was forgotten may go on: any sequence is a beginning.
    assert table.check_append(_batch(offset, 7, producer_id=2), origin=Origin.CLIENT) is None
