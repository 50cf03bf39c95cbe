"""Columns against the plain code of the client and the builder, row by row."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.client.partitioner import murmur2, partition_of
from ledgerstone.records.batch import HEADER_SIZE
from ledgerstone.records.builder import build_batch
from ledgerstone.spark.encoding import (
    encode_records,
    murmur2_of,
    null_spans,
    partitions_by_key,
    spans_of,
)

_CELLS = st.lists(st.none() | st.binary(max_size=20), max_size=30)


@given(_CELLS, st.integers(0, 5))
def test_spans_give_back_the_cells_of_a_slice(cells: list[bytes | None], skipped: int) -> None:
    column = pa.array(cells, pa.binary()).slice(skipped)

    spans = spans_of(column)

    assert [spans.bytes_at(row) for row in range(len(column))] == cells[skipped:]


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=30))
def test_keys_hash_as_one_by_one(keys: list[bytes]) -> None:
    hashes = murmur2_of(spans_of(pa.array(keys, pa.binary())))

    assert hashes.tolist() == [murmur2(key) for key in keys]


@given(_CELLS, st.integers(1, 12))
def test_keys_go_where_the_client_sends_them(keys: list[bytes | None], count: int) -> None:
    numbers = partitions_by_key(spans_of(pa.array(keys, pa.binary())), count)

    assert numbers.tolist() == [-1 if key is None else partition_of(key, count) for key in keys]


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=200),
            st.integers(-(2**40), 2**40),
        ),
        min_size=1,
        max_size=80,
    )
)
def test_records_are_encoded_as_the_builder_does(
    rows: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    keys, values, times = zip(*rows, strict=True)
    expected = build_batch([(at, key, value, ()) for key, value, at in rows])

    deltas = np.array(times, np.int64) - times[0]
    payload = encode_records(
        spans_of(pa.array(keys, pa.binary())), spans_of(pa.array(values, pa.binary())), deltas
    )

    assert payload == expected[HEADER_SIZE:]


def test_null_spans_are_null() -> None:
    assert [null_spans(2).bytes_at(row) for row in range(2)] == [None, None]
