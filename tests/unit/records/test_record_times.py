"""Times of records, found in pieces: the same answers as one record after the other gives."""

from random import Random

import pytest

from ledgerstone.records.batch import Codec, TimestampType, read_header
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.records.record import MalformedRecord, RecordFault, iter_payload, records_payload
from ledgerstone.records.record_times import PIECE_RECORDS, first_from, highest_from
from tests.unit.records.vectors import T

COUNTS = (1, PIECE_RECORDS, PIECE_RECORDS + 1, 3 * PIECE_RECORDS + 5)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", TimestampType)
def test_same_as_one_record_after_the_other(count: int, kind: TimestampType) -> None:
    random = Random(f"{count} {kind}")
    parts: list[RecordParts] = [(T + random.randrange(50), b"k", b"", ()) for _ in range(count)]
    # As compaction leaves them: with gaps.
    offsets = [100 + 3 * each for each in range(count)]
    batch = build_batch(
        parts, base_offset=100, offsets=offsets, timestamp_type=kind, codec=Codec.LZ4
    )
    header, payload = read_header(batch), records_payload(batch, 0, read_header(batch))
    records = [(each.timestamp, each.offset) for each in iter_payload(header, payload)]

    for start in (0, 100, 101, random.choice(offsets), offsets[-1], offsets[-1] + 1):
        later = [each for each in records if each[1] >= start]
        assert highest_from(header, payload, start) == max(later, default=(-1, 0))[0]
        for timestamp in (0, T, T + 10, T + 49, T + 50):
            expected = next((each for each in later if each[0] >= timestamp), None)
            found = first_from(header, payload, timestamp=timestamp, start_offset=start)
            assert found == expected


def test_sums_beyond_64_bits_wrap_as_for_readers() -> None:
    part: RecordParts = (T, b"k", b"", ())
    parts = [part] * PIECE_RECORDS * 2
    batch = build_batch(parts)
    header = read_header(batch)._replace(base_timestamp=2**63 - 1)
    late = build_batch([*parts, (T + 1, b"k", b"", ())])
    payload = records_payload(late, 0, read_header(late))
    header = header._replace(record_count=len(parts) + 1)

    assert first_from(header, payload, timestamp=0, start_offset=0) == (2**63 - 1, 0)
    assert highest_from(header, payload, len(parts)) == -1


@pytest.mark.parametrize("count", [PIECE_RECORDS, PIECE_RECORDS + 1])
def test_payload_with_fewer_records_than_declared_is_malformed(count: int) -> None:
    batch = build_batch([(T, b"k", b"", ())] * count)
    header, payload = read_header(batch), records_payload(batch, 0, read_header(batch))
    header = header._replace(record_count=3 * PIECE_RECORDS)

    with pytest.raises(MalformedRecord) as found:
        first_from(header, payload, timestamp=T + 1, start_offset=0)

    assert (found.value.fault, found.value.index) == (RecordFault.COUNT_MISMATCH, count)
