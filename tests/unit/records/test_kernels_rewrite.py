"""`rewrite`: the table "Output of a batch", byte for byte where the vectors give the bytes."""

import numpy as np
import pytest

from ledgerstone.records.batch import Codec, TimestampType, iter_headers, read_header, verify_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import BatchAction, RewriteOutcome, Rewritten, rewrite, walk
from ledgerstone.records.record import iter_records
from tests.unit.records import vectors


def _rewritten(
    window: bytes,
    keep: list[int],
    *,
    actions: list[int] | None = None,
    delete_horizon_ms: int | None = None,
) -> Rewritten:
    return rewrite(
        walk(window),
        np.array(keep, np.uint8),
        actions=None if actions is None else np.array(actions, np.uint8),
        delete_horizon_ms=delete_horizon_ms,
    )


def test_batch_that_keeps_all_is_copied_byte_for_byte() -> None:
    window = vectors.THREE + vectors.K1_V1 + vectors.COMMIT

    rewritten = _rewritten(window, [1] * 5, delete_horizon_ms=vectors.HORIZON_MS)

    assert bytes(rewritten.data) == window
    assert rewritten.outcome.tolist() == [RewriteOutcome.UNCHANGED] * 3


def test_dropping_the_first_record_moves_the_base_timestamp_only() -> None:
    rewritten = _rewritten(vectors.THREE, [0, 1, 1])

    assert bytes(rewritten.data) == vectors.THREE_COMPACTED
    assert rewritten.kept_count.tolist() == [2]
    assert rewritten.outcome.tolist() == [RewriteOutcome.REWRITTEN]


def test_tombstone_gets_the_delete_horizon() -> None:
    rewritten = _rewritten(vectors.TOMBSTONE, [1], delete_horizon_ms=vectors.HORIZON_MS)

    assert bytes(rewritten.data) == vectors.STAMPED_TOMBSTONE
    assert rewritten.base_timestamp.tolist() == [vectors.HORIZON_MS]


def test_delete_horizon_is_set_once_and_never_moves() -> None:
    rewritten = _rewritten(vectors.STAMPED_TOMBSTONE, [1], delete_horizon_ms=1)

    assert bytes(rewritten.data) == vectors.STAMPED_TOMBSTONE


def test_dropped_tombstone_stamps_nothing() -> None:
    window = bytes(build_batch([(1, b"a", None, ()), (2, b"b", b"x", ())]))

    rewritten = _rewritten(window, [0, 1], delete_horizon_ms=vectors.HORIZON_MS)

    assert not read_header(rewritten.data).has_delete_horizon


def test_marker_is_stamped_when_asked_for() -> None:
    rewritten = _rewritten(
        vectors.COMMIT,
        [1],
        actions=[BatchAction.STAMP],
        delete_horizon_ms=vectors.HORIZON_MS,
    )

    header = read_header(rewritten.data)
    assert header.delete_horizon_ms == vectors.HORIZON_MS
    assert header.is_control
    assert next(iter_records(rewritten.data)).timestamp == vectors.T


def test_nothing_kept_and_retained_leaves_the_bare_header() -> None:
    records = [(vectors.T, b"k", b"v", ())] * 3
    window = build_batch(
        records,
        base_offset=10,
        leader_epoch=3,
        producer_id=42,
        producer_epoch=1,
        base_sequence=5,
        codec=Codec.LZ4,
    )

    rewritten = _rewritten(bytes(window), [0, 0, 0], actions=[BatchAction.RETAIN_EMPTY])

    assert bytes(rewritten.data) == vectors.EMPTY
    assert rewritten.outcome.tolist() == [RewriteOutcome.EMPTIED]


def test_bare_header_is_kept_as_it_is_while_retained() -> None:
    rewritten = _rewritten(vectors.EMPTY, [], actions=[BatchAction.RETAIN_EMPTY])

    assert bytes(rewritten.data) == vectors.EMPTY


def test_bare_header_of_a_stamped_batch_has_no_horizon() -> None:
    rewritten = _rewritten(vectors.STAMPED_TOMBSTONE, [0], actions=[BatchAction.RETAIN_EMPTY])

    header = read_header(rewritten.data)
    assert not header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (-1, vectors.T)


def test_nothing_kept_and_not_retained_leaves_nothing() -> None:
    rewritten = _rewritten(vectors.THREE + vectors.K1_V1, [0, 0, 0, 1])

    assert bytes(rewritten.data) == vectors.K1_V1
    assert rewritten.outcome.tolist() == [RewriteOutcome.DROPPED, RewriteOutcome.UNCHANGED]
    assert rewritten.position.tolist() == [0, 0]


def test_discarded_batch_goes_whatever_its_flags_say() -> None:
    rewritten = _rewritten(vectors.THREE, [1, 1, 1], actions=[BatchAction.DISCARD])

    assert bytes(rewritten.data) == b""


def test_batch_that_was_passed_over_must_be_discarded() -> None:
    columns = walk(vectors.THREE, skip=np.array([True]))

    with pytest.raises(ValueError, match="0 of 3 records"):
        rewrite(columns, np.zeros(0, np.uint8))
    discarded = rewrite(
        columns, np.zeros(0, np.uint8), actions=np.array([BatchAction.DISCARD], np.uint8)
    )
    assert bytes(discarded.data) == b""


@pytest.mark.parametrize("append_time", [99, -5])
def test_log_append_time_batch_keeps_its_timestamp(append_time: int) -> None:
    window = build_batch(
        [(1, b"a", b"1", ()), (2, b"b", b"2", ())],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=append_time,
    )

    rewritten = _rewritten(bytes(window), [0, 1])

    header = read_header(rewritten.data)
    assert (header.base_timestamp, header.max_timestamp) == (append_time, append_time)
    assert [record.timestamp for record in iter_records(rewritten.data)] == [append_time]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_compressed_batch_is_compressed_again_with_its_codec(codec: Codec) -> None:
    records = [(i, b"k%d" % i, bytes(100), ()) for i in range(4)]
    compressed = build_batch(records, base_offset=7, codec=codec)
    window = vectors.K1_V1 + bytes(compressed) + vectors.THREE

    rewritten = _rewritten(window, [1, 0, 1, 0, 1, 1, 1, 1])

    headers = list(iter_headers(rewritten.data))
    for position, header in headers:
        verify_crc(rewritten.data, position, header)
    position, header = headers[1]
    assert header.codec is codec
    assert [r.offset for r in iter_records(rewritten.data, position)] == [8, 10]
    assert rewritten.position.tolist() == [position for position, _ in headers]
    assert bytes(rewritten.data[-len(vectors.THREE) :]) == vectors.THREE


def test_records_that_grow_have_room() -> None:
    records = [(2**40 + i, b"", None, ()) for i in range(500)]
    window = bytes(build_batch(records))

    rewritten = _rewritten(window, [1] * 500, delete_horizon_ms=0)

    assert len(rewritten.data) > len(window)
    assert [r.timestamp for r in iter_records(rewritten.data)] == [part[0] for part in records]


def test_flags_of_the_wrong_number_or_kind_are_refused() -> None:
    columns = walk(vectors.THREE)

    with pytest.raises(ValueError, match="2 uint8 keep flags for 3 records"):
        rewrite(columns, np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="bool keep flags"):
        rewrite(columns, np.zeros(3, np.bool_))
    with pytest.raises(ValueError, match="0 uint8 actions for 1 batches"):
        rewrite(columns, np.zeros(3, np.uint8), actions=np.zeros(0, np.uint8))
