"""Producer state after a truncation, where the log start lies above the newest snapshot.

Batches below the log start are still in their segment. A snapshot older than them says how things
were before they came, so whoever skips them brings back a past that never had that present.
"""

from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_shrink import truncate_to
from tests.kit.logs import World
from tests.kit.scenario import append, append_ones, append_txn, end_txn, replicate_all

IDEMPOTENT = {"producer_id": 7, "producer_epoch": 0}


def delete_below_the_end_and_truncate(log: PartitionLog) -> None:
    """The start moves into the active segment, then the last of three more batches goes."""
    append_ones(log, 3)
    replicate_all(log)
    log.raise_log_start_offset(log.log_end_offset - 2)
    truncate_to(log, log.log_end_offset - 1)


def test_producer_goes_on_although_its_last_batch_lies_below_the_log_start() -> None:
    log = World().open()
    append(log, base_sequence=0, **IDEMPOTENT)
    log.roll()
    append(log, base_sequence=1, **IDEMPOTENT)

    delete_below_the_end_and_truncate(log)

    assert append(log, base_sequence=1, **IDEMPOTENT).duplicate
    assert not append(log, base_sequence=2, **IDEMPOTENT).duplicate


def test_transaction_that_was_decided_below_the_log_start_stays_decided() -> None:
    log = World().open()
    append_txn(log, 7, 0)
    log.roll()
    end_txn(log, 7, commit=True)

    delete_below_the_end_and_truncate(log)

    assert log.first_unstable_offset is None
    assert log.last_stable_offset == log.high_watermark == log.log_end_offset


def test_without_a_snapshot_every_batch_that_is_left_is_replayed() -> None:
    log = World().open()
    append(log, base_sequence=0, **IDEMPOTENT)

    delete_below_the_end_and_truncate(log)

    assert append(log, base_sequence=0, **IDEMPOTENT).duplicate
