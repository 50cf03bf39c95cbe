"""Cleaning around producers and transactions, scenario by scenario."""

from typing import Any

import pytest

from ledgerstone.records.control import ControlType
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.txn_index import AbortedTxnEntry
from tests.kit.cleaning import clean, compacted, contents, plan_of, reopened, run, shape
from tests.kit.golden import committed, producers_of
from tests.kit.log_checks import check_log
from tests.kit.logs import T0, World, all_records, batch, offsets
from tests.kit.scenario import append, end_txn, headers_of, replicate_all

RETENTION_MS = 1000


def _send(
    log: PartitionLog, producer_id: int, base_sequence: int, *keys: str, **fields: Any
) -> AppendResult:
    """Records of an idempotent producer; the value is the producer's number."""
    return append(
        log,
        *[(key, str(producer_id)) for key in keys],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=base_sequence,
        **fields,
    )


def _txn(log: PartitionLog, producer_id: int, base_sequence: int, *keys: str) -> AppendResult:
    return _send(log, producer_id, base_sequence, *keys, transactional=True)


def _cleaned(log: PartitionLog, first_dirty: int = 0, **fields: Any) -> int:
    replicate_all(log)
    log.roll()
    return clean(log, first_dirty, **fields).end_offset


def _entries(log: PartitionLog) -> list[AbortedTxnEntry]:
    return [entry for segment in log.segments for entry in segment.txn_index.entries()]


def _markers(log: PartitionLog) -> list[int]:
    """Offsets of the markers that still say something."""
    return [
        header.last_offset
        for header in headers_of(log)
        if header.is_control and header.record_count
    ]


def _values(log: PartitionLog) -> dict[str, str]:
    found = [record for record, _ in committed(log)]
    return {(record.key or b"").decode(): (record.value or b"").decode() for record in found}


def test_duplicates_are_recognised_after_cleaning_and_reload() -> None:
    """Three producers write overlapping keys, and each resends its last batch after a reload."""
    world = World()
    log = compacted(world)
    sendings = [(1, ("1", "2", "3")), (2, ("3", "1", "4")), (3, ("1", "4"))]
    for producer_id, keys in sendings:
        _send(log, producer_id, 0, *keys)

    _cleaned(log)

    headers = headers_of(log)
    assert [header.last_offset for header in headers] == [2, 5, 7]
    assert [header.last_sequence for header in headers] == [2, 2, 1]
    assert offsets(all_records(log)) == [1, 3, 6, 7]
    again = reopened(world, log)
    results = [_send(again, producer_id, 0, *keys) for producer_id, keys in sendings]
    assert [(r.first_offset, r.last_offset) for r in results] == [(0, 2), (3, 5), (6, 7)]
    assert all(result.duplicate for result in results)


def test_last_batch_of_a_producer_stays_when_all_its_records_went() -> None:
    """Another producer supersedes all records of producer 1."""
    world = World()
    log = compacted(world)
    _send(log, 1, 0, "1", "2", "3")
    _send(log, 2, 0, "3", "1")
    first_dirty = _cleaned(log)
    _send(log, 4, 0, "2")

    _cleaned(log, first_dirty)

    assert shape(log)[0] == (2, 0)
    again = reopened(world, log)
    assert _send(again, 1, 0, "1", "2", "3").duplicate


def test_only_the_last_batch_of_each_producer_is_kept_for_its_sake() -> None:
    """Five records of one key from several producers, and from one without an id."""
    log = compacted(World())
    append(log, ("k", "none"))
    for producer_id in (1, 2, 3):
        _send(log, producer_id, 0, "k")
    log.roll()
    _send(log, 2, 1, "k")

    clean(log)

    assert [header.last_offset for header in headers_of(log)] == [1, 3, 4]
    assert offsets(all_records(log)) == [3, 4]
    last = {header.producer_id: header.last_sequence for header in headers_of(log)}
    assert last == {1: 0, 2: 1, 3: 0}


def test_aborted_batch_that_is_the_producers_last_stays_without_records() -> None:
    """The producer's last batch belongs to an aborted transaction."""
    log = compacted(World())
    _txn(log, 1, 0, "a", "b")
    end_txn(log, 1, commit=False)

    first_dirty = _cleaned(log)
    (emptied, _) = headers_of(log)
    assert (emptied.record_count, emptied.last_sequence) == (0, 1)
    _txn(log, 1, 2, "c")
    end_txn(log, 1, commit=True)
    _cleaned(log, first_dirty)

    assert [header.last_offset for header in headers_of(log) if not header.is_control] == [3]


def test_only_committed_keys_stay_and_the_transaction_index_tells_the_same() -> None:
    """Two producers interleave committed and aborted transactions."""
    log = compacted(World())
    _txn(log, 1, 0, "1", "2")
    _txn(log, 2, 0, "2", "3")
    _txn(log, 1, 2, "3", "4")
    end_txn(log, 1, commit=False)
    _txn(log, 2, 2, "5")
    end_txn(log, 2, commit=True)
    before = _entries(log)

    _cleaned(log)

    assert [key for _, key, _ in contents(log)] == ["2", "3", "5"]
    assert _entries(log) == before
    assert _values(log) == {"2": "2", "3": "2", "5": "2"}


def test_aborted_transactions_outlive_a_pass_that_cannot_see_the_whole_segment() -> None:
    """The map holds four keys, so the passes end in the middle of transactions."""
    world = World()
    log = compacted(world)
    for sequence, key in enumerate(("1", "2", "3", "4")):
        append(log, (key, "v"), producer_id=9, producer_epoch=0, base_sequence=sequence)
    _txn(log, 1, 0, "5", "6")
    _txn(log, 2, 0, "7")
    _txn(log, 1, 2, "1")
    end_txn(log, 1, commit=False)
    _txn(log, 3, 0, "8", "9")
    end_txn(log, 2, commit=False)
    end_txn(log, 3, commit=True)
    _send(log, 1, 3, "10")
    _send(log, 2, 1, "11")
    small: dict[str, Any] = {"dedupe_buffer_bytes": 4 * 24, "load_factor": 1.0}
    entries = _entries(log)

    first = _cleaned(log, **small)
    assert first == 9
    assert [key for _, key, _ in contents(log)] == ["1", "2", "3", "4", "8", "9", "10", "11"]
    assert _markers(log) == [8, 11, 12]
    assert _entries(log) == entries
    second = clean(log, first).end_offset
    assert _entries(log) == []
    assert _markers(log) == [8, 11, 12]
    world.clock.advance(ms=RETENTION_MS)
    append(log, ("new", "v"))
    _cleaned(log, second)

    assert _markers(log) == [12]


def test_commit_marker_stays_while_a_record_of_its_transaction_does() -> None:
    """The marker gets a horizon once its transaction has no records left."""
    world = World()
    log = compacted(world)
    _txn(log, 1, 0, "k")
    end_txn(log, 1, commit=True)
    _send(log, 1, 1, "other")
    first_dirty = _cleaned(log)
    assert headers_of(log)[1].delete_horizon_ms is None
    append(log, ("k", "newer"))

    first_dirty = _cleaned(log, first_dirty)
    assert _markers(log) == [1]
    assert headers_of(log)[0].is_control
    assert headers_of(log)[0].delete_horizon_ms is None
    first_dirty = clean(log, first_dirty).end_offset
    assert headers_of(log)[0].delete_horizon_ms == T0 + RETENTION_MS
    first_dirty = clean(log, first_dirty).end_offset
    assert _markers(log) == [1]
    world.clock.advance(ms=RETENTION_MS)
    clean(log, first_dirty)

    assert _markers(log) == []


@pytest.mark.parametrize("commit", [True, False])
def test_marker_stays_while_an_emptied_batch_of_its_transaction_does(commit: bool) -> None:
    """The producer's last batch was emptied; the marker follows it two passes later."""
    world = World()
    log = compacted(world)
    _txn(log, 1, 0, "k")
    end_txn(log, 1, commit=commit)
    append(log, ("k", "newer"))
    entries = _entries(log)
    assert len(entries) == (0 if commit else 1)

    first_dirty = _cleaned(log)
    for _ in range(3):
        world.clock.advance(ms=RETENTION_MS)
        first_dirty = clean(log, first_dirty).end_offset
        assert shape(log)[:2] == [(0, 0), (1, 1)]
        assert _entries(log) == entries
    _send(log, 1, 1, "l")
    first_dirty = _cleaned(log, first_dirty)
    assert shape(log)[0] == (1, 1)
    # The pass that dropped the emptied batch still saw it.
    first_dirty = clean(log, first_dirty).end_offset
    assert headers_of(log)[0].delete_horizon_ms is not None
    assert _entries(log) == []
    world.clock.advance(ms=RETENTION_MS)
    clean(log, first_dirty)

    assert _markers(log) == []


def test_marker_that_is_all_a_producer_has_becomes_an_empty_control_batch() -> None:
    """The producer has written nothing but a marker."""
    world = World()
    log = compacted(world)
    end_txn(log, 1, commit=True)
    append(log, ("k", "v"))
    first_dirty = _cleaned(log)
    assert headers_of(log)[0].delete_horizon_ms == T0 + RETENTION_MS
    world.clock.advance(ms=RETENTION_MS)

    for _ in range(3):
        clean(log, first_dirty)
        emptied = headers_of(log)[0]
        assert emptied.is_control
        assert (emptied.record_count, emptied.delete_horizon_ms) == (0, None)

    run(log, plan_of(log, first_dirty, producers={}))
    assert not headers_of(log)[0].is_control


@pytest.mark.parametrize("commit", [True, False])
def test_marker_in_another_group_than_its_data_stays(commit: bool) -> None:
    """The data and the marker of a transaction are cleaned in different groups."""
    log = compacted(World(), segment_bytes=160)
    _txn(log, 1, 0, "a")
    log.roll()
    end_txn(log, 1, commit=commit)
    _send(log, 1, 1, "b")
    replicate_all(log)
    log.roll()
    assert len(log.segments) >= 3

    clean(log)

    assert _markers(log) == [1]
    assert {header.delete_horizon_ms for header in headers_of(log)} == {None}
    assert len(_entries(log)) == (0 if commit else 1)


def test_data_whose_abort_marker_lies_beyond_the_pass_supersedes_nothing() -> None:
    """A transaction spans segments, and only the first of them can be cleaned."""
    log = compacted(World())
    append(log, ("k", "stands"))
    append(log, ("l", "old"))
    _txn(log, 1, 0, "k")
    _txn(log, 2, 0, "l")
    log.roll()
    end_txn(log, 1, commit=False)
    end_txn(log, 2, commit=True)
    replicate_all(log)

    report = clean(log)

    assert report.stats.dropped_aborted == 1
    assert _values(log) == {"k": "stands", "l": "2"}
    assert shape(log)[-3:] == [(3, 1), (4, 1), (5, 1)]
    assert _entries(log) == [AbortedTxnEntry(1, 2, 4, 3)]
    _cleaned(log, report.end_offset)
    assert _values(log) == {"k": "stands", "l": "2"}


def test_transaction_aborted_before_the_dirty_part_says_nothing_about_later_ones() -> None:
    log = compacted(World())
    append(log, ("k", "old"))
    _txn(log, 1, 0, "x")
    end_txn(log, 1, commit=False)
    first_dirty = _cleaned(log)
    assert len(_entries(log)) == 1
    _txn(log, 1, 1, "k")
    end_txn(log, 1, commit=True)

    _cleaned(log, first_dirty)

    assert contents(log) == [(3, "k", "1")]


def test_key_that_looks_like_a_marker_is_not_one() -> None:
    """A user's key has the same bytes as the key of a commit marker."""
    log = compacted(World())
    _txn(log, 1, 0, "k")
    end_txn(log, 1, commit=True)
    marker_key = "\x00\x00\x00\x01"
    append(log, (marker_key, "mine"))

    _cleaned(log)

    assert _markers(log) == [1]
    assert contents(log) == [(0, "k", "1"), (2, marker_key, "mine")]
    kinds = [header.is_control for header in headers_of(log)]
    assert kinds == [False, True, False]


def test_producer_that_never_counts_keeps_only_its_last_batch() -> None:
    """Coordinators write every batch with sequence 0."""
    log = compacted(World())
    for _ in range(3):
        log.append_as_leader(
            batch(("k", "v"), producer_id=5, producer_epoch=0, base_sequence=0),
            leader_epoch=0,
            origin=Origin.COORDINATOR,
        )
    append(log, ("k", "newer"))

    _cleaned(log)

    assert shape(log) == [(2, 0), (3, 1)]


def test_replay_of_thinned_and_emptied_batches_gives_the_same_producers() -> None:
    """Producer state is rebuilt from a cleaned log."""
    world = World()
    log = compacted(world)
    _send(log, 1, 0, "a", "b", "c")
    _txn(log, 2, 0, "a", "b")
    end_txn(log, 2, commit=False)
    _txn(log, 3, 0, "b")
    end_txn(log, 3, commit=True)
    append(log, ("a", "x"), ("b", "x"), ("c", "x"))
    _cleaned(log)
    known = producers_of(log)
    for name in log.fs.list_dir(log.directory):
        if name.endswith(".snapshot"):
            log.fs.unlink(f"{log.directory}/{name}")

    again = reopened(world, log)

    assert [header.record_count for header in headers_of(again)] == [0, 0, 1, 0, 1, 3]
    assert producers_of(again) == known
    check_log(again)


def test_marker_types_are_read_back_after_the_rewrite() -> None:
    log = compacted(World())
    end_txn(log, 1, commit=True)
    end_txn(log, 2, commit=False)
    append(log, ("k", "v"))

    _cleaned(log)

    content = log.segments.first.file.pread(log.segments.first.size, 0)
    first, second = (next(iter_records(content, at)) for at in _positions(log)[:2])
    assert [record.key for record in (first, second)] == [
        b"\x00\x00\x00" + bytes([kind]) for kind in (ControlType.COMMIT, ControlType.ABORT)
    ]
    assert first.timestamp == second.timestamp == T0


def _positions(log: PartitionLog) -> list[int]:
    positions, at = [], 0
    for header in headers_of(log):
        positions.append(at)
        at += header.size
    return positions
