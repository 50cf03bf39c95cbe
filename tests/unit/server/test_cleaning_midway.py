"""What happens to a log between the copy of a group and its swap, seen from the log's owner.

The worker has written a whole `.cleaned` segment and has said so; its sources are being flushed.
Then something else wants the log.
"""

from dataclasses import dataclass

import pytest

from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.cleaner.worker import clean
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import Clean
from ledgerstone.server.results import GroupCleaned
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import TOPIC, create_topic, delete_topic
from tests.unit.server.test_cleaning import TP, alter, checkpoint, log_of, on_disk, put, roll, runs

WRITTEN = [("a", "1"), ("a", "2"), ("b", "1")]
CLEANED = [("a", "2"), ("b", "1")]


@dataclass(slots=True)
class Midway:
    """A pass whose one group waits for the flush of its sources."""

    machine: InProcess
    effect: Clean
    report: PassReport

    def finish(self) -> None:
        """The flush comes, and the worker goes on or stops, as it is told."""
        machine, number = self.machine, self.effect.number
        assert machine.held_flushes is not None
        for flush in machine.held_flushes:
            machine.flush(flush)
        machine.held_flushes = None
        called_off = machine.called_off[number]
        outcome = PassFailed("CleaningAborted: given up") if called_off else self.report
        machine.report(self.effect, outcome)

    def leftovers(self) -> list[str]:
        return [path for path in self.machine.fs.files() if path.endswith((".cleaned", ".swap"))]


def midway(machine: InProcess, client: Client, policy: str = "compact", **configs: str) -> Midway:
    create_topic(client, TOPIC, 1, cleanup_policy=policy, **configs)
    machine.held_flushes, machine.held_passes = [], []
    put(machine, client, *WRITTEN)
    roll(machine)
    machine.broker.cleaning.look_now()
    machine.tick()
    (effect,) = machine.held_passes
    machine.held_passes = None
    groups: list[CleanedGroup] = []
    report = clean(
        machine.fs,
        effect.plan,
        dice=machine.dice,
        on_group=groups.append,
        should_abort=lambda: False,
    )
    assert isinstance(report, PassReport)
    machine.report(effect, GroupCleaned(groups[0]))
    assert effect.number not in machine.called_off
    return Midway(machine, effect, report)


def delete_records(client: Client, before: int) -> int:
    partition = DeleteRecordsRequestPartition(partition_index=0, offset=before)
    topic = DeleteRecordsRequestTopic(name=TOPIC, partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    return client.ask(request, DeleteRecordsResponse).topics[0].partitions[0].error_code


def test_undisturbed_pass_is_swapped_in(machine: InProcess, client: Client) -> None:
    pass_ = midway(machine, client)

    pass_.finish()

    assert on_disk(machine) == CLEANED
    assert checkpoint(machine) == {"events-0": 3}
    assert pass_.leftovers() == []


def test_records_deleted_midway_stay_deleted_and_the_pass_goes_on(
    machine: InProcess, client: Client
) -> None:
    pass_ = midway(machine, client, "compact,delete")

    code = delete_records(client, 2)
    pass_.finish()

    assert code == ErrorCode.NONE
    assert log_of(machine).log_start_offset == 2
    assert [run["outcome"] for run in runs(machine)] == ["cleaned"]
    assert log_of(machine).log_end_offset == 3


def test_segments_below_a_start_that_moved_midway_go_after_the_swap_and_only_once(
    machine: InProcess, client: Client
) -> None:
    """Retention and a swap never rename the same file twice."""
    pass_ = midway(machine, client, "compact,delete", file_delete_delay_ms="60000")
    delete_records(client, 3)

    machine.advance(40_000)
    while_it_waited = sorted(name for name in machine.fs.files() if name.endswith(".log"))
    pass_.finish()

    log_files = [name for name in machine.fs.files() if "/events-0/" in name and ".log" in name]
    assert "/data/events-0/00000000000000000000.log" in while_it_waited
    assert on_disk(machine) == []
    # The source and what was made of it, each under a name of its own.
    assert sorted(log_files) == [
        "/data/events-0/00000000000000000000.log.1.deleted",
        "/data/events-0/00000000000000000000.log.deleted",
        "/data/events-0/00000000000000000003.log",
    ]
    assert log_of(machine).failure is None


def test_expired_segments_wait_for_the_swap_and_then_go(machine: InProcess, client: Client) -> None:
    """Retention deletes the segments between a pass's copy and its swap."""
    pass_ = midway(machine, client, "compact,delete", retention_ms="1000")

    machine.advance(40_000)
    during = on_disk(machine)
    pass_.finish()

    assert during == WRITTEN
    assert on_disk(machine) == []
    assert log_of(machine).log_start_offset == 3
    assert log_of(machine).failure is None


def test_topic_deleted_midway_takes_the_group_along(machine: InProcess, client: Client) -> None:
    pass_ = midway(machine, client)

    delete_topic(client)
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    put(machine, client, ("x", "1"))
    pass_.finish()

    assert machine.called_off[pass_.effect.number]
    assert on_disk(machine) == [("x", "1")]
    assert checkpoint(machine) == {}
    assert [name for name in pass_.leftovers() if "-delete/" not in name] == []


def test_topic_that_is_no_longer_compacted_keeps_every_record(
    machine: InProcess, client: Client
) -> None:
    """The cleanup policy changes while retention or a pass is at work."""
    pass_ = midway(machine, client)

    alter(client, 2, TOPIC, cleanup_policy="delete")
    pass_.finish()

    assert on_disk(machine) == WRITTEN
    assert checkpoint(machine) == {}
    assert [run["outcome"] for run in runs(machine)] == ["aborted"]
    assert pass_.leftovers() == []


def test_pass_called_off_midway_does_not_count_even_if_the_policy_comes_back(
    machine: InProcess, client: Client
) -> None:
    pass_ = midway(machine, client)

    alter(client, 2, TOPIC, cleanup_policy="delete")
    alter(client, 2, TOPIC, cleanup_policy="compact")
    pass_.finish()
    after_the_first = on_disk(machine)
    machine.advance(16_000)

    assert after_the_first == WRITTEN
    assert on_disk(machine) == CLEANED


def test_policy_that_adds_deletion_does_not_disturb_the_pass(
    machine: InProcess, client: Client
) -> None:
    pass_ = midway(machine, client)

    alter(client, 2, TOPIC, cleanup_policy="compact,delete")
    pass_.finish()

    assert on_disk(machine) == CLEANED


def test_truncation_midway_drops_the_group(machine: InProcess, client: Client) -> None:
    pass_ = midway(machine, client)

    machine.broker.log_dir.truncate_to(TP, 2)
    pass_.finish()

    assert on_disk(machine) == [("a", "1"), ("a", "2")]
    assert checkpoint(machine) == {}
    assert pass_.leftovers() == []


@pytest.mark.parametrize("when", ["before the flush", "with the flush"])
def test_log_that_fails_midway_is_not_swapped(
    machine: InProcess, client: Client, when: str
) -> None:
    pass_ = midway(machine, client)

    if when == "before the flush":
        log_of(machine).fail("the disk is gone")
    else:
        machine.fs.fail_matching("fsync", "*/events-0/*.log", 5)
    pass_.finish()

    assert machine.called_off[pass_.effect.number]
    assert on_disk(machine) == WRITTEN
    assert checkpoint(machine) == {}


def test_worker_that_dies_midway_costs_the_group(machine: InProcess, client: Client) -> None:
    pass_ = midway(machine, client)

    died = PassFailed("killed", worker_died=True)
    machine.report(pass_.effect, died)
    left = pass_.leftovers()
    assert machine.held_flushes is not None
    for flush in machine.held_flushes:
        machine.flush(flush)

    assert left == []
    assert on_disk(machine) == WRITTEN
    assert [run["outcome"] for run in runs(machine)] == ["failed"]


# -- between the swap and its sync --------------------------------------------------------------


def swapped(machine: InProcess, client: Client, **configs: str) -> Midway:
    """A pass whose one group is swapped in; that is not durable yet."""
    pass_ = midway(machine, client, **configs)
    machine.held_syncs = []
    assert machine.held_flushes is not None
    for flush in machine.held_flushes:
        machine.flush(flush)
    machine.held_flushes = None
    assert len(machine.held_syncs) == 1
    return pass_


def sync(machine: InProcess) -> None:
    held, machine.held_syncs = machine.held_syncs or [], None
    for effect in held:
        machine.sync(effect)


def set_aside(machine: InProcess) -> list[str]:
    return [path for path in machine.fs.files() if path.endswith(".deleted")]


def test_swap_is_seen_at_once_and_the_worker_goes_on_when_it_is_durable(
    machine: InProcess, client: Client
) -> None:
    pass_ = swapped(machine, client)

    before = (on_disk(machine), dict(machine.called_off))
    sync(machine)

    assert before == (CLEANED, {})
    assert machine.called_off == {pass_.effect.number: False}
    machine.report(pass_.effect, pass_.report)


def test_old_files_are_not_unlinked_before_the_swap_is_durable(
    machine: InProcess, client: Client
) -> None:
    swapped(machine, client, file_delete_delay_ms="0")

    machine.advance(30_000)
    before = set_aside(machine)
    sync(machine)
    machine.advance(2_000)

    assert before != []
    assert set_aside(machine) == []


def test_swap_that_could_not_be_made_durable_fails_the_log(
    machine: InProcess, client: Client
) -> None:
    pass_ = swapped(machine, client)
    machine.fs.fail_matching("fsync_dir", "*/events-0", 5)

    sync(machine)

    assert "swap failed" in (log_of(machine).failure or "")
    assert machine.called_off == {pass_.effect.number: True}


def test_swap_stands_when_the_worker_dies_before_it_is_durable(
    machine: InProcess, client: Client
) -> None:
    pass_ = swapped(machine, client, file_delete_delay_ms="0")

    died = PassFailed("killed", worker_died=True)
    machine.report(pass_.effect, died)
    sync(machine)
    machine.advance(2_000)

    assert on_disk(machine) == CLEANED
    assert set_aside(machine) == []
    assert checkpoint(machine) == {}


def test_topic_deleted_before_its_swap_is_durable_does_no_harm(
    machine: InProcess, client: Client
) -> None:
    pass_ = swapped(machine, client)

    delete_topic(client)
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    sync(machine)

    assert machine.called_off[pass_.effect.number]
    assert log_of(machine).failure is None
    late = PassFailed("CleaningAborted: given up")
    machine.report(pass_.effect, late)
    assert checkpoint(machine) == {}
