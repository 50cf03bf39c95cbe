"""Appending: what a leader stamps and refuses, what a follower takes as it is, what is flushed."""

import errno
from typing import Any

import pytest

from ledgerstone.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    LogStorageError,
    MessageTooLarge,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from ledgerstone.records.batch import Codec, TimestampType
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.types import INT64_MAX
from tests.kit.logs import T0, World, all_records, batch, offsets
from tests.kit.scenario import (
    ONE,
    ONE_BYTES,
    append,
    facts,
    headers_of,
    killed,
    stored,
)

COMPACTED = LogConfig(cleanup_policy=("compact",))


# -- what a leader stamps -------------------------------------------------------------------------


def test_leader_gives_a_batch_its_offsets_and_its_epoch() -> None:
    log = World().open()

    first = append(log, ("a", "1"), ("b", "2"), leader_epoch=3)
    second = append(log, ("c", "3"), leader_epoch=3)

    assert (first.first_offset, first.last_offset) == (0, 1)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert [(h.base_offset, h.last_offset, h.leader_epoch) for h in headers_of(log)] == [
        (0, 1, 3),
        (2, 2, 3),
    ]
    assert (first.log_append_time, first.log_start_offset, first.max_timestamp) == (-1, 0, T0)
    assert not first.duplicate


def test_tombstone_is_a_record_like_any_other_and_reads_back_without_a_value() -> None:
    log = World().open(COMPACTED)

    append(log, ("a", "1"), ("a", None))

    assert [(record.key, record.value) for record in all_records(log)] == [
        (b"a", b"1"),
        (b"a", None),
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_replaces_the_time_of_every_record(codec: Codec) -> None:
    world = World()
    log = world.open(LogConfig(message_timestamp_type="LogAppendTime"))
    world.clock.advance(minutes=5)

    result = append(log, ("a", "1"), ("b", "2"), timestamp=7, codec=codec)

    now = T0 + 300_000
    assert (result.log_append_time, result.max_timestamp) == (now, now)
    assert [record.timestamp for record in all_records(log)] == [now, now]
    assert headers_of(log)[0].timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", [Codec.NONE, Codec.ZSTD])
def test_topic_codec_is_the_one_batches_are_stored_with(name: str, sent: Codec) -> None:
    log = World().open(LogConfig(compression_type=name))

    append(log, ("a", "1" * 500), ("b", None), codec=sent)

    assert headers_of(log)[0].codec.config_name == name
    assert [(r.offset, r.key, r.value) for r in all_records(log)] == [
        (0, b"a", b"1" * 500),
        (1, b"b", None),
    ]


@pytest.mark.parametrize("sent", list(Codec))
def test_codec_of_the_producer_stays_unless_the_topic_says_otherwise(sent: Codec) -> None:
    log = World().open()

    append(log, ("a", "1" * 500), codec=sent)

    assert headers_of(log)[0].codec is sent


# -- what a leader refuses ------------------------------------------------------------------------


def with_damage(data: bytearray) -> bytearray:
    data[65] ^= 1
    return data


REFUSALS: list[tuple[type[KafkaError], dict[str, Any], bytearray]] = [
    (CorruptRecord, {}, with_damage(batch(ONE))),
    (InvalidRecord, {}, batch(ONE) + batch(ONE)),
    (InvalidRecord, {}, bytearray()),
    (InvalidRecord, {}, batch(ONE, base_offset=5)),
    (InvalidRecord, {}, batch(ONE, delete_horizon_ms=T0)),
    (InvalidRecord, {"cleanup_policy": ("compact",)}, batch((None, "v"))),
    (InvalidTimestamp, {}, batch(ONE, timestamp=T0 + 3_600_001)),
    (InvalidTimestamp, {"message_timestamp_before_max_ms": 10}, batch(ONE, timestamp=T0 - 11)),
    (MessageTooLarge, {"max_message_bytes": ONE_BYTES - 1}, batch(ONE)),
    (RecordListTooLarge, {"segment_bytes": ONE_BYTES - 1}, batch(ONE)),
]


@pytest.mark.parametrize(("error", "config", "data"), REFUSALS)
def test_refused_batch_leaves_the_log_as_it_was(
    error: type[KafkaError], config: dict[str, Any], data: bytearray
) -> None:
    world = World()
    log = world.open(LogConfig(**config))
    before = facts(world, log)

    with pytest.raises(error):
        log.append_as_leader(bytearray(data), leader_epoch=1)

    assert facts(world, log) == before


def test_set_that_fits_a_segment_exactly_is_taken_and_one_byte_more_is_not() -> None:
    log = World().open(LogConfig(segment_bytes=ONE_BYTES))

    append(log, ONE)
    with pytest.raises(RecordListTooLarge, match=r"71 bytes do not fit segment.bytes=70"):
        append(log, ("kk", "v"))

    assert log.log_end_offset == 1


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("keyless", [0, 1])
def test_record_without_a_key_makes_a_compacted_topic_refuse_the_whole_batch(
    keyless: int, codec: Codec
) -> None:
    world = World()
    log = world.open(COMPACTED)
    pairs: list[tuple[str | None, str | None]] = [("a", "1"), ("b", "2")]
    pairs[keyless] = (None, "x")
    before = facts(world, log)

    with pytest.raises(InvalidRecord) as refused:
        append(log, *pairs, codec=codec)

    assert [error.batch_index for error in refused.value.record_errors] == [keyless]
    assert facts(world, log) == before


def test_keyed_tombstone_is_accepted_by_a_compacted_topic() -> None:
    log = World().open(COMPACTED)

    append(log, ("a", None))

    assert log.log_end_offset == 1


# -- followers ------------------------------------------------------------------------------------


def test_follower_writes_what_the_leader_sent_byte_for_byte() -> None:
    log = World().open(LogConfig(compression_type="gzip", message_timestamp_type="LogAppendTime"))
    data = stored(0, "a", "b", leader_epoch=4) + stored(2, "c", leader_epoch=4)

    result = log.append_as_follower(data)

    assert log.segments.active.file.pread(1000, 0) == data
    assert (result.first_offset, result.last_offset) == (0, 2)
    assert log.epochs.entries() == [(4, 0)]


def test_follower_refuses_offsets_it_has_already() -> None:
    world = World()
    log = world.open()
    log.append_as_follower(stored(0, "a", "b"))
    before = facts(world, log)

    with pytest.raises(OffsetOutOfRange, match="at 1 of topic-0 lies below the expected offset 2"):
        log.append_as_follower(stored(1, "x"))

    assert facts(world, log) == before


def test_follower_refuses_a_set_whose_offsets_fall() -> None:
    world = World()
    log = world.open()
    before = facts(world, log)

    with pytest.raises(OffsetOutOfRange, match=r"at 4 .* expected offset 7"):
        log.append_as_follower(stored(5, "a", "b") + stored(4, "x"))

    assert facts(world, log) == before


def test_follower_accepts_the_gaps_compaction_has_left() -> None:
    log = World().open()

    log.append_as_follower(stored(3, "a") + stored(10, "b"))
    log.append_as_follower(stored(100, "c"))

    assert offsets(all_records(log)) == [3, 10, 100]
    assert log.log_end_offset == 101


def test_follower_leaves_an_incomplete_last_batch_to_the_next_fetch() -> None:
    log = World().open()

    log.append_as_follower(stored(0, "a") + stored(1, "b")[:-1])

    assert log.log_end_offset == 1
    assert log.segments.active.size == ONE_BYTES


def test_follower_takes_an_empty_answer_for_what_it_is() -> None:
    world = World()
    log = world.open()
    before = facts(world, log)

    result = log.append_as_follower(b"")

    assert (result.first_offset, result.last_offset) == (0, -1)
    assert facts(world, log) == before


def test_follower_refuses_a_batch_that_was_damaged_on_the_way() -> None:
    world = World()
    log = world.open()
    before = facts(world, log)

    with pytest.raises(CorruptRecord, match="crc"):
        log.append_as_follower(stored(0, "a") + with_damage(stored(1, "b")))

    assert facts(world, log) == before


def test_batch_of_thousands_of_records_comes_back_whole() -> None:
    world = World()
    log = world.open()
    records = [(T0 + n, b"%d" % n, None if n % 7 == 0 else b"v", ()) for n in range(5000)]

    log.append_as_leader(build_batch(records, codec=Codec.LZ4), leader_epoch=0)
    reopened = killed(world).open()

    assert [(r.timestamp, r.key, r.value, r.headers) for r in all_records(reopened)] == records
    assert reopened.log_end_offset == 5000


def test_log_goes_on_once_a_full_disk_has_room_again() -> None:
    world = World()
    log = world.open()
    log.append_as_leader(batch(("a", "1")), leader_epoch=0)
    assert isinstance(world.fs, SimFilesystem)
    world.fs.fail_matching("pwrite", "*.log", errno.ENOSPC, torn=True)

    with pytest.raises(LogStorageError):
        log.append_as_leader(batch(("a", "2")), leader_epoch=0)
    result = log.append_as_leader(batch(("a", "3")), leader_epoch=0)

    assert result.first_offset == 1
    assert [record.value for record in all_records(world.open())] == [b"1", b"3"]


@pytest.mark.parametrize(
    ("operation", "files"),
    [
        ("pwrite", "*.timeindex"),
        ("create", "*.follows"),
        ("create", "*1.log"),
        ("truncate", "*1.log"),
        ("pwrite", "*.snapshot"),
    ],
)
def test_roll_is_made_anew_once_a_full_disk_has_room_again(operation: str, files: str) -> None:
    world = World()
    log = world.open()
    log.append_as_leader(batch(("a", "1")), leader_epoch=0)
    assert isinstance(world.fs, SimFilesystem)
    world.fs.fail_matching(operation, files, errno.ENOSPC, torn=operation == "pwrite")

    with pytest.raises(LogStorageError, match="No space left"):
        log.roll()
    assert log.failure is None
    log.append_as_leader(batch(("a", "2")), leader_epoch=0)
    log.roll()
    log.append_as_leader(batch(("a", "3")), leader_epoch=0)
    log.check_invariants()

    reopened = killed(world).open()
    assert [record.value for record in all_records(reopened)] == [b"1", b"2", b"3"]
    assert [each.base_offset for each in reopened.segments] == [0, 2]


def test_log_takes_no_writes_after_a_roll_whose_sync_failed() -> None:
    world = World()
    log = world.open()
    log.append_as_leader(batch(("a", "1")), leader_epoch=0)
    log.flush()
    assert isinstance(world.fs, SimFilesystem)
    world.fs.fail_matching("fsync", "*", errno.ENOSPC)

    with pytest.raises(LogStorageError, match="fsync failed"):
        log.roll()

    assert log.failure is not None


# -- where offsets end ----------------------------------------------------------------------------


def test_batch_for_which_no_offsets_are_left_is_refused_and_the_log_goes_on() -> None:
    world = World()
    log = world.open()
    log.append_as_follower(stored(INT64_MAX - 2, "a"))

    with pytest.raises(InvalidRecord, match="no offsets are left for 2 records"):
        append(log, ("b", "1"), ("c", "2"))
    last = append(log, ("d", "3"))
    with pytest.raises(InvalidRecord, match="no offsets are left"):
        append(log, ("e", "4"))

    assert last.last_offset == INT64_MAX - 1
    assert log.failure is None
    log.check_invariants()
    assert world.open().log_end_offset == log.log_end_offset == INT64_MAX


def test_follower_takes_no_record_with_the_last_offset_that_there_is() -> None:
    log = World().open()

    with pytest.raises(CorruptRecord, match="beyond the last offset"):
        log.append_as_follower(stored(INT64_MAX, "a"))

    assert (log.log_end_offset, log.failure) == (0, None)
