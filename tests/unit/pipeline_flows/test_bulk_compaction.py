"""Bulk compaction does what the broker's cleaner does, to directories that no broker has."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerstone.cleaner.history import decode_history, decode_runs
from ledgerstone.errors import LogDirLocked
from ledgerstone.pipeline.bulk_compaction import BulkCompaction, OfflineLogDir, _partitions
from ledgerstone.pipeline.bulk_compaction_pass import (
    PartitionOutcome,
    PartitionTask,
    compact_partition,
)
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.storage.checkpoints import OffsetCheckpoint, read_if_exists, write_atomically
from ledgerstone.storage.filenames import CLEANING_HISTORY, REMOVAL_MARKS
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.removal_marks import decode_marks, encode_marks
from ledgerstone.system import OsFilesystem
from ledgerstone.types import TopicPartition
from tests.kit.cleaning import clean
from tests.kit.logs import TP, World, all_records, batch
from tests.kit.scenario import disk

CONFIG = {"cleanup.policy": "compact", "delete.retention.ms": "1000", "index.interval.bytes": "200"}
DAY_MS = 86_400_000


def written(world: World) -> PartitionLog:
    """Keys written several times, some deleted, over several segments."""
    log = world.open(LogConfig.from_topic(CONFIG))
    for turn in range(6):
        for number in range(20):
            value = None if turn == 5 and number % 3 == 0 else f"value {turn}"
            log.append_as_leader(batch((f"key {number}", value)), leader_epoch=0)
        log.roll()
    log.advance_high_watermark(log.log_end_offset)
    return log


def task_of(world: World, **fields: object) -> PartitionTask:
    task = PartitionTask(directory=world.directory, topic_partition=TP, config=CONFIG)
    return replace(task, **fields)  # type: ignore[arg-type]


def run(world: World, **fields: object) -> PartitionOutcome:
    assert world.fs is not None
    return compact_partition(world.fs, world.clock, world.dice, task_of(world, **fields))


def segment_files(world: World) -> dict[str, bytes]:
    assert world.fs is not None
    return {
        name: read_if_exists(world.fs, f"{world.directory}/{name}") or b""
        for name in world.fs.list_dir(world.directory)
        if name.endswith((".log", ".index", ".timeindex", ".txnindex"))
    }


@pytest.mark.parametrize("wait_ms", [0, DAY_MS])
def test_files_are_those_of_the_brokers_cleaner(wait_ms: int) -> None:
    ours, brokers = World(), World()
    written(ours).close()
    log = written(brokers)

    run(ours)
    clean(log)
    for world in (ours, brokers):
        world.clock.advance(ms=wait_ms)
    run(ours)
    clean(log)
    log.close()
    brokers.clock.advance(ms=DAY_MS)
    log.deleted_files.unlink_due(brokers.clock.now_ms())

    assert segment_files(ours) == segment_files(brokers)


def test_a_map_too_small_for_everything_takes_several_passes() -> None:
    small, large = World(), World()
    written(small).close()
    written(large).close()

    outcome = run(small, dedupe_buffer_bytes=24 * 12)
    run(large)

    assert outcome.passes > 1
    records = [all_records(world.open(clean=True)) for world in (small, large)]
    assert records[0] == records[1]


def test_replaced_files_are_gone_and_the_history_tells_of_the_pass() -> None:
    world = World()
    written(world).close()

    outcome = run(world)

    assert world.fs is not None
    names = world.fs.list_dir(world.directory)
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".swap"))]
    history = read_if_exists(world.fs, f"{world.directory}/cleaning-history.json")
    assert [each.reason for each in decode_runs(history or b"")] == ["bulk compaction"]
    assert outcome.first_dirty_offset == 120
    assert outcome.records_before == 120
    assert outcome.records_after == 20
    assert outcome.bytes_after < outcome.bytes_before


def test_tombstones_stay_where_they_are_to_be_kept() -> None:
    world = World()
    written(world).close()
    run(world)
    world.clock.advance(ms=DAY_MS)

    kept = run(world, keep_tombstones=True)
    dropped = run(world)
    history = read_if_exists(disk(world), f"{world.directory}/cleaning-history.json")

    assert kept.tombstones_removed == 0
    assert dropped.tombstones_removed == 7
    # Whoever has not read them yet can find out.
    assert decode_history(history or b"")[1].removed_below_offset == 119


def test_an_open_high_watermark_bounds_what_is_cleaned() -> None:
    world = World()
    written(world).close()

    outcome = run(world, high_watermark=60)

    assert outcome.records_after == 20
    assert outcome.first_dirty_offset == 60


def test_a_second_try_beside_the_first_is_refused() -> None:
    world = World()
    written(world).close()
    assert isinstance(world.fs, SimFilesystem)
    world.fs.lock("/data/.topic-0.compacting")

    with pytest.raises(LogDirLocked):
        run(world)


def test_a_directory_gets_its_checkpoints_and_its_clean_mark_back(tmp_path: Path) -> None:
    fs = OsFilesystem()
    tp = TopicPartition("topic", 0)
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    log_dir = OfflineLogDir(fs, str(tmp_path))
    outcome = PartitionOutcome(
        topic_partition=tp, directory=f"{tmp_path}/topic-0", first_dirty_offset=5, log_end_offset=9
    )

    log_dir.begin()
    was_marked = (tmp_path / ".kafka_cleanshutdown").exists()
    log_dir.finish([outcome])
    log_dir.release()

    assert not was_marked
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":7}'
    first_dirty = OffsetCheckpoint(fs, f"{tmp_path}/cleaner-offset-checkpoint").read()
    recovery = OffsetCheckpoint(fs, f"{tmp_path}/recovery-point-offset-checkpoint").read()
    assert (first_dirty, recovery) == ({tp: 5}, {tp: 9})


def test_a_failed_partition_keeps_the_clean_mark_away(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    log_dir = OfflineLogDir(OsFilesystem(), str(tmp_path))
    failed = PartitionOutcome(
        topic_partition=TP, directory=f"{tmp_path}/topic-0", failure="the disk is full"
    )

    log_dir.begin()
    log_dir.finish([failed])
    log_dir.release()

    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    holder = OsFilesystem().lock(str(tmp_path / ".lock"))

    with pytest.raises(LogDirLocked):
        OfflineLogDir(OsFilesystem(), str(tmp_path))

    holder.release()


def test_only_named_topics_and_single_partitions_are_cleaned(tmp_path: Path) -> None:
    for name in ("users-0", "users-1", "orders-0", "users-0.abc-delete"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").touch()

    by_topic = _partitions(BulkCompaction(paths=[str(tmp_path)], topics=["users"]))
    single = _partitions(BulkCompaction(paths=[str(tmp_path / "orders-0")]))

    assert [tp for each in by_topic.values() for tp in each] == [("users", 0), ("users", 1)]
    assert single == {str(tmp_path): {TopicPartition("orders", 0): str(tmp_path / "orders-0")}}


def test_nothing_is_cleaned_that_was_not_named(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "__cluster_metadata-0").mkdir()

    with pytest.raises(PipelineError, match="name compacted topics"):
        _partitions(BulkCompaction(paths=[str(tmp_path)]))
    with pytest.raises(PipelineError, match="never compacted"):
        _partitions(BulkCompaction(paths=[str(tmp_path)], topics=["__cluster_metadata"]))


def test_tasks_and_reports_travel_between_driver_and_executors() -> None:
    task = task_of(World(), first_dirty_offset=7)
    outcome = PartitionOutcome(topic_partition=TP, directory="/d", failure="no")

    back = pickle.loads(pickle.dumps((task, outcome)))

    assert back == (task, outcome)


@pytest.mark.parametrize("power_is_lost", [False, True])
def test_a_task_that_died_anywhere_is_done_by_its_second_try(power_is_lost: bool) -> None:
    world = World()
    written(world).close()
    prepared = disk(world)
    for directory in ("/", "/data", world.directory):
        prepared.fsync_dir(directory)
    whole = World(clock=world.clock, fs=prepared.clone())
    run(whole)
    expected = all_records(whole.open(clean=True))
    crashes, point = 0, 1

    while True:
        fs = prepared.clone()
        broken = World(clock=world.clock, fs=fs)
        fs.crash_at(fs.operation_count + point)
        try:
            run(broken, clean=True)
            break
        except SimulatedCrash:
            crashes += 1
        if power_is_lost:
            fs.power_loss("random")
        else:
            fs.kill()
        outcome = run(broken)

        assert outcome.failure == ""
        assert all_records(broken.open(clean=True)) == expected, point
        point += 2

    assert crashes > 20


def with_tombstones_due(world: World) -> SimFilesystem:
    """A replica of several whose next pass removes tombstones."""
    written(world).close()
    prepared = disk(world)
    write_atomically(prepared, f"{world.directory}/{REMOVAL_MARKS}", encode_marks(3))
    for directory in ("/", "/data", world.directory):
        prepared.fsync_dir(directory)
    run(world)
    world.clock.advance(ms=DAY_MS)
    return prepared


def removed_as_noted(world: World) -> tuple[int | None, int]:
    """By the cleaning history, and by the marks for other replicas."""
    assert world.fs is not None
    history = read_if_exists(world.fs, f"{world.directory}/{CLEANING_HISTORY}")
    marks = read_if_exists(world.fs, f"{world.directory}/{REMOVAL_MARKS}")
    _, ledger = decode_history(history or b"")
    return ledger.removed_below_offset, decode_marks(marks or b"", REMOVAL_MARKS)


def test_other_replicas_are_told_which_tombstones_are_gone() -> None:
    """One that has the value, and not the delete, has to copy the log anew."""
    world = World()
    with_tombstones_due(world)

    assert removed_as_noted(world) == (None, 3)
    outcome = run(world)

    assert outcome.tombstones_removed == 7
    assert removed_as_noted(world) == (119, 119)


@pytest.mark.parametrize("power_is_lost", [False, True])
def test_removed_tombstones_are_noted_whenever_a_task_dies(power_is_lost: bool) -> None:
    """What the next try does not find any more it cannot note."""
    world = World()
    prepared = with_tombstones_due(world)
    crashes, point = 0, 1

    while True:
        fs = prepared.clone()
        broken = World(clock=world.clock, fs=fs)
        fs.crash_at(fs.operation_count + point)
        try:
            run(broken, clean=True)
            break
        except SimulatedCrash:
            crashes += 1
        if power_is_lost:
            fs.power_loss("random")
        else:
            fs.kill()
        run(broken)
        assert removed_as_noted(broken) == (119, 119), point
        point += 1

    assert crashes > 20
