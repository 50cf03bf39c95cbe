"""The values of a batch, read in one go: the same as record by record, or the same complaint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import HEADER_SIZE, Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.records.values import record_values

values = st.none() | st.binary(max_size=300) | st.just(b"v" * 20_000)
plain = st.tuples(st.integers(0, 2**40), st.none(), values, st.just(()))
any_record = st.tuples(
    st.integers(0, 2**40),
    st.none() | st.binary(max_size=5),
    values,
    st.just(()) | st.just((("h", b"1"),)),
)


@given(
    records=st.lists(plain, min_size=1, max_size=20) | st.lists(any_record, min_size=1, max_size=5),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP]),
)
def test_values_are_those_of_the_records(
    records: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]],
    codec: Codec,
) -> None:
    batch = build_batch(records, base_offset=7, codec=codec)

    assert record_values(batch) == [record[2] for record in records]


@given(
    sizes=st.lists(st.integers(0, 200), min_size=1, max_size=4),
    at=st.integers(0, 400),
    byte=st.integers(0, 255),
)
def test_a_broken_batch_is_refused_as_record_by_record(
    sizes: list[int], at: int, byte: int
) -> None:
    batch = build_batch([(0, None, b"v" * size, ()) for size in sizes])
    if HEADER_SIZE + at < len(batch):
        batch[HEADER_SIZE + at] = byte
    try:
        expected = [record.value for record in iter_records(batch)]
    except CorruptRecord as error:
        with pytest.raises(type(error)):
            record_values(batch)
    else:
        assert record_values(batch) == expected
