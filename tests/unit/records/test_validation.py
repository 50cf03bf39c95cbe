"""What a leader refuses, changes and rebuilds; what a follower checks."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from struct import pack_into

import pytest

from ledgerstone.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from ledgerstone.records.batch import (
    HEADER_SIZE,
    Codec,
    TimestampType,
    read_header,
    verify_crc,
    write_crc,
    write_header,
)
from ledgerstone.records.builder import RecordParts, build_batch, seal_batch
from ledgerstone.records.compression import Codecs
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.record import iter_records, plain_inspect_records
from ledgerstone.records.validation import (
    MAX_PLAIN_RECORDS,
    MAX_RECORD_ERRORS,
    AppendRules,
    Origin,
    ValidatedBatch,
    check_replicated,
    validate_produced,
)
from ledgerstone.types import INT64_MAX, WritableBuffer
from tests.unit.records import vectors
from tests.unit.records.vectors import T

HOUR_MS = 3_600_000
RULES = AppendRules(
    compacted=False,
    max_message_bytes=1_048_588,
    timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=INT64_MAX,
    timestamp_after_max_ms=HOUR_MS,
    codec=None,
    level=None,
)
COMPACTED = replace(RULES, compacted=True)
APPEND_TIME = replace(RULES, timestamp_type=TimestampType.LOG_APPEND_TIME)
NOW = T + 1000
PARTS: list[RecordParts] = [
    (T, b"a", b"1", (("h", b"x"),)),
    (T + 10, b"b", None, ()),
    (T + 5, b"c", b"3", ()),
]


def validate(
    records: WritableBuffer, rules: AppendRules = RULES, origin: Origin = Origin.CLIENT
) -> ValidatedBatch:
    return validate_produced(
        records, rules, now_ms=NOW, origin=origin, inspect=plain_inspect_records
    )


def changed(batch: bytes | bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a CRC that fits them."""
    out = bytearray(batch)
    write_header(out, 0, read_header(out)._replace(**fields))
    write_crc(out, 0, len(out))
    return out


def test_good_batch_is_left_where_it_is() -> None:
    batch = build_batch(PARTS)
    before = bytes(batch)

    validated = validate(batch)

    assert validated.data is batch
    assert batch == before
    assert validated == ValidatedBatch(
        data=batch,
        header=read_header(before),
        record_count=3,
        max_timestamp=T + 10,
        offset_delta_of_max_timestamp=1,
        tombstone_count=1,
        recompressed=False,
    )


def test_kernels_are_what_looks_at_records_by_default() -> None:
    batch = build_batch(PARTS)

    assert validate_produced(batch, RULES, now_ms=NOW) == validate(bytearray(batch))


@pytest.mark.parametrize("codec", list(Codec))
def test_batch_in_a_receive_buffer_is_changed_in_place(codec: Codec) -> None:
    batch = changed(build_batch(PARTS, codec=codec), max_timestamp=T)
    buffer = bytearray(b"before" + batch + b"after")

    validated = validate(memoryview(buffer)[6:-5])

    assert not validated.recompressed
    assert read_header(buffer, 6) == validated.header
    assert validated.header.max_timestamp == T + 10
    verify_crc(buffer, 6, validated.header)
    assert buffer[:6] + buffer[-5:] == b"beforeafter"


def test_base_timestamp_stays_as_it_was_sent() -> None:
    batch = build_batch(PARTS, max_timestamp=T + 77)

    header = validate(batch).header

    assert (header.base_timestamp, header.max_timestamp) == (T, T + 10)


def three_in_a_batch() -> bytearray:
    return build_batch(PARTS)


def idempotent() -> bytearray:
    return build_batch(PARTS, producer_id=42, producer_epoch=1, base_sequence=0)


REFUSED: dict[str, tuple[Callable[[], bytearray], type[KafkaError], str]] = {
    "nothing": (bytearray, InvalidRecord, "no record batch"),
    "half a header": (lambda: three_in_a_batch()[:40], InvalidRecord, "40 bytes"),
    "half a batch": (lambda: three_in_a_batch()[:-1], InvalidRecord, "bytes of"),
    "two batches": (lambda: three_in_a_batch() * 2, InvalidRecord, "exactly one"),
    "trailing byte": (lambda: three_in_a_batch() + b"\x00", InvalidRecord, "1 bytes follow"),
    "batch and a half": (
        lambda: three_in_a_batch() + three_in_a_batch()[:30],
        InvalidRecord,
        "30 bytes follow",
    ),
    "base offset": (lambda: changed(three_in_a_batch(), base_offset=1), InvalidRecord, "offset 1"),
    "magic 0": (lambda: changed(three_in_a_batch(), magic=0), InvalidRecord, "magic 0"),
    "magic 1": (lambda: changed(three_in_a_batch(), magic=1), InvalidRecord, "magic 1"),
    "magic 3": (lambda: changed(three_in_a_batch(), magic=3), CorruptRecord, "magic 3"),
    "empty batch": (
        lambda: changed(vectors.EMPTY, base_offset=0),
        InvalidRecord,
        "record count 0",
    ),
    "count below the delta": (
        lambda: changed(three_in_a_batch(), record_count=2),
        InvalidRecord,
        "record count 2 with last offset delta 2",
    ),
    "delta above the count": (
        lambda: changed(three_in_a_batch(), last_offset_delta=3),
        InvalidRecord,
        "record count 3 with last offset delta 3",
    ),
    "negative count": (
        lambda: changed(three_in_a_batch(), record_count=-1, last_offset_delta=-2),
        InvalidRecord,
        "record count -1",
    ),
    "both above the records": (
        lambda: changed(three_in_a_batch(), record_count=4, last_offset_delta=3),
        InvalidRecord,
        "record 3 .* COUNT_MISMATCH",
    ),
    "both below the records": (
        lambda: changed(three_in_a_batch(), record_count=2, last_offset_delta=1),
        InvalidRecord,
        "record 2 .* TRAILING_BYTES",
    ),
    "both huge": (
        lambda: changed(three_in_a_batch(), record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        InvalidRecord,
        "COUNT_MISMATCH",
    ),
    "control": (
        lambda: changed(vectors.COMMIT, base_offset=0, base_sequence=0),
        InvalidRecord,
        "control batches",
    ),
    "delete horizon": (
        lambda: build_batch(PARTS, delete_horizon_ms=T),
        InvalidRecord,
        "delete horizon",
    ),
    "negative sequence": (
        lambda: changed(idempotent(), base_sequence=-1),
        InvalidRecord,
        "producer id 42 with epoch 1 and base sequence -1",
    ),
    "negative epoch": (
        lambda: changed(idempotent(), producer_epoch=-1),
        InvalidRecord,
        "epoch -1",
    ),
    "transaction of nobody": (
        lambda: build_batch(PARTS, transactional=True),
        InvalidRecord,
        "transactional batch with producer id -1",
    ),
    "codec 5": (
        lambda: changed(three_in_a_batch(), attributes=5),
        UnsupportedCompressionType,
        "codec 5",
    ),
    "codec that is not the stream's": (
        lambda: changed(build_batch(PARTS, codec=Codec.GZIP), attributes=Codec.ZSTD),
        CorruptRecord,
        "zstd",
    ),
    "timestamp past int64": (
        lambda: changed(three_in_a_batch(), base_timestamp=2**63 - 1),
        InvalidTimestamp,
        "not int64",
    ),
    "LogAppendTime without a timestamp": (
        lambda: changed(three_in_a_batch(), attributes=8, max_timestamp=-1),
        InvalidTimestamp,
        "LogAppendTime",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_batch_is_refused_and_not_touched(name: str) -> None:
    make, error, reason = REFUSED[name]
    batch = make()
    before = bytes(batch)

    with pytest.raises(error, match=reason) as refused:
        validate(batch)

    assert type(refused.value) is error
    assert batch == before


def test_wrong_crc_is_corrupt() -> None:
    batch = build_batch(PARTS)
    batch[-1] ^= 1

    with pytest.raises(CorruptRecord, match="crc"):
        validate(batch)


def test_offset_and_size_are_judged_before_the_crc() -> None:
    batch = build_batch(PARTS)
    batch[-1] ^= 1

    with pytest.raises(MessageTooLarge):
        validate(batch, replace(RULES, max_message_bytes=len(batch) - 1))
    pack_into(">q", batch, 0, 7)
    with pytest.raises(InvalidRecord, match="base offset 7"):
        validate(batch, replace(RULES, max_message_bytes=len(batch) - 1))


def test_batch_of_exactly_the_largest_size_is_accepted() -> None:
    batch = build_batch(PARTS)

    assert validate(batch, replace(RULES, max_message_bytes=len(batch))).record_count == 3


def test_idempotent_and_transactional_batches_are_accepted() -> None:
    assert validate(idempotent()).header.last_sequence == 2
    batch = build_batch(PARTS, producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
    assert validate(batch).header.is_transactional


def test_malformed_record_is_named() -> None:
    batch = build_batch(PARTS)
    batch[HEADER_SIZE] = 1
    write_crc(batch, 0, len(batch))

    with pytest.raises(InvalidRecord, match="NEGATIVE_LENGTH") as refused:
        validate(batch)

    assert [error.batch_index for error in refused.value.record_errors] == [0]


def test_null_keys_are_refused_on_a_compacted_topic_one_by_one() -> None:
    parts = [(T, None if i in (2, 3, 7) else b"k", b"v", ()) for i in range(10)]

    for codec in Codec:
        with pytest.raises(InvalidRecord, match="3 of 10 records have no key") as refused:
            validate(build_batch(parts, codec=codec), COMPACTED)
        assert [error.batch_index for error in refused.value.record_errors] == [2, 3, 7]

    assert validate(build_batch(parts)).record_count == 10


def test_empty_key_is_a_key() -> None:
    assert validate(build_batch([(T, b"", None, ())]), COMPACTED).tombstone_count == 1


def test_list_of_null_keys_is_bounded() -> None:
    all_null = build_batch([(T, None, b"v", ())] * (MAX_RECORD_ERRORS + 5))

    with pytest.raises(InvalidRecord) as refused:
        validate(all_null, COMPACTED)

    assert [error.batch_index for error in refused.value.record_errors] == list(
        range(MAX_RECORD_ERRORS)
    )


def test_first_null_key_is_named_even_beyond_the_records_that_are_searched() -> None:
    parts = [(T, b"k", b"", ())] * (MAX_PLAIN_RECORDS + 5) + [(T, None, b"", ())] * 2

    with pytest.raises(InvalidRecord) as refused:
        validate(build_batch(parts), COMPACTED)

    assert [error.batch_index for error in refused.value.record_errors] == [MAX_PLAIN_RECORDS + 5]


def test_timestamps_have_to_lie_around_now() -> None:
    rules = replace(RULES, timestamp_before_max_ms=100, timestamp_after_max_ms=50)

    for timestamp in (NOW - 100, NOW, NOW + 50):
        assert validate(build_batch([(timestamp, b"k", b"v", ())]), rules).record_count == 1
    with pytest.raises(InvalidTimestamp, match=r"record 1: timestamp .* more than 50 ms after"):
        validate(build_batch([(NOW, b"k", b"v", ()), (NOW + 51, b"k", b"v", ())]), rules)
    with pytest.raises(InvalidTimestamp, match=r"earliest timestamp .* more than 100 ms before"):
        validate(build_batch([(NOW, b"k", b"v", ()), (NOW - 101, b"k", b"v", ())]), rules)


def test_too_old_record_behind_very_many_is_refused_without_a_search_for_it() -> None:
    rules = replace(RULES, timestamp_before_max_ms=100)
    good: RecordParts = (NOW, b"k", b"", ())
    old: RecordParts = (NOW - 101, b"k", b"", ())

    with pytest.raises(InvalidTimestamp, match="earliest timestamp") as named:
        validate(build_batch([good] * (MAX_PLAIN_RECORDS - 1) + [old]), rules)
    with pytest.raises(InvalidTimestamp, match="earliest timestamp") as refused:
        validate(build_batch([good] * MAX_PLAIN_RECORDS + [old]), rules)

    assert [each.batch_index for each in named.value.record_errors] == [MAX_PLAIN_RECORDS - 1]
    assert refused.value.record_errors == ()


def test_missing_timestamps_are_not_judged() -> None:
    rules = replace(RULES, timestamp_before_max_ms=0, timestamp_after_max_ms=0)

    assert validate(build_batch([(None, b"k", b"v", ())]), rules).max_timestamp == -1


def test_log_append_time_is_stamped_and_no_record_timestamp_is_judged() -> None:
    batch = build_batch([(0, b"k", b"v", ()), (T * 2, b"k", b"v", ())])

    validated = validate(batch, APPEND_TIME)

    assert validated.data is batch
    assert (validated.max_timestamp, validated.offset_delta_of_max_timestamp) == (NOW, 0)
    assert [record.timestamp for record in iter_records(batch)] == [NOW, NOW]
    verify_crc(batch, 0, read_header(batch))


def test_log_append_time_flag_of_a_producer() -> None:
    batch = build_batch(PARTS, timestamp_type=TimestampType.LOG_APPEND_TIME)

    with pytest.raises(InvalidTimestamp, match="LogAppendTime"):
        validate(bytearray(batch), APPEND_TIME)

    assert validate(batch).header.timestamp_type is TimestampType.CREATE_TIME
    assert [record.timestamp for record in iter_records(batch)] == [T, T + 10, T + 5]


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_topic_with_a_codec_of_its_own_rebuilds(source: Codec, target: Codec) -> None:
    batch = build_batch(PARTS, codec=source, producer_id=4, producer_epoch=0, base_sequence=8)
    before = bytes(batch)

    validated = validate(batch, replace(RULES, codec=target))

    assert validated.recompressed is (source is not target)
    assert (validated.data is batch) is (source is target)
    assert batch == before
    assert validated.header.codec is target
    assert list(iter_records(validated.data)) == list(iter_records(before))
    assert validated.header.last_sequence == 10
    verify_crc(validated.data, 0, validated.header)


@pytest.mark.parametrize("codec", list(Codec))
def test_codecs_serve_batch_after_batch(codec: Codec) -> None:
    codecs = Codecs()
    rules = replace(RULES, codec=codec)
    sources = [build_batch(PARTS, codec=source) for source in Codec for _ in range(2)]

    shared = [validate_produced(bytearray(b), rules, now_ms=NOW, codecs=codecs) for b in sources]

    assert shared == [validate(bytearray(batch), rules) for batch in sources]


def test_level_of_the_topic_is_used_for_its_codec() -> None:
    parts = [(T, b"k%d" % i, b"value %d" % (i * 7919 % 1000), ()) for i in range(2000)]
    rules = replace(RULES, codec=Codec.ZSTD)

    fast = validate(build_batch(parts), replace(rules, level=-50))
    slow = validate(build_batch(parts), replace(rules, level=19))

    assert len(slow.data) < len(fast.data)


@pytest.mark.parametrize("codec", list(Codec))
def test_offset_deltas_with_gaps_are_renumbered(codec: Codec) -> None:
    parts: list[RecordParts] = [(T, b"k", b"v", (("h", None),)), (T, b"k", b"w", ())]
    batch = build_batch(parts, codec=codec, offsets=[0, 5], last_offset_delta=1)

    validated = validate(batch)

    assert validated.recompressed
    assert validated.header.codec is codec
    assert [(record.offset, record.value) for record in iter_records(validated.data)] == [
        (0, b"v"),
        (1, b"w"),
    ]


def test_too_many_records_to_renumber_are_refused() -> None:
    count = MAX_PLAIN_RECORDS + 1
    offsets = [*range(count - 1), count]
    batch = build_batch([(T, b"", b"", ())] * count, offsets=offsets, last_offset_delta=count - 1)

    with pytest.raises(InvalidRecord, match="not 0, 1, 2"):
        validate(batch)


def test_batch_that_grows_past_the_largest_size_is_refused() -> None:
    batch = build_batch([(T, b"k", bytes(5000), ())], codec=Codec.ZSTD)
    rules = replace(RULES, codec=Codec.NONE, max_message_bytes=5000)

    with pytest.raises(MessageTooLarge, match="after it was rebuilt"):
        validate(batch, rules)


def test_batch_that_compresses_worse_than_before_is_refused() -> None:
    parts = [(T, b"k%d" % i, b"value %d" % (i * 7919 % 1000), ()) for i in range(500)]
    batch = build_batch(parts, codec=Codec.ZSTD, level=19)
    rules = replace(RULES, codec=Codec.SNAPPY, max_message_bytes=len(batch))

    with pytest.raises(MessageTooLarge, match="after it was rebuilt"):
        validate(batch, rules)


def test_batch_that_would_grow_too_much_is_refused_before_it_is_copied() -> None:
    batch = build_batch([(T, b"k", bytes(30 * 2**20), ())], codec=Codec.ZSTD)

    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLarge, match="after it was rebuilt"):
            validate(batch, replace(RULES, codec=Codec.NONE))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 40 * 2**20


def test_bomb_is_refused_as_too_large() -> None:
    header = read_header(build_batch(PARTS, codec=Codec.ZSTD))
    frame = bytes.fromhex("28b52ffd0050") + bytes.fromhex("02001078") * 400 + b"\x01\x00\x00"

    with pytest.raises(MessageTooLarge, match="zstd records decompress to more than"):
        validate(seal_batch(header, frame))


def test_coordinator_may_write_markers_and_leave_sequences_out() -> None:
    marker = end_txn_marker(
        commit=True, producer_id=42, producer_epoch=1, coordinator_epoch=9, timestamp=T
    )
    offsets = build_batch(PARTS, producer_id=42, producer_epoch=1, transactional=True)
    rules = replace(COMPACTED, codec=Codec.LZ4)

    validated = validate(marker, rules, Origin.COORDINATOR)

    assert validated.data is marker
    assert validated.header.codec is Codec.NONE
    assert validate(offsets, rules, Origin.COORDINATOR).header.codec is Codec.LZ4


def test_control_record_is_no_tombstone_and_needs_no_key() -> None:
    batch = build_batch([(T, None, None, ())], control=True)

    assert validate(batch, COMPACTED, Origin.COORDINATOR).tombstone_count == 0


def test_follower_takes_batches_as_they_are() -> None:
    buffer = b"".join(vectors.ALL.values())

    batches = check_replicated(buffer)

    assert [position for position, _ in batches] == [0, 72, 142, 215, 276, 354, 432, 527]
    assert [header.base_offset for _, header in batches] == [0, 7, 7, 10, 13, 14, 100, 100]
    assert check_replicated(buffer[:-1]) == batches[:-1]


def test_follower_refuses_a_wrong_crc_in_any_batch() -> None:
    buffer = bytearray(vectors.K1_V1 + vectors.TOMBSTONE)
    buffer[-1] ^= 1

    with pytest.raises(CorruptRecord, match="offset 7: crc"):
        check_replicated(buffer)


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": -1},
        {"last_offset_delta": -1},
        {"base_offset": -1},
        {"base_offset": INT64_MAX, "last_offset_delta": 1},
    ],
)
def test_follower_refuses_numbers_no_leader_writes(fields: dict[str, int]) -> None:
    batch = changed(vectors.THREE, **fields)

    with pytest.raises(CorruptRecord):
        check_replicated(vectors.K1_V1 + batch)
