"""Opening a directory: what is believed, what is rebuilt, what is thrown away."""

import zlib

import pytest

from ledgerstone.errors import DamagedLog, UnsupportedForMessageFormat
from ledgerstone.fs import join
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.producer_snapshots import ProducerSnapshots
from tests.kit.logs import T0, World, all_records, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    append_txn,
    content_of,
    disk,
    end_txn,
    killed,
    names,
    put,
    replicate_all,
    stored,
)

SMALL = LogConfig(segment_bytes=3 * ONE_BYTES, index_interval_bytes=0)
DAY_MS = 86_400_000


# -- offsets --------------------------------------------------------------------------------------


def test_new_log_is_one_empty_segment_at_its_start() -> None:
    world = World()

    log = world.open(log_start_offset=42)

    assert log.segments.bases() == [42]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (42, 42, 42)
    assert names(world) == ["00000000000000000042.log"]
    log.check_invariants()


def test_log_is_the_same_after_a_clean_stop() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 8, leader_epoch=3)
    append_txn(log, 7, 0, leader_epoch=3)
    replicate_all(log)
    log.close()

    reopened = world.open(SMALL, clean=True, high_watermark=9)

    assert (reopened.log_start_offset, reopened.high_watermark) == (0, 9)
    assert reopened.log_end_offset == reopened.recovery_point == 9
    assert reopened.segments.bases() == log.segments.bases()
    assert reopened.producers.entries() == log.producers.entries()
    assert reopened.epochs.entries() == [(3, 0)]
    assert offsets(all_records(reopened)) == list(range(9))
    reopened.check_invariants()


@pytest.mark.parametrize(("remembered", "expected"), [(0, 2), (5, 5), (99, 8)])
def test_high_watermark_is_kept_between_the_log_start_and_the_end(
    remembered: int, expected: int
) -> None:
    world = World()
    append_ones(world.open(SMALL), 8)

    log = killed(world).open(SMALL, high_watermark=remembered, log_start_offset=2)

    assert log.high_watermark == expected


def test_log_that_ends_below_its_start_is_dropped_and_begins_there() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 8, leader_epoch=1)
    append_txn(log, 7, 0, leader_epoch=1)

    reopened = killed(world).open(SMALL, log_start_offset=20)

    assert reopened.segments.bases() == [20]
    assert (reopened.log_start_offset, reopened.log_end_offset) == (20, 20)
    assert reopened.producers.is_empty
    assert reopened.epochs.entries() == reopened.epoch_checkpoint.read() == []
    assert names(world, ".log") == ["00000000000000000020.log"]
    assert names(world, "index") == names(world, ".snapshot") == []
    assert append(reopened).first_offset == 20


def test_log_start_inside_a_segment_is_taken_from_the_checkpoint() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 8, leader_epoch=1)
    log.close()

    reopened = world.open(SMALL, clean=True, log_start_offset=4)

    assert reopened.log_start_offset == 4
    assert reopened.epochs.entries() == [(1, 4)]


def test_log_start_is_never_below_the_first_segment() -> None:
    world = World()
    append_ones(world.open(SMALL, log_start_offset=6), 2)

    assert killed(world).open(SMALL, log_start_offset=0).log_start_offset == 6


# -- indexes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_index_without_a_log_says_that_a_log_is_missing(clean: bool) -> None:
    """Differs from Kafka, which deletes it: a segment's log file is always removed last."""
    world = World()
    log = world.open(SMALL)
    append_ones(log, 2)
    log.close()
    for ending in ("index", "timeindex", "txnindex"):
        put(disk(world), join(world.directory, f"00000000000000000077.{ending}"), b"orphan")

    with pytest.raises(DamagedLog, match=r"00000000000000000077\.log .* is missing"):
        world.open(SMALL, clean=clean)

    assert len([name for name in names(world) if "077" in name]) == 3


@pytest.mark.parametrize("clean", [True, False])
def test_index_of_a_segment_being_deleted_goes_with_it(clean: bool) -> None:
    """Crash here: the log file is renamed first."""
    world = World()
    log = world.open(SMALL)
    append_ones(log, 2)
    log.close()
    for ending in ("index", "timeindex", "log.deleted"):
        put(disk(world), join(world.directory, f"00000000000000000077.{ending}"), b"orphan")

    world.open(SMALL, clean=clean)

    assert not [name for name in names(world) if "077" in name]


@pytest.mark.parametrize("clean", [True, False])
def test_missing_offset_index_is_rebuilt(clean: bool) -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 8)
    log.close()
    intact = {name: content_of(world, name) for name in names(world)}
    for name in names(world, ".index"):
        disk(world).unlink(join(world.directory, name))
        put(disk(world), join(world.directory, name.replace("index", "timeindex")), b"", 0)

    reopened = world.open(SMALL, clean=clean, recovery_point=8)

    assert names(world, ".index") == [name for name in sorted(intact) if name.endswith(".index")]
    for name in names(world, "index"):
        assert content_of(world, name) == intact[name], name
    assert offsets(all_records(reopened)) == list(range(8))


@pytest.mark.parametrize("clean", [True, False])
def test_damaged_txn_index_is_rebuilt_even_after_a_clean_stop(clean: bool) -> None:
    """A read_committed reader would take aborted records for good ones."""
    world = World()
    log = world.open(SMALL)
    append_txn(log, 7, 0)
    end_txn(log, 7, commit=False)
    append_ones(log, 5)
    log.close()
    name = "00000000000000000000.txnindex"
    intact = content_of(world, name)
    put(disk(world), join(world.directory, name), b"\xff" * 7, len(intact) - 3)

    world.open(SMALL, clean=clean, recovery_point=7)

    assert content_of(world, name) == intact


def test_records_without_timestamps_have_an_empty_time_index() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 8, timestamp=None)
    log.close()
    for name in names(world, "index"):
        disk(world).unlink(join(world.directory, name))

    world.open(SMALL)

    assert all(content_of(world, name) == b"" for name in names(world, ".timeindex"))
    assert len(content_of(world, "00000000000000000000.index")) == 16


def test_files_nobody_knows_are_left_alone() -> None:
    world = World()
    world.open().close()
    put(disk(world), join(world.directory, "partition.metadata"), b"x")
    put(disk(world), join(world.directory, "README"), b"x")

    world.open(clean=True)

    assert {"README", "partition.metadata"} <= set(names(world))


def test_log_of_an_old_message_format_is_refused_whole() -> None:
    world = World()
    disk(world).make_dir(world.directory)
    # Magic 0, its CRC, no key, value "v".
    entry = bytes.fromhex("0000000000000000 0000000f 95a7b5c4 00 00 ffffffff 00000001 76")
    body = entry[16:]
    entry = entry[:12] + zlib.crc32(body).to_bytes(4, "big") + body
    put(disk(world), join(world.directory, "00000000000000000000.log"), entry * 5)

    with pytest.raises(UnsupportedForMessageFormat, match="magic 0"):
        world.open()

    assert content_of(world, "00000000000000000000.log") == entry * 5


# -- producer snapshots ---------------------------------------------------------------------------


def test_snapshot_keeps_one_batch_of_a_producer_and_the_log_gives_back_the_others() -> None:
    world = World()
    log = world.open()
    for sequence in range(3):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.close()

    reopened = world.open(clean=True)

    entry = reopened.producers.last_entry(7)
    assert entry is not None
    assert reopened.producers.entries()[0].last_sequence == 2
    assert [batch.last_sequence for batch in entry.batches] == [0, 1, 2]
    assert append(reopened, producer_id=7, producer_epoch=0, base_sequence=1).duplicate


def test_open_transaction_is_known_again_and_a_finished_one_is_not_open() -> None:
    world = World()
    log = world.open()
    append_txn(log, 7, 0)
    append_txn(log, 8, 0)
    end_txn(log, 8, commit=True)
    log.close()

    reopened = world.open(clean=True, high_watermark=3)

    open_one, finished = (reopened.producers.last_entry(producer) for producer in (7, 8))
    assert open_one is not None
    assert finished is not None
    assert open_one.current_txn_first_offset == 0
    assert finished.current_txn_first_offset is None
    assert reopened.last_stable_offset == 0


@pytest.mark.parametrize("clean", [True, False])
def test_producers_idle_past_their_expiry_are_not_loaded_unless_a_transaction_is_open(
    clean: bool,
) -> None:
    world = World()
    log = world.open()
    append(log, producer_id=7, producer_epoch=0, base_sequence=0)
    append_txn(log, 8, 0)
    append(log, timestamp=T0 + 1, producer_id=9, producer_epoch=0, base_sequence=0)
    log.close()
    world.clock.advance(ms=DAY_MS)

    reopened = world.open(clean=clean)

    assert [entry.producer_id for entry in reopened.producers.entries()] == [8, 9]


@pytest.mark.parametrize(("base", "left"), [(5, [5, 42]), (42, [42])])
def test_snapshots_of_no_segment_go_except_the_newest_past_them_all(
    base: int, left: list[int]
) -> None:
    fs = disk(World())
    snapshots = ProducerSnapshots(fs, "/")
    for offset in (2, 5, 42):
        snapshots.take(offset, [])

    snapshots.remove_strays([base])

    assert snapshots.offsets == left
    assert len(fs.list_dir("/")) == len(left)


def test_stray_snapshots_are_removed_at_load_and_the_clean_one_at_the_end_is_kept() -> None:
    world = World()
    log = world.open(log_start_offset=5)
    append_ones(log, 37)
    log.snapshots.take(2, [])
    log.snapshots.take(5, [])
    log.close()

    reopened = world.open(clean=True)

    assert reopened.snapshots.offsets == [5, 42]
    assert names(world, ".snapshot") == [
        "00000000000000000005.snapshot",
        "00000000000000000042.snapshot",
    ]


@pytest.mark.parametrize("damage", ["empty", "half", "garbage"])
def test_damaged_snapshot_is_deleted_and_an_older_one_is_used(damage: str) -> None:
    world = World()
    log = world.open(SMALL)
    for sequence in range(5):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.close()
    path = join(world.directory, "00000000000000000005.snapshot")
    file = disk(world).open(path)
    intact = file.pread(1000, 0)
    content = {"empty": b"", "half": intact[:28], "garbage": b"\xa5" * 56}[damage]
    file.truncate(0)
    file.pwrite(content, 0)

    reopened = world.open(SMALL, clean=True)

    assert reopened.snapshots.offsets == [2 + 1]
    entry = reopened.producers.last_entry(7)
    assert entry is not None
    assert entry.last_sequence == 4


def test_log_without_any_snapshot_is_scanned_also_after_a_clean_stop() -> None:
    world = World()
    log = world.open(SMALL)
    for sequence in range(5):
        append(log, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.close()
    for name in names(world, ".snapshot"):
        disk(world).unlink(join(world.directory, name))

    reopened = world.open(SMALL, clean=True)

    entry = reopened.producers.last_entry(7)
    assert entry is not None
    assert (entry.last_sequence, entry.last_data_offset) == (4, 4)


# -- epochs ---------------------------------------------------------------------------------------


def test_epoch_that_begins_past_the_end_is_cut_at_load() -> None:
    world = World()
    log = world.open()
    append_ones(log, 3, leader_epoch=1)
    log.note_leader_epoch(2, 3)

    reopened = killed(world).open()

    assert reopened.epochs.entries() == reopened.epoch_checkpoint.read() == [(1, 0)]


def test_offsets_with_holes_survive_a_restart() -> None:
    world = World()
    log = world.open()
    log.append_as_follower(stored(3, "a") + stored(9, "b"))
    log.close()

    reopened = world.open(clean=True)

    assert offsets(all_records(reopened)) == [3, 9]
    assert append(reopened).first_offset == 10
