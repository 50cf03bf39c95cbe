"""What happens by the clock: retention, flushing, checkpoints, removal of deleted files."""

import errno

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.server.effects import Flush
from ledgerstone.server.http.monitor import readiness
from ledgerstone.server.results import Done, Failed
from ledgerstone.storage.log import FlushPlan, PartitionLog
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    fetched,
    produced,
    values_in,
    write,
)

TP = TopicPartition(TOPIC, 0)


def files_of(machine: InProcess, part: str) -> list[str]:
    return [path for path in machine.fs.files() if part in path]


def test_segments_past_retention_go_with_the_next_run(machine: InProcess, client: Client) -> None:
    create_topic(client, retention_ms="3600000", segment_ms="60000")
    write(client, "old")
    machine.clock.advance(minutes=59)
    produced(client, batch(("key", "new"), timestamp=machine.clock.now_ms()))

    machine.tick()
    before = fetched(client).error_code
    machine.clock.advance(minutes=6)
    fetched(client)
    machine.tick()

    assert before == ErrorCode.NONE
    assert machine.broker.partitions.get(TP).log.log_start_offset == 1
    assert values_in(fetched(client, fetch({0: 1}))) == ["new"]


def test_files_of_removed_segments_do_not_wait_for_a_clock_that_was_set_back(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, retention_ms="1", segment_ms="1", file_delete_delay_ms="60000")
    write(client, "old")
    machine.advance(40_000)
    machine.clock.set_wall_ms(machine.clock.now_ms() - 1_800_000)

    deleted = files_of(machine, ".deleted")
    machine.advance(62_000)

    assert deleted
    assert files_of(machine, ".deleted") == []


def test_directories_of_deleted_topics_do_not_wait_for_a_clock_that_was_set_back(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, file_delete_delay_ms="60000")
    write(client, "old")
    assert delete_topic(client) == ErrorCode.NONE
    machine.clock.set_wall_ms(machine.clock.now_ms() - 1_800_000)

    deleted = files_of(machine, "-delete")
    machine.advance(62_000)

    assert deleted
    assert files_of(machine, "-delete") == []


def test_retention_does_not_run_before_its_time(machine: InProcess, client: Client) -> None:
    create_topic(client, retention_ms="1", segment_ms="1")
    produced(client, batch(("key", "old")))
    machine.advance(10)
    produced(client, batch(("key", "new")))

    machine.advance(29_000)
    early = machine.broker.partitions.get(TP).log.log_start_offset
    machine.advance(2_000)
    late = machine.broker.partitions.get(TP).log.log_start_offset

    assert early == 0
    assert late == 2


def test_retention_goes_on_where_a_full_disk_has_no_room_for_one_log(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, retention_ms="3600000")
    create_topic(client, "other", retention_ms="3600000")
    write(client, "old")
    machine.broker.partitions.get(TP).log.roll()
    write(client, "old")
    write(client, "old", topic="other")
    machine.fs.fail_matching("create", "/data/events-0/*", errno.ENOSPC, times=None)

    machine.jump(days=1)
    starts = [each.log.log_start_offset for each in machine.broker.partitions]
    machine.advance(310_000)
    machine.fs.clear_faults()
    machine.advance(310_000)

    assert starts == [1, 1], "the sealed segment of the first, and all of the other"
    assert machine.broker.partitions.get(TP).log.log_start_offset == 2


def test_files_of_removed_segments_stay_for_the_delete_delay(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, retention_ms="1", segment_ms="1", file_delete_delay_ms="60000")
    write(client, "old")
    machine.advance(40_000)

    deleted = files_of(machine, ".deleted")
    machine.advance(61_000)

    assert deleted != []
    assert files_of(machine, ".deleted") == []


def test_directory_of_a_deleted_topic_is_removed_after_its_delay(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, file_delete_delay_ms="5000")
    write(client, "value")
    delete_topic(client)

    aside = files_of(machine, "-delete/")
    machine.advance(4_000)
    still = files_of(machine, "-delete/")
    machine.advance(2_000)

    assert aside == still != []
    assert files_of(machine, TOPIC) == []


def test_reader_of_a_deleted_topic_can_finish_what_it_was_given(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, file_delete_delay_ms="0")
    write(client, "value")
    effects = machine.broker.receive(
        client.number, memoryview(bytearray(client.frame(fetch(), 12)[1]))
    )

    other = machine.connect()
    delete_topic(other)
    machine.advance(5_000)
    machine.perform(effects)

    assert files_of(machine, TOPIC) == []
    assert len(client.answers) == 1


def test_rolled_segment_is_flushed_within_a_second(machine: InProcess, client: Client) -> None:
    create_topic(client, segment_ms="1")
    write(client, "a")
    machine.advance(10)
    produced(client, batch(("key", "b"), timestamp=machine.clock.now_ms()))
    log = machine.broker.partitions.get(TP).log

    before = log.recovery_point
    machine.advance(1_000)

    assert (before, log.recovery_point) == (0, 1)


def test_flush_ms_bounds_what_power_loss_can_take(machine: InProcess, client: Client) -> None:
    create_topic(client, flush_ms="5000")
    write(client, "a", "b")

    machine.advance(6_000)
    machine.lose_power("none")

    assert values_in(fetched(machine.connect())) == ["a", "b"]


def test_flush_ms_goes_on_when_the_clock_is_set_back(machine: InProcess, client: Client) -> None:
    create_topic(client, flush_ms="5000")
    write(client, "a")
    machine.advance(6_000)
    machine.clock.set_wall_ms(machine.clock.now_ms() - 1_800_000)
    write(client, "b")

    machine.advance(6_000)
    machine.lose_power("none")

    assert values_in(fetched(machine.connect())) == ["a", "b"]


def test_one_flush_of_a_partition_is_under_way_at_a_time(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, flush_ms="1000")
    machine.held_flushes = []
    write(client, "a")

    machine.advance(5_000)
    held = list(machine.held_flushes)
    write(client, "b")
    machine.flush(held[0])
    machine.advance(5_000)

    assert [effect.plan.up_to for effect in held] == [1]
    assert [effect.plan.up_to for effect in machine.held_flushes] == [1, 2]


def test_flush_that_ends_after_its_topic_was_made_anew_says_nothing_about_the_new_one(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, flush_ms="1000")
    machine.held_flushes = []
    write(client, "a", "b", "c")
    machine.advance(2_000)
    (late,) = machine.held_flushes

    delete_topic(client)
    create_topic(client)
    write(client, "new")
    machine.report(late, Done())

    log = machine.broker.partitions.get(TP).log
    assert isinstance(late, Flush)
    assert log.recovery_point == 0
    machine.check_invariants()


def test_failed_flush_of_a_topic_that_is_gone_harms_nobody(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, flush_ms="1000")
    machine.held_flushes = []
    write(client, "a")
    machine.advance(2_000)
    (late,) = machine.held_flushes

    delete_topic(client)
    create_topic(client)
    machine.report(late, Failed(OSError(errno.EIO, "gone")))

    assert write(client, "new") == [0]


def test_failed_flush_ends_the_writing_and_not_the_reading(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, flush_ms="1000")
    write(client, "a")
    machine.fs.fail_matching("fsync", "*/events-0/*.log", errno.EIO)

    machine.advance(2_000)
    refused = produced(client, batch(("key", "b")))

    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values_in(fetched(client)) == ["a"]
    assert readiness(machine.broker).status == 503


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_checkpoints_are_written_by_the_clock(
    machine: InProcess, client: Client, name: str
) -> None:
    create_topic(client, flush_ms="1000")
    write(client, "a", "b")

    machine.advance(95_000)

    text = machine.fs.files()[f"/data/{name}"].decode()
    assert f"{TOPIC} 0 2" in text


def test_checkpoint_that_the_disk_refuses_does_not_stop_the_clock(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    write(client, "a")
    machine.fs.fail_matching("pwrite", "*checkpoint*", errno.ENOSPC, times=None)

    machine.advance(120_000)
    machine.fs.clear_faults()
    machine.advance(60_000)

    assert f"{TOPIC} 0 1" in machine.fs.files()["/data/replication-offset-checkpoint"].decode()
    assert write(client, "b") == [1]


def test_silent_producer_is_forgotten(machine: InProcess, client: Client) -> None:
    create_topic(client)
    produced(client, batch(("key", "v"), producer_id=7, producer_epoch=0, base_sequence=0))
    log = machine.broker.partitions.get(TP).log
    known = len(list(log.producers.entries()))

    machine.jump(days=2)

    assert known == 1
    assert list(log.producers.entries()) == []
    assert end_offset(machine) == 1


# -- unlinking -----------------------------------------------------------------------------------


def unlinks(machine: InProcess) -> list[str]:
    """Of files and directories that were set aside."""
    gone = [each for each in machine.fs.trace if each.startswith(("unlink", "rmdir"))]
    return [each for each in gone if ".deleted" in each or "-delete" in each]


def test_no_tick_unlinks_by_itself_what_was_deleted(machine: InProcess, client: Client) -> None:
    create_topic(client, retention_ms="1", segment_ms="1", file_delete_delay_ms="1000")
    create_topic(client, "doomed", file_delete_delay_ms="1000")
    write(client, "old")
    machine.held_unlinks = []
    delete_topic(client, "doomed")

    machine.advance(60_000)
    before = unlinks(machine)
    while machine.held_unlinks:
        machine.finish_unlink(machine.held_unlinks.pop(0))
        machine.advance(2_000)

    assert before == []
    assert any("doomed" in each for each in unlinks(machine))
    assert files_of(machine, ".deleted") == files_of(machine, "-delete/") == []


def test_file_counts_as_left_until_it_is_unlinked(machine: InProcess, client: Client) -> None:
    create_topic(client, retention_ms="1", segment_ms="1", file_delete_delay_ms="1000")
    write(client, "old")
    machine.held_unlinks = []
    machine.advance(60_000)
    deleted = machine.broker.partitions.get(TP).log.deleted_files
    (under_way,) = machine.held_unlinks

    while_it_lasts = sorted(path for path, _ in deleted.waiting())
    machine.finish_unlink(under_way)

    assert while_it_lasts == sorted(under_way.plan.files) != []
    assert deleted.waiting() == []


def test_topic_deleted_while_its_old_files_are_unlinked_goes_as_a_whole(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, retention_ms="1", segment_ms="1", file_delete_delay_ms="1000")
    write(client, "old")
    machine.held_unlinks = []
    machine.advance(60_000)

    delete_topic(client)
    machine.finish_unlink(machine.held_unlinks.pop())
    machine.held_unlinks = None
    machine.advance(3_000)

    assert files_of(machine, f"/{TOPIC}-0") == []


def test_file_the_disk_does_not_let_go_is_tried_again_and_holds_up_no_other(
    machine: InProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(client, retention_ms="1", segment_ms="1", file_delete_delay_ms="60000")
    write(client, "old")
    machine.advance(40_000)
    waiting = files_of(machine, ".deleted")
    machine.fs.fail_matching("unlink", waiting[0], errno.EIO)

    machine.clock.advance(minutes=1)
    machine.tick()
    still = files_of(machine, ".deleted")
    machine.advance(2_000)

    assert len(waiting) > 1
    assert still == waiting[:1]
    assert "job=unlink" in caplog.text
    assert files_of(machine, ".deleted") == []


def test_flushes_before_one_that_fails_are_not_forgotten(
    machine: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would count as under way for ever."""
    create_topic(client, flush_ms="1000")
    create_topic(client, "second", flush_ms="1000")
    write(client, "a")
    write(client, "a", topic="second")
    plan_flush = PartitionLog.plan_flush

    def refuse(log: PartitionLog, up_to: int | None = None) -> FlushPlan | None:
        if log.topic_partition.topic == "second":
            raise OSError(errno.EIO, "gone")
        return plan_flush(log, up_to)

    monkeypatch.setattr(PartitionLog, "plan_flush", refuse)

    machine.advance(2_000)

    assert machine.broker.partitions.get(TP).log.recovery_point == 1
    assert not machine.broker.housekeeping.flushes.is_under_way(TP)


def test_idle_broker_wakes_once_a_second_though_every_tick_is_a_little_late(
    machine: InProcess,
) -> None:
    start_ms, wakes = machine.clock.monotonic_ms(), 0

    while (passed_ms := machine.clock.monotonic_ms() - start_ms) < 100_000:
        # Each timer fires a millisecond late, which would draw the jobs apart.
        wait_ms = machine.broker.next_deadline_ms - machine.clock.monotonic_ms() + 1
        machine.clock.advance(ms=max(1, wait_ms))
        machine.tick()
        wakes += 1

    # Seven looks of the cleaner, every 15 s, are its own.
    assert wakes <= passed_ms / 1000 + 10
