"""Batches of a broker's own records, which are not read again, beside the same from a client."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import KafkaError
from ledgerstone.records.batch import HEADER_SIZE, Codec, TimestampType, read_header
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.records.compression import Codecs
from ledgerstone.records.control import end_txn_marker, read_control_record
from ledgerstone.records.own_batch import OwnBatch, own_batch, own_marker
from ledgerstone.records.record import plain_inspect_records
from ledgerstone.records.validation import (
    AppendRules,
    Origin,
    ValidatedBatch,
    validate_own,
    validate_produced,
)
from ledgerstone.types import INT64_MAX

NOW = 1_700_000_000_000
blobs = st.none() | st.binary(max_size=80)
# Sizes at which lengths need another byte, and times that some rules refuse.
long_blobs = st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
times = st.none() | st.integers(-5, 5).map(lambda by: NOW + by * 60_000)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=2).map(tuple)
record_lists = st.lists(
    st.tuples(times, blobs | long_blobs, blobs | long_blobs, headers), min_size=1, max_size=5
)
rules = st.builds(
    AppendRules,
    compacted=st.booleans(),
    max_message_bytes=st.sampled_from([150, 1 << 20]),
    timestamp_type=st.sampled_from(list(TimestampType)),
    timestamp_before_max_ms=st.sampled_from([100_000, INT64_MAX]),
    timestamp_after_max_ms=st.sampled_from([100_000, INT64_MAX]),
    codec=st.sampled_from([None, Codec.NONE, Codec.LZ4]),
    level=st.none(),
)


def inspected(batch: bytearray, record_count: int) -> tuple[int, ...]:
    """But for values that look like failed deletes: a marker of the epoch 0 is one."""
    found = plain_inspect_records(batch[HEADER_SIZE:], record_count=record_count)
    return (*found[:-5], 0, 0, 0, -1, -1)


def from_a_client(batch: bytearray, wanted: AppendRules) -> ValidatedBatch | str:
    try:
        found = validate_produced(
            batch, wanted, now_ms=NOW, origin=Origin.COORDINATOR, inspect=plain_inspect_records
        )
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"
    return found._replace(near=None)  # Nobody looks for them in records of our own.


def from_ourselves(own: OwnBatch, wanted: AppendRules) -> ValidatedBatch | str:
    try:
        return validate_own(own, wanted, now_ms=NOW, codecs=Codecs())
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"


@given(records=record_lists, wanted=rules, transactional=st.booleans())
def test_rules_hold_for_records_of_our_own_as_for_a_clients(
    records: Sequence[RecordParts], wanted: AppendRules, transactional: bool
) -> None:
    producer_id, producer_epoch = (42, 3) if transactional else (-1, -1)
    built = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
    )
    own = own_batch(
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
    )

    assert own.data == built
    assert own.header == read_header(built)
    assert own.facts == inspected(built, len(records))
    assert from_ourselves(own, wanted) == from_a_client(bytearray(built), wanted)
    assert own.data == built, "another partition may be given the same batch"


@given(commit=st.booleans(), epoch=st.integers(0, 2**31 - 1), wanted=rules)
def test_rules_hold_for_markers_of_our_own(commit: bool, epoch: int, wanted: AppendRules) -> None:
    built = end_txn_marker(
        commit=commit, producer_id=42, producer_epoch=3, coordinator_epoch=epoch, timestamp=NOW
    )
    own = own_marker(
        commit=commit, producer_id=42, producer_epoch=3, coordinator_epoch=epoch, timestamp=NOW
    )

    assert own.data == built
    assert own.header == read_header(built)
    assert own.marker == read_control_record(built)
    assert own.facts == inspected(built, 1)
    assert from_ourselves(own, wanted) == from_a_client(bytearray(built), wanted)
    assert own.data == built, "the next partition is given the same marker"
