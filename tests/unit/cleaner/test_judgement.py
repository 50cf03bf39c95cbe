"""What becomes of batches and records, rule by rule in the order of cleaner/README.md."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from ledgerstone.cleaner.aborted_txns import AbortedTxns
from ledgerstone.cleaner.judgement import BatchJudge
from ledgerstone.cleaner.offset_map import OffsetMap
from ledgerstone.cleaner.plan import CleaningPlan, LastBatch, TombstoneRange
from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import build_batch, empty_batch
from ledgerstone.records.compression import Codecs
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.kernels import (
    BatchAction,
    BatchChecker,
    CleanedPayloads,
    Scratch,
    scan,
    walk,
)
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import TopicPartition
from tests.kit.payloads import opened

NOW = 10_000
P = 7
NONE, RETAIN, DISCARD, STAMP = (
    BatchAction.NONE,
    BatchAction.RETAIN_EMPTY,
    BatchAction.DISCARD,
    BatchAction.STAMP,
)


def _plan(**fields: Any) -> CleaningPlan:
    known: dict[str, Any] = {"first_uncleanable_offset": 1000} | fields
    return CleaningPlan(
        topic_partition=TopicPartition("topic", 0),
        directory="/",
        segments=(),
        first_dirty_offset=0,
        now_ms=NOW,
        delete_retention_ms=500,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 20,
        index_interval_bytes=4096,
        **known,
    )


def _data(base_offset: int, **fields: Any) -> bytes:
    return bytes(build_batch([(1, b"k", b"v", ())], base_offset=base_offset, **fields))


def _txn_data(base_offset: int) -> bytes:
    return _data(base_offset, producer_id=P, producer_epoch=0, base_sequence=0, transactional=True)


def _marker(base_offset: int, *, commit: bool = True, horizon_ms: int | None = None) -> bytes:
    if horizon_ms is None:
        return bytes(
            end_txn_marker(
                commit=commit,
                producer_id=P,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=1,
                base_offset=base_offset,
            )
        )
    return bytes(
        build_batch(
            [(1, bytes([0, 0, 0, int(commit)]), bytes(6), ())],
            base_offset=base_offset,
            producer_id=P,
            producer_epoch=0,
            transactional=True,
            control=True,
            delete_horizon_ms=horizon_ms,
        )
    )


def _actions(
    *batches: bytes, aborted: list[AbortedTxnEntry] | None = None, **fields: Any
) -> list[BatchAction]:
    window = b"".join(batches)
    judge = BatchJudge(_plan(**fields), AbortedTxns(aborted or []))
    actions: list[int] = judge.decide(window, scan(window)).actions.tolist()
    return [BatchAction(action) for action in actions]


# -- batches --------------------------------------------------------------------------------------


def test_ordinary_batch_goes_when_its_last_record_does() -> None:
    assert _actions(_data(0), _data(1, producer_id=P, producer_epoch=0, base_sequence=0)) == [
        NONE,
        NONE,
    ]


@pytest.mark.parametrize(
    ("last_data_offset", "first_uncleanable_offset", "has_no_say"),
    [
        (None, 1000, True),
        (9, 1000, True),
        (10, 1000, False),
        (12, 1000, False),
        (13, 1000, True),
        (None, 10, True),
        (None, 11, False),
        (None, 13, False),
        (None, 14, True),
    ],
)
def test_only_windows_with_a_batch_that_may_have_to_stay_are_judged_by_batch(
    last_data_offset: int | None, first_uncleanable_offset: int, *, has_no_say: bool
) -> None:
    window = b"".join(_data(at) for at in (10, 11, 12))
    last = LastBatch(producer_epoch=0, last_data_offset=last_data_offset)
    plan = _plan(first_uncleanable_offset=first_uncleanable_offset, producers={P: last})
    checked = BatchChecker().check(window, previous_last=9, end_offset=1000)

    answer = BatchJudge(plan, AbortedTxns([])).has_no_say(checked, 12)

    assert answer is has_no_say


@pytest.mark.parametrize("batch", [_txn_data(10), _marker(10)])
def test_windows_with_transactions_are_judged_by_batch(batch: bytes) -> None:
    checked = BatchChecker().check(batch + _data(11), previous_last=9, end_offset=1000)

    assert not BatchJudge(_plan(), AbortedTxns([])).has_no_say(checked, 11)


def test_aborted_data_is_discarded() -> None:
    entry = AbortedTxnEntry(P, 0, 1, 2)

    assert _actions(_txn_data(0), _marker(1, commit=False), aborted=[entry]) == [DISCARD, NONE]


def test_marker_with_data_before_it_stays_as_it_is() -> None:
    assert _actions(_txn_data(0), _marker(1)) == [NONE, NONE]


def test_marker_without_data_is_stamped_and_goes_at_its_horizon() -> None:
    assert _actions(_marker(0)) == [STAMP]
    assert _actions(_marker(0, horizon_ms=NOW + 1)) == [NONE]
    assert _actions(_marker(0, horizon_ms=NOW)) == [DISCARD]


def test_expired_marker_with_data_before_it_is_not_discarded() -> None:
    assert _actions(_txn_data(0), _marker(1, horizon_ms=1)) == [NONE, NONE]


def test_last_data_batch_of_a_live_producer_stays() -> None:
    last = {P: LastBatch(last_data_offset=5, producer_epoch=0)}

    assert _actions(_txn_data(4), _txn_data(5), _marker(6), producers=last) == [NONE, RETAIN, NONE]


def test_same_offset_of_another_producer_is_not_its_last_batch() -> None:
    last = {P + 1: LastBatch(last_data_offset=5, producer_epoch=0)}

    assert _actions(_txn_data(5), producers=last) == [NONE]
    assert _actions(_data(5), producers=last) == [NONE]


@pytest.mark.parametrize("epoch", [0, 1])
def test_marker_of_a_producer_known_by_markers_only_stays_within_its_epoch(epoch: int) -> None:
    last = {P: LastBatch(last_data_offset=None, producer_epoch=epoch)}

    (action,) = _actions(_marker(5, horizon_ms=NOW), producers=last)

    assert action == (DISCARD | RETAIN if epoch == 0 else DISCARD)


def test_data_of_a_producer_known_by_markers_only_does_not_stay() -> None:
    last = {
        P: LastBatch(last_data_offset=None, producer_epoch=0),
        P + 1: LastBatch(last_data_offset=5, producer_epoch=0),
    }

    assert _actions(_txn_data(4), _txn_data(5), producers=last) == [NONE, NONE]


def test_batch_below_the_first_uncleanable_offset_stays() -> None:
    assert _actions(_data(8), _data(9), first_uncleanable_offset=10) == [NONE, RETAIN]
    entry = AbortedTxnEntry(P, 9, 11, 12)
    assert _actions(_txn_data(9), aborted=[entry], first_uncleanable_offset=10) == [
        DISCARD | RETAIN
    ]


def test_emptied_control_batch_goes_with_its_producer() -> None:
    emptied = empty_batch(read_header(_marker(5)))

    assert _actions(emptied) == [NONE]
    last = {P: LastBatch(last_data_offset=None, producer_epoch=0)}
    assert _actions(emptied, producers=last) == [RETAIN]


def test_horizons_of_waiting_markers_are_told() -> None:
    window = _marker(0) + _marker(1, horizon_ms=NOW + 7) + _marker(2, horizon_ms=3)
    judge = BatchJudge(_plan(), AbortedTxns[AbortedTxnEntry]([]))

    decisions = judge.decide(window, scan(window))

    assert decisions.earliest_horizon_ms == NOW + 7
    assert decisions.dropped_markers == 1


def test_expired_marker_that_other_replicas_need_stays() -> None:
    window = _marker(0, horizon_ms=3) + _marker(1, horizon_ms=5)
    judge = BatchJudge(_plan(removable_to=1), AbortedTxns[AbortedTxnEntry]([]))

    decisions = judge.decide(window, scan(window))

    assert decisions.actions.tolist() == [DISCARD, NONE]
    assert (decisions.dropped_markers, decisions.removed_to) == (1, 1)
    assert decisions.held_markers == [TombstoneRange(1, 1, 5)]
    assert decisions.earliest_horizon_ms is None


def test_marker_with_a_senseless_key_is_corrupt() -> None:
    window = bytes(
        build_batch([(1, b"x", b"y", ())], producer_id=P, producer_epoch=0, control=True)
    )

    with pytest.raises(CorruptRecord, match="too short"):
        BatchJudge(_plan(), AbortedTxns[AbortedTxnEntry]([])).decide(window, scan(window))


# -- records --------------------------------------------------------------------------------------


class _Judged(NamedTuple):
    keep: list[int]
    counts: CleanedPayloads


def _judged(
    *records: tuple[bytes | None, bytes | None],
    mapped: list[tuple[bytes, int]] | None = None,
    latest_offset: int = 1000,
    held_from_offset: int = 2**62,
    held_after_ms: int = -(2**62),
    removable_to: int = 2**62,
    **fields: Any,
) -> _Judged:
    """Records at 100, 101, …, judged by a map that holds `mapped`."""
    offset_map = OffsetMap(
        24 * 50, Scratch(), load_factor=1.0, seed=bytes(16), latest_offset=latest_offset
    )
    for key, offset in mapped or []:
        offset_map.put(*opened(build_batch([(1, key, b"v", ())], base_offset=offset)))
    window = build_batch([(1, key, value, ()) for key, value in records], base_offset=100, **fields)
    left = offset_map.clean(
        *opened(window),
        now_ms=NOW,
        held_from_offset=held_from_offset,
        held_after_ms=held_after_ms,
        removable_to=removable_to,
        new_horizon_ms=NOW + 500,
        out=np.empty(1000, np.uint8),
        codecs=Codecs(),
    )
    kept = walk(left.data).offset.tolist()
    return _Judged([int(100 + at in kept) for at in range(len(records))], left)


def test_record_behind_the_map_stays_whatever_it_is() -> None:
    judged = _judged(
        (b"k", b"v"), (None, b"v"), (b"k", None), latest_offset=99, mapped=[(b"k", 500)]
    )

    assert judged.keep == [1, 1, 1]


def test_record_without_a_key_goes() -> None:
    judged = _judged((None, b"v"), (b"", b"v"))

    assert judged.keep == [0, 1]
    assert judged.counts.keyless == 1


def test_record_below_the_mapped_offset_goes_and_the_mapped_one_stays() -> None:
    judged = _judged((b"a", b"v"), (b"b", b"v"), (b"c", b"v"), mapped=[(b"a", 101), (b"b", 101)])

    assert judged.keep == [0, 1, 1]
    assert (judged.counts.kept, judged.counts.superseded) == (2, 1)


def test_record_above_the_mapped_offset_stays() -> None:
    assert _judged((b"a", b"v"), mapped=[(b"a", 50)]).keep == [1]


@pytest.mark.parametrize(("horizon_ms", "stays"), [(None, 1), (NOW + 1, 1), (NOW, 0), (-1, 0)])
def test_newest_tombstone_goes_at_its_horizon(horizon_ms: int | None, stays: int) -> None:
    judged = _judged((b"k", None), delete_horizon_ms=horizon_ms)

    assert judged.keep == [stays]
    assert judged.counts.expired == 1 - stays
    assert judged.counts.tombstones_kept == stays
    assert judged.counts.tombstones_stamped == (horizon_ms is None)


def test_superseded_tombstone_goes_before_its_horizon() -> None:
    judged = _judged((b"k", None), mapped=[(b"k", 200)])

    assert judged.keep == [0]
    assert (judged.counts.superseded, judged.counts.expired) == (1, 0)


def test_expired_tombstone_from_the_held_offset_on_stays() -> None:
    judged = _judged((b"a", None), (b"b", None), delete_horizon_ms=1, held_from_offset=101)

    assert judged.keep == [0, 1]
    assert (judged.counts.expired, judged.counts.tombstones_held) == (1, 1)
    assert judged.counts.earliest_horizon_ms is None


@pytest.mark.parametrize(("held_after_ms", "stays"), [(NOW - 101, 1), (NOW - 100, 0), (NOW, 0)])
def test_held_tombstone_goes_once_it_was_held_long_enough(held_after_ms: int, stays: int) -> None:
    judged = _judged(
        (b"a", None),
        delete_horizon_ms=NOW - 100,
        held_from_offset=0,
        held_after_ms=held_after_ms,
    )

    assert judged.keep == [stays]
    assert judged.counts.tombstones_held == stays


def test_expired_tombstone_that_other_replicas_need_stays() -> None:
    judged = _judged((b"a", None), (b"b", None), delete_horizon_ms=NOW - 5, removable_to=101)

    assert judged.keep == [0, 1]
    assert (judged.counts.expired, judged.counts.tombstones_held) == (1, 1)
    assert judged.counts.removed == (100, 100)
    assert judged.counts.ranges == [(101, 101, NOW - 5)]


def test_time_does_not_release_what_other_replicas_need() -> None:
    judged = _judged((b"a", None), delete_horizon_ms=1, held_after_ms=NOW, removable_to=100)

    assert judged.keep == [1]


def test_kept_and_removed_tombstones_say_where_they_lie() -> None:
    held = _judged((b"a", None), (b"b", b"v"), (b"c", None), delete_horizon_ms=NOW - 5,
                   held_from_offset=102)  # fmt: skip
    fresh = _judged((b"a", None), (b"b", b"v"), (b"c", None))

    assert held.counts.removed == (100, 100)
    assert held.counts.ranges == [(102, 102, NOW - 5)]
    assert fresh.counts.removed is None
    assert fresh.counts.ranges == [(100, 102, NOW + 500)]


def test_more_horizons_than_ranges_end_in_one_range_with_the_earliest() -> None:
    offset_map = OffsetMap(24 * 50, Scratch(), load_factor=1.0, seed=bytes(16), latest_offset=1000)
    window = b"".join(
        build_batch([(1, b"k%d" % at, None, ())], base_offset=at, delete_horizon_ms=NOW + 100 - at)
        for at in range(40)
    )

    left = offset_map.clean(
        *opened(window),
        now_ms=NOW,
        held_from_offset=2**62,
        new_horizon_ms=NOW + 500,
        out=np.empty(10_000, np.uint8),
        codecs=Codecs(),
    )

    assert len(left.ranges) == 32
    assert left.ranges[:2] == [(0, 0, NOW + 100), (1, 1, NOW + 99)]
    assert left.ranges[-1] == (31, 39, NOW + 61)


def test_records_of_control_batches_all_stay() -> None:
    judged = _judged((b"\x00\x00\x00\x01", b"x"), mapped=[(b"\x00\x00\x00\x01", 500)], control=True)

    assert judged.keep == [1]


def test_earliest_horizon_is_that_of_the_kept_tombstones() -> None:
    assert _judged((b"a", None)).counts.earliest_horizon_ms == NOW + 500
    assert _judged((b"a", None), delete_horizon_ms=NOW + 9).counts.earliest_horizon_ms == NOW + 9
    assert _judged((b"a", b"v"), delete_horizon_ms=NOW + 9).counts.earliest_horizon_ms is None
