"""A log directory: whose it is, who holds it, what it remembers, how partitions come and go."""

import errno
from dataclasses import dataclass, field

import pytest

from ledgerstone.errors import (
    CorruptFile,
    InconsistentTopicId,
    LogDirLocked,
    LogStorageError,
    StorageError,
)
from ledgerstone.fs import join
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import DIRECTORIES_AT_ONCE, LogDir, open_log_dir
from ledgerstone.storage.log_shrink import delete_old_segments
from ledgerstone.types import TopicPartition
from tests.kit.logs import T0, all_records, offsets, unlink_due
from tests.kit.scenario import ONE_BYTES, append, append_ones, put, replicate_all

PATH = "/data"
A, B = TopicPartition("a", 0), TopicPartition("with-dash", 12)
SMALL = LogConfig(segment_bytes=3 * ONE_BYTES)
ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


@dataclass(slots=True)
class Machine:
    """What stays when a broker stops: a disk, a clock, and dice."""

    clock: VirtualClock = field(default_factory=lambda: VirtualClock(start_ms=T0))
    dice: SeededDice = field(default_factory=lambda: SeededDice(1))
    fs: SimFilesystem = field(init=False)

    def __post_init__(self) -> None:
        self.fs = SimFilesystem(dice=self.dice, clock=self.clock)

    def take(
        self, node_id: int = 1, cluster_id: str | None = None, boot_id: str | None = None
    ) -> LogDir:
        return open_log_dir(
            self.fs,
            self.clock,
            self.dice,
            PATH,
            node_id=node_id,
            cluster_id=cluster_id,
            boot_id=boot_id,
        )

    def start(self, boot_id: str | None = None) -> LogDir:
        log_dir = self.take(boot_id=boot_id)
        for _ in log_dir.load(lambda _: SMALL):
            pass
        return log_dir

    def names(self) -> list[str]:
        return self.fs.list_dir(PATH)

    def text_of(self, name: str) -> str:
        return self.fs.files()[join(PATH, name)].decode()


def stopped(machine: Machine, *partitions: TopicPartition, records: int = 5) -> None:
    """A first life: some partitions with records, then a clean stop."""
    log_dir = machine.start()
    for topic_partition in partitions:
        append_ones(log_dir.create(topic_partition, SMALL), records)
    log_dir.close()


# -- whose it is ----------------------------------------------------------------------------------


def test_directory_can_be_held_by_one_only() -> None:
    machine = Machine()
    first = machine.take()

    with pytest.raises(LogDirLocked):
        machine.take()
    first.close()

    machine.take().close()


def test_lock_is_free_after_a_start_that_was_refused() -> None:
    machine = Machine()
    machine.take(node_id=1).close()

    for _ in range(2):
        with pytest.raises(StorageError, match="belongs to node 1, not 2"):
            machine.take(node_id=2)

    machine.take(node_id=1).close()


def test_identity_is_drawn_once_and_kept() -> None:
    machine = Machine()
    first = machine.take()
    first.close()

    again = machine.take()

    assert again.meta == first.meta
    assert again.meta.node_id == 1
    assert again.meta.directory_id is not None


def test_directory_of_another_cluster_is_refused() -> None:
    machine = Machine()
    machine.take(cluster_id="one").close()

    with pytest.raises(StorageError, match="belongs to cluster one, not two"):
        machine.take(cluster_id="two")


def test_broken_identity_is_refused_and_not_replaced() -> None:
    machine = Machine()
    machine.fs.make_dir(PATH)
    put(machine.fs, join(PATH, "meta.properties"), b"version=7\n")

    with pytest.raises(CorruptFile, match="version '7'"):
        machine.take()

    assert machine.text_of("meta.properties") == "version=7\n"


@pytest.mark.parametrize("name", ["lost+found", "topic", "topic-x", "a-0.123-delete"])
def test_directory_that_is_no_partition_stops_the_start(name: str) -> None:
    machine = Machine()
    machine.fs.make_dir(join(PATH, name))
    log_dir = machine.take()

    with pytest.raises(StorageError, match="is not a partition's directory"):
        list(log_dir.load(lambda _: SMALL))


def test_files_and_the_cache_of_tiered_storage_are_passed_over() -> None:
    machine = Machine()
    machine.fs.make_dir(join(PATH, "remote-log-index-cache"))
    put(machine.fs, join(PATH, "bootstrap.checkpoint"), b"x")

    assert machine.start().logs == {}


# -- start and stop -------------------------------------------------------------------------------


def test_partitions_come_back_after_a_clean_stop_without_recovery() -> None:
    machine = Machine()
    stopped(machine, A, B)

    log_dir = machine.start()

    assert sorted(log_dir.logs) == [A, B]
    assert offsets(all_records(log_dir.logs[B])) == [0, 1, 2, 3, 4]
    assert all(recovery.segments_scanned == 0 for recovery in log_dir.recoveries.values())
    assert log_dir.logs[A].recovery_point == 5


def test_marker_is_there_only_between_a_clean_stop_and_the_next_start() -> None:
    machine = Machine()
    stopped(machine, A)
    while_stopped = CLEAN_SHUTDOWN_FILE in machine.names()
    text = machine.text_of(CLEAN_SHUTDOWN_FILE)

    log_dir = machine.take()
    while_running = CLEAN_SHUTDOWN_FILE in machine.names()
    list(log_dir.load(lambda _: SMALL))
    log_dir.close(broker_epoch=9)

    assert while_stopped
    assert not while_running
    assert text == '{"version":0,"brokerEpoch":-1}'
    assert machine.text_of(CLEAN_SHUTDOWN_FILE) == '{"version":0,"brokerEpoch":9}'


def test_crash_while_running_is_followed_by_recovery() -> None:
    machine = Machine()
    log_dir = machine.start()
    append_ones(log_dir.create(A, SMALL), 5)
    machine.fs.kill()

    again = machine.start()

    assert again.recoveries[A].segments_scanned == 2
    assert offsets(all_records(again.logs[A])) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("loaded", [0, 1])
def test_crash_while_loading_is_followed_by_recovery(loaded: int) -> None:
    machine = Machine()
    stopped(machine, A, B)
    log_dir = machine.take()
    loading = log_dir.load(lambda _: SMALL)
    for _ in range(loaded):
        next(loading)
    machine.fs.power_loss("all")

    again = machine.start()

    assert not again.remembered.clean
    assert all(recovery.segments_scanned > 0 for recovery in again.recoveries.values())
    assert offsets(all_records(again.logs[B])) == [0, 1, 2, 3, 4]


def test_marker_does_not_survive_a_crash_right_after_it_was_noticed() -> None:
    machine = Machine()
    stopped(machine, A)
    machine.take()

    machine.fs.power_loss("none")

    assert CLEAN_SHUTDOWN_FILE not in machine.names()


def test_stop_before_everything_was_loaded_is_not_clean_after_an_unclean_one() -> None:
    machine = Machine()
    log_dir = machine.start()
    for topic_partition in (A, B):
        append_ones(log_dir.create(topic_partition, SMALL), 5)
    machine.fs.kill()
    # A torn batch that only recovery takes away.
    put(machine.fs, join(PATH, "with-dash-12/00000000000000000003.log"), b"\xff" * 40, 140)
    half = machine.take()
    next(half.load(lambda _: SMALL))
    half.close()

    again = machine.start()

    assert not again.remembered.clean
    assert offsets(all_records(again.logs[B])) == [0, 1, 2, 3, 4]


def test_stop_before_everything_was_loaded_forgets_nothing() -> None:
    machine = Machine()
    log_dir = machine.start()
    for topic_partition in (A, B):
        log = log_dir.create(topic_partition, SMALL)
        append_ones(log, 5)
        replicate_all(log)
        log.raise_log_start_offset(2)
    log_dir.close()
    half = machine.take()
    next(half.load(lambda _: SMALL))
    half.close()

    again = machine.start()

    assert again.remembered.clean
    assert [log.log_start_offset for log in again.logs.values()] == [2, 2]
    assert [log.high_watermark for log in again.logs.values()] == [5, 5]


def test_failed_log_leaves_no_clean_marker() -> None:
    machine = Machine()
    log_dir = machine.start()
    log_dir.create(A, SMALL).fail("disk on fire")

    log_dir.close()

    assert CLEAN_SHUTDOWN_FILE not in machine.names()


# -- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints_are_kafkas_text_files() -> None:
    machine = Machine()
    log_dir = machine.start()
    log = log_dir.create(B, SMALL)
    append_ones(log_dir.create(A, SMALL), 2)
    append_ones(log, 5)
    log.flush(3)
    log.advance_high_watermark(4)
    log.raise_log_start_offset(1)

    log_dir.checkpoint()

    assert machine.text_of(RECOVERY_POINT_CHECKPOINT) == "0\n2\na 0 0\nwith-dash 12 3\n"
    assert machine.text_of(HIGH_WATERMARK_CHECKPOINT) == "0\n2\na 0 0\nwith-dash 12 4\n"
    assert machine.text_of(LOG_START_OFFSET_CHECKPOINT) == "0\n1\nwith-dash 12 1\n"


def test_log_start_that_a_file_name_tells_is_not_checkpointed() -> None:
    machine = Machine()
    log_dir = machine.start()
    log = log_dir.create(A, SMALL)
    append_ones(log, 5)
    replicate_all(log)
    log.raise_log_start_offset(3)
    delete_old_segments(log)

    log_dir.checkpoint()

    assert log.segments.bases() == [3]
    assert machine.text_of(LOG_START_OFFSET_CHECKPOINT) == "0\n0\n"


def test_start_offset_and_high_watermark_are_remembered_over_a_crash() -> None:
    machine = Machine()
    log_dir = machine.start()
    log = log_dir.create(A, SMALL)
    append_ones(log, 5)
    log.advance_high_watermark(4)
    log.raise_log_start_offset(2)
    log_dir.checkpoint()
    machine.fs.kill()

    again = machine.start().logs[A]

    assert (again.log_start_offset, again.high_watermark, again.log_end_offset) == (2, 4, 5)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"7\n0\n", b"0\n5\na 0 3\n", b"0\n1\na 0 -3\n"])
def test_broken_checkpoints_are_read_as_if_nothing_were_known(content: bytes) -> None:
    machine = Machine()
    stopped(machine, A)
    for name in (
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        HIGH_WATERMARK_CHECKPOINT,
        CLEAN_SHUTDOWN_FILE,
    ):
        machine.fs.unlink(join(PATH, name))
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        put(machine.fs, join(PATH, name), content)

    log_dir = machine.start()

    log = log_dir.logs[A]
    assert log_dir.recoveries[A].segments_scanned == 2
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 5)


# -- topic ids ------------------------------------------------------------------------------------


def test_topic_id_is_on_disk_before_the_first_record() -> None:
    machine = Machine()
    log_dir = machine.start()

    log = log_dir.create(A, SMALL, topic_id=ID)
    machine.fs.power_loss("none")

    assert log.log_end_offset == 0
    text = machine.text_of("a-0/partition.metadata")
    assert text == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


def test_partition_of_another_topic_of_the_same_name_is_refused() -> None:
    machine = Machine()
    log_dir = machine.start()
    append_ones(log_dir.create(A, SMALL, topic_id=ID), 2)
    log_dir.close()
    again = machine.take()

    with pytest.raises(InconsistentTopicId, match="AAECAwQFBgcICQoLDA0ODw"):
        again.create(A, SMALL, topic_id=OTHER_ID)

    assert A not in again.logs
    assert again.create(A, SMALL, topic_id=ID).log_end_offset == 2


def test_partition_is_opened_once() -> None:
    log_dir = Machine().start()
    log_dir.create(A, SMALL)

    with pytest.raises(StorageError, match="a-0 is already open"):
        log_dir.create(A, SMALL)


def test_partitions_share_the_memory_to_decompress_into() -> None:
    machine = Machine()
    stopped(machine, A)

    log_dir = machine.start()
    new = log_dir.create(B, SMALL)

    assert log_dir.logs[A].codecs is new.codecs is log_dir.codecs


def test_new_partition_survives_power_loss() -> None:
    machine = Machine()
    log_dir = machine.start()
    append(log_dir.create(A, LogConfig(flush_messages=1)))
    log_dir.checkpoint()

    machine.fs.power_loss("none")

    assert offsets(all_records(machine.start().logs[A])) == [0]


def test_power_loss_is_remembered_until_logs_are_opened() -> None:
    """A node of a cluster opens them once it has the metadata, perhaps not before it is killed."""
    machine = Machine()
    log_dir = machine.start(boot_id="first")
    append_ones(log_dir.create(A, SMALL), 5)
    log_dir.logs[A].advance_high_watermark(5)
    log_dir.checkpoint()
    machine.fs.power_loss("none")

    machine.take(boot_id="second")
    machine.fs.kill()
    opened = machine.start(boot_id="second")
    assert not opened.refused
    machine.fs.kill()

    assert not machine.start(boot_id="second").refused


def test_kill_in_the_middle_of_a_new_beginning_is_no_damage() -> None:
    """Of a replica that is copied again. Its high watermark falls before its files go."""
    machine = Machine()
    log_dir = machine.start(boot_id="boot")
    append_ones(log_dir.create(A, SMALL), 5)
    log_dir.logs[A].advance_high_watermark(5)
    log_dir.checkpoint()
    machine.fs.crash_matching("create", "*00.log")

    with pytest.raises(SimulatedCrash):
        log_dir.truncate_fully_and_start_at(A, 0)
    machine.fs.kill()

    assert not machine.start(boot_id="boot").refused


@pytest.mark.parametrize("checkpoint", ["recovery-point-offset", "replication-offset"])
def test_kill_in_a_truncation_that_was_refused_at_first_is_no_damage(checkpoint: str) -> None:
    machine = Machine()
    log_dir = machine.start(boot_id="boot")
    log = log_dir.create(A, SMALL)
    append_ones(log, 5)
    log.flush()
    log.advance_high_watermark(5)
    log_dir.checkpoint()
    machine.fs.fail_matching("create", f"*{checkpoint}-checkpoint*", errno.ENOSPC, times=1)
    with pytest.raises(LogStorageError, match="not started"):
        log_dir.truncate_to(A, 1)
    machine.fs.crash_matching("fsync", "*.log")

    with pytest.raises(SimulatedCrash):
        log_dir.truncate_to(A, 1)
    machine.fs.kill()

    assert not machine.start(boot_id="boot").refused


# -- deletion -------------------------------------------------------------------------------------


def test_deleted_partition_is_renamed_aside_and_unlinked_after_the_delay() -> None:
    machine = Machine()
    log_dir = machine.start()
    append_ones(log_dir.create(A, SMALL), 5)

    log_dir.delete(A)
    aside = [name for name in machine.names() if name.startswith("a-0")]
    machine.clock.advance(ms=SMALL.file_delete_delay_ms - 1)
    unlink_due(log_dir)
    still = [name for name in machine.names() if name.startswith("a-0")]
    machine.clock.advance(ms=1)
    gone = unlink_due(log_dir)

    assert len(aside) == 1
    assert aside[0].endswith("-delete")
    assert len(aside[0]) == len("a-0.") + 32 + len("-delete")
    assert still == aside
    assert gone == 1
    assert not [name for name in machine.names() if name.startswith("a-0")]
    assert A not in log_dir.logs


def test_deleted_directories_found_at_start_are_removed() -> None:
    machine = Machine()
    log_dir = machine.start()
    append_ones(log_dir.create(A, SMALL), 5)
    log_dir.delete(A)
    machine.fs.kill()

    again = machine.start()
    unlink_due(again)

    assert again.logs == {}
    assert not [name for name in machine.names() if name.startswith("a-0")]


def test_name_that_comes_back_inherits_nothing() -> None:
    machine = Machine()
    log_dir = machine.start()
    log = log_dir.create(A, SMALL, topic_id=ID)
    append_ones(log, 5)
    replicate_all(log)
    log.raise_log_start_offset(2)
    log_dir.close()
    log_dir = machine.start()

    log_dir.delete(A)
    new = log_dir.create(A, SMALL, topic_id=OTHER_ID)

    assert (new.log_start_offset, new.high_watermark, new.log_end_offset) == (0, 0, 0)
    assert machine.text_of(RECOVERY_POINT_CHECKPOINT) == "0\n0\n"


@pytest.mark.parametrize("state", ["future", "stray"])
def test_copies_and_strays_are_left_alone(state: str) -> None:
    machine = Machine()
    name = f"a-0.{'0' * 32}-{state}"
    machine.fs.make_dir(join(PATH, name))

    log_dir = machine.start()
    unlink_due(log_dir)

    assert log_dir.logs == {}
    assert name in machine.names()


def test_crash_in_the_middle_of_a_stop_is_not_a_clean_stop() -> None:
    machine = Machine()
    log_dir = machine.start()
    append_ones(log_dir.create(A, SMALL), 5)
    machine.fs.crash_at(machine.fs.operation_count + 6)

    with pytest.raises(SimulatedCrash):
        log_dir.close()
    machine.fs.power_loss("all")

    again = machine.start()
    assert not again.remembered.clean
    assert offsets(all_records(again.logs[A])) == [0, 1, 2, 3, 4]


def test_deleted_directories_are_removed_some_at_a_time_until_none_is_left() -> None:
    machine = Machine()
    log_dir = machine.start()
    doomed = [TopicPartition("many", number) for number in range(2 * DIRECTORIES_AT_ONCE + 1)]
    for topic_partition in doomed:
        log_dir.create(topic_partition, SMALL)
    refused = log_dir.delete_all(doomed)
    machine.clock.advance(ms=SMALL.file_delete_delay_ms)

    removed = [unlink_due(log_dir) for _ in range(4)]

    assert refused == []
    assert removed == [DIRECTORIES_AT_ONCE, DIRECTORIES_AT_ONCE, 1, 0]
    assert not any(name.startswith("many") for name in machine.names())


def test_partitions_deleted_together_are_forgotten_together() -> None:
    machine = Machine()
    log_dir = machine.start()
    for topic_partition in (A, B):
        append_ones(log_dir.create(topic_partition, SMALL), 2)
    log_dir.checkpoint()

    log_dir.delete_all([A, B])

    assert "with-dash" not in machine.text_of(RECOVERY_POINT_CHECKPOINT)
    assert log_dir.logs == {}
    assert len(log_dir.doomed) == 2
