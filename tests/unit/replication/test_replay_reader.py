"""A log read for its machine: checked, with markers, up to the end or around damage."""

import pytest

from ledgerstone.errors import CorruptRecord, KafkaError
from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import empty_batch
from ledgerstone.records.control import ControlType, end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.storage.log import PartitionLog
from tests.kit.logs import World, batch


def _log() -> PartitionLog:
    log = World().open()
    log.append_as_leader(batch(("a", "1"), ("b", "2")), leader_epoch=0)
    data = batch(("c", "3"), producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    log.append_as_leader(data, leader_epoch=0, origin=Origin.COORDINATOR)
    marker = end_txn_marker(
        commit=False, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp=0
    )
    log.append_as_leader(marker, leader_epoch=0, origin=Origin.COORDINATOR)
    log.append_as_leader(batch(("d", "4")), leader_epoch=0)
    return log


def _damage(log: PartitionLog, text: bytes) -> None:
    file = log.segments.first.file
    position = file.pread(log.segments.first.size, 0).index(text)
    file.pwrite(b"\xff", position)


def test_records_and_markers_come_in_the_order_of_the_log_with_their_producers() -> None:
    found = list(replay_batches(_log(), max_bytes=1))

    assert [
        (each.header.producer_id, each.header.is_transactional, each.control and each.control.type)
        for each in found
    ] == [(-1, False, None), (7, True, None), (7, True, ControlType.ABORT), (-1, False, None)]
    assert [record.key for each in found for record in each.records] == [b"a", b"b", b"c", b"d"]


def test_records_above_the_high_watermark_are_read_too() -> None:
    log = _log()

    assert log.high_watermark < log.log_end_offset
    assert list(replay_batches(log))[-1].header.last_offset == log.log_end_offset - 1


def test_marker_that_the_cleaner_emptied_ends_no_replay() -> None:
    log = World().open()
    marker = end_txn_marker(
        commit=True, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp=0
    )
    log.append_as_follower(empty_batch(read_header(marker)))
    log.append_as_leader(batch(("a", "1")), leader_epoch=0)

    found = list(replay_batches(log))

    assert [(each.header.is_control, each.control) for each in found] == [
        (True, None),
        (False, None),
    ]
    assert [record.key for each in found for record in each.records] == [b"a"]


def test_damaged_batch_is_not_believed() -> None:
    log = _log()
    _damage(log, b"c\x023")

    with pytest.raises(CorruptRecord):
        list(replay_batches(log))


def test_damaged_batch_is_named_and_the_rest_is_read_where_that_is_wanted() -> None:
    log = _log()
    _damage(log, b"c\x023")
    named: list[tuple[int, KafkaError]] = []

    found = list(replay_batches(log, on_damage=lambda *damage: named.append(damage)))

    assert [offset for offset, _ in named] == [2]
    assert [record.key for each in found for record in each.records] == [b"a", b"b", b"d"]
