"""Every kernel against its plain-Python twin, and its source over pointers that check bounds."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ledgerstone.records.arrow import BinaryLayout, to_arrow
from ledgerstone.records.batch import (
    HEADER_SIZE,
    Codec,
    TimestampType,
    iter_headers,
    verify_crc,
)
from ledgerstone.records.builder import RecordParts, build_batch, empty_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.kernels import (
    BatchAction,
    Columns,
    hash_keys,
    inspect_records,
    rewrite,
    walk,
)
from ledgerstone.records.kernels.descriptors import HashCall
from ledgerstone.records.kernels.source import siphash as siphash_source
from ledgerstone.records.record import iter_records, plain_inspect_records
from tests.kit.sized import examples
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s, uint64s
from tests.oracles.plain_arrow import plain_rows
from tests.oracles.plain_siphash import siphash128
from tests.oracles.plain_windows import plain_rewrite, plain_walk

INT64S = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.one_of(st.integers(-1, 2**42), st.just(1_700_000_000_000))
HEADERS = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=10)), max_size=3
).map(tuple)
RECORDS: st.SearchStrategy[RecordParts] = st.tuples(
    TIMESTAMPS,
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=200),
    HEADERS,
)


@st.composite
def batches(draw: st.DrawFn, base_offset: int) -> bytes:
    kind = draw(st.sampled_from(["data", "data", "data", "marker", "empty"]))
    if kind == "marker":
        return bytes(
            end_txn_marker(
                commit=draw(st.booleans()),
                producer_id=5,
                producer_epoch=1,
                coordinator_epoch=0,
                timestamp=draw(TIMESTAMPS),
                base_offset=base_offset,
            )
        )
    records = draw(st.lists(RECORDS, min_size=1, max_size=8))
    gaps = draw(st.lists(st.integers(1, 300), min_size=len(records), max_size=len(records)))
    offsets = [base_offset + sum(gaps[: index + 1]) for index in range(len(records))]
    batch = build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=draw(st.integers(-1, 9)),
        codec=draw(st.sampled_from(Codec)),
        timestamp_type=draw(st.sampled_from(TimestampType)),
        transactional=draw(st.booleans()),
        producer_id=draw(st.integers(-1, 50)),
        delete_horizon_ms=draw(st.none() | TIMESTAMPS),
        offsets=offsets,
        last_offset_delta=offsets[-1] - base_offset + draw(st.integers(0, 3)),
    )
    if kind == "empty":
        header = next(iter_headers(batch))[1]
        return empty_batch(header)
    return bytes(batch)


@st.composite
def windows(draw: st.DrawFn) -> bytes:
    count = draw(st.integers(0, 4))
    return b"".join(draw(batches(base_offset=10_000 * index)) for index in range(count))


def _bytes_at(columns: Columns, start: int, length: int) -> bytes | None:
    together = bytes(columns.buffer) + bytes(columns.arena)
    return None if length < 0 else together[start : start + length]


def _walked(columns: Columns) -> list[tuple[object, ...]]:
    rows = zip(
        columns.batch_index.tolist(),
        columns.offset.tolist(),
        columns.timestamp.tolist(),
        zip(columns.key_start.tolist(), columns.key_length.tolist(), strict=True),
        zip(columns.value_start.tolist(), columns.value_length.tolist(), strict=True),
        zip(columns.headers_start.tolist(), columns.headers_length.tolist(), strict=True),
        columns.header_count.tolist(),
        strict=True,
    )
    return [
        tuple(_bytes_at(columns, *cell) if isinstance(cell, tuple) else cell for cell in row)
        for row in rows
    ]


@given(payload=st.binary(max_size=60), record_count=st.integers(-1, 4))
@example(payload=b"\x0c" + bytes(6), record_count=1)
def test_inspection_of_any_bytes_is_that_of_the_twin(payload: bytes, record_count: int) -> None:
    facts = inspect_records(payload, record_count=record_count)

    assert facts == plain_inspect_records(payload, record_count=record_count)


@given(records=st.lists(RECORDS, min_size=1, max_size=8))
def test_inspection_of_records_is_that_of_the_twin(records: list[RecordParts]) -> None:
    payload = bytes(build_batch(records)[HEADER_SIZE:])

    facts = inspect_records(payload, record_count=len(records))

    assert facts.status == 0
    assert facts == plain_inspect_records(payload, record_count=len(records))


@examples(50)
@given(window=windows(), min_offset=st.none() | st.integers(0, 40_000))
def test_walk_finds_what_the_twin_finds(window: bytes, min_offset: int | None) -> None:
    columns = walk(window, min_offset=min_offset)

    expected = [tuple(record)[:7] for record in plain_walk(window, min_offset=min_offset)]
    assert _walked(columns) == expected
    assert columns.consumed == len(window)


@examples(50)
@given(window=windows(), seed=st.binary(min_size=16, max_size=16))
def test_hashes_of_keys_are_those_of_the_twin(window: bytes, seed: bytes) -> None:
    columns = walk(window)

    low, high = hash_keys(
        columns.buffer, columns.key_start, columns.key_length, seed, arena=columns.arena
    )

    keys = [record.key for record in plain_walk(window)]
    expected = [(0, 0) if key is None else siphash128(key, seed) for key in keys]
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


@given(keys=st.lists(st.none() | st.binary(max_size=24), max_size=80))
def test_hash_source_stays_in_bounds(keys: list[bytes | None]) -> None:
    source = b"".join(key or b"" for key in keys)
    lengths = [-1 if key is None else len(key) for key in keys]
    starts = [sum(max(length, 0) for length in lengths[:index]) for index in range(len(keys))]
    low, high = uint64s([0] * len(keys)), uint64s([0] * len(keys))

    status = siphash_source.hash_keys(
        HashCall(
            buffer=CheckedPointer(source),
            split=len(source),
            arena=CheckedPointer(b""),
            end=len(source),
            start=int64s(starts),
            length=int32s(lengths),
            count=len(keys),
            k0=1,
            k1=2,
            low=low,
            high=high,
            lanes=uint64s([0] * siphash_source.LANE_WORDS),
            report=int64s([0]),
        )
    )

    seed = (1).to_bytes(8, "little") + (2).to_bytes(8, "little")
    expected = [(0, 0) if key is None else siphash128(key, seed) for key in keys]
    assert status == 0
    assert list(zip(low.numbers, high.numbers, strict=True)) == expected


@examples(50)
@given(
    window=windows(),
    flags=st.lists(st.integers(0, 1), min_size=64, max_size=64),
    actions=st.lists(st.integers(0, 7), min_size=4, max_size=4),
    horizon=st.none() | st.integers(0, 2**42),
)
def test_rewrite_gives_the_bytes_of_the_twin(
    window: bytes, flags: list[int], actions: list[int], horizon: int | None
) -> None:
    columns = walk(window)
    keep = flags[: len(columns)]
    of_batches = actions[: len(columns.batches)]

    rewritten = rewrite(
        columns,
        np.array(keep, np.uint8),
        actions=np.array(of_batches, np.uint8),
        delete_horizon_ms=horizon,
    )

    assert bytes(rewritten.data) == plain_rewrite(window, keep, of_batches, horizon)
    for position, header in iter_headers(rewritten.data):
        verify_crc(rewritten.data, position, header)


@examples(50)
@given(window=windows(), flags=st.lists(st.integers(0, 1), min_size=64, max_size=64))
def test_rewritten_records_are_the_kept_ones(window: bytes, flags: list[int]) -> None:
    columns = walk(window)

    rewritten = rewrite(columns, np.array(flags[: len(columns)], np.uint8), delete_horizon_ms=2**41)

    before = [record for at, _ in iter_headers(window) for record in iter_records(window, at)]
    kept = [record for record, flag in zip(before, flags, strict=False) if flag]
    after = [
        record
        for at, _ in iter_headers(rewritten.data)
        for record in iter_records(rewritten.data, at)
    ]
    assert after == kept
    assert set(rewritten.outcome.tolist()) <= {0, 1, 2}


@examples(50)
@given(window=windows(), layout=st.sampled_from(BinaryLayout))
def test_arrow_rows_are_those_of_the_twin(window: bytes, layout: BinaryLayout) -> None:
    names = ("key", "value", "offset", "timestamp", "timestampType", "headers")

    batch = to_arrow(walk(window), names, layout=layout)

    batch.validate(full=True)
    numbers = batch.column(3).view("int64")
    assert batch.set_column(3, "timestamp", numbers).to_pylist() == plain_rows(window)


@given(timestamps=st.lists(INT64S, min_size=1, max_size=5), horizon=st.integers(0, 2**42))
def test_no_timestamp_stops_a_stamping(timestamps: list[int], horizon: int) -> None:
    one_by_one = [build_batch([(timestamp, b"k", None, ())]) for timestamp in timestamps]
    window = b"".join(one_by_one)

    rewritten = rewrite(walk(window), np.ones(len(timestamps), np.uint8), delete_horizon_ms=horizon)

    assert walk(rewritten.data).timestamp.tolist() == timestamps
    assert (walk(rewritten.data).batches.delete_horizon_ms == horizon).all()


def test_every_action_has_a_bit_of_its_own() -> None:
    assert [int(action) for action in BatchAction] == [1, 2, 4]
