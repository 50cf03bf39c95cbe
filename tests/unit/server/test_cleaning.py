"""The owner's side of cleaning, with a worker that runs at once on the simulated disk."""

import errno
import json
from typing import Any

import pytest

from ledgerstone.cleaner.cleaning_state import CleaningState
from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.cleaner.selection import CleaningReason
from ledgerstone.cleaner.worker import clean
from ledgerstone.errors import LogStorageError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.server.cleaning.parts import PassFailed, PassTicket
from ledgerstone.server.effects import Clean
from ledgerstone.server.http.monitor import readiness, samples
from ledgerstone.server.results import GroupCleaned
from ledgerstone.sim.filesystem import SimulatedCrash
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import all_records, batch
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    delete_topic,
    fetch,
    fetched,
    produced,
    read_all,
)

TP = TopicPartition(TOPIC, 0)
CHECKPOINT = "/data/cleaner-offset-checkpoint"
HISTORY = "/data/events-0/cleaning-history.json"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def compacted(client: Client, **configs: str) -> None:
    create_topic(client, TOPIC, 1, **{"cleanup_policy": "compact", **configs})


def put(machine: InProcess, client: Client, *pairs: tuple[str, str | None]) -> None:
    """One batch for each pair, with the machine's time."""
    for pair in pairs:
        records = batch(pair, timestamp=machine.clock.now_ms())
        assert produced(client, records).error_code == ErrorCode.NONE


def log_of(machine: InProcess) -> PartitionLog:
    return machine.broker.partitions.get(TP).log


def on_disk(machine: InProcess) -> list[tuple[str, str | None]]:
    """Every record in the segment files, whoever may still read it."""
    found = []
    for segment in log_of(machine).segments:
        content = segment.file.pread(segment.size, 0)
        for position, _ in iter_headers(content):
            for record in iter_records(content, position):
                value = None if record.value is None else bytes(record.value).decode()
                found.append((bytes(record.key or b"").decode(), value))
    return found


def checkpoint(machine: InProcess) -> dict[str, int]:
    text = machine.fs.files().get(CHECKPOINT, b"0\n0\n").decode()
    entries = [line.split() for line in text.split("\n")[2:] if line]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in entries}


def runs(machine: InProcess) -> list[dict[str, Any]]:
    content = json.loads(machine.fs.files()[HISTORY])
    found: list[dict[str, Any]] = content["runs"]
    return found


def roll(machine: InProcess) -> None:
    log_of(machine).roll()


def look(machine: InProcess) -> None:
    """Lets the cleaner look for work now."""
    machine.broker.cleaning.look_now()
    machine.tick()


def compact_now(machine: InProcess) -> PassTicket:
    ticket = machine.broker.cleaning.ask(TP)
    look(machine)
    return ticket


def compact_twice(machine: InProcess) -> None:
    compact_now(machine)
    compact_now(machine)


def alter(client: Client, resource_type: int, name: str, **values: str) -> int:
    configs = [
        IncrementalAlterConfigsConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]
    resource = IncrementalAlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return client.ask(request, IncrementalAlterConfigsResponse).responses[0].error_code


# -- a pass -------------------------------------------------------------------------------------


def test_dirty_log_is_cleaned_by_itself(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("b", "1"), ("a", "2"))
    roll(machine)

    machine.advance(16_000)

    assert on_disk(machine) == [("b", "1"), ("a", "2")]
    assert checkpoint(machine) == {"events-0": 3}


def test_log_of_a_topic_that_is_not_compacted_is_left_alone(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)

    machine.advance(60_000)

    assert on_disk(machine) == [("a", "1"), ("a", "2")]
    assert checkpoint(machine) == {}


def test_reader_sees_the_cleaned_log_with_its_offsets(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"), ("b", "1"))
    roll(machine)
    look(machine)

    answer = fetched(client, fetch({0: 0}))

    data = answer.records
    assert isinstance(data, bytes | memoryview)
    offsets = [record.offset for at, _ in iter_headers(data) for record in iter_records(data, at)]
    assert offsets == [1, 2]
    assert log_of(machine).log_end_offset == 3


def test_active_segment_is_not_cleaned(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"))

    machine.advance(60_000)

    assert on_disk(machine) == [("a", "1"), ("a", "2")]


def test_nothing_is_cleaned_while_the_cleaner_is_switched_off() -> None:
    machine = InProcess(settings={"log.cleaner.enable": "false"})
    client = machine.connect()
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)

    machine.advance(60_000)

    assert on_disk(machine) == [("a", "1"), ("a", "2")]


def test_wrong_checkpoint_is_written_anew_even_if_the_log_is_not_selected(
    machine: InProcess, client: Client
) -> None:
    """The checkpoint lies outside the log."""
    compacted(client, min_cleanable_dirty_ratio="1.0")
    put(machine, client, ("a", "1"), ("b", "1"))
    machine.broker.cleaning.files.set_first_dirty_offset(TP, 200)

    look(machine)

    assert checkpoint(machine) == {"events-0": 0}
    assert machine.broker.cleaning.running == {}


def test_checkpoint_of_a_partition_that_is_no_longer_there_is_forgotten_at_start(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))
    compact_now(machine)
    machine.broker.cleaning.files.set_first_dirty_offset(TopicPartition("gone", 3), 77)

    machine.kill()

    assert checkpoint(machine) == {"events-0": 1}


def test_segments_below_the_start_of_a_compacted_log_are_deleted(
    machine: InProcess, client: Client
) -> None:
    """Retention also applies to compacted topics."""
    compacted(client)
    put(machine, client, ("a", "1"), ("b", "1"))
    roll(machine)
    put(machine, client, ("c", "1"))
    log_of(machine).raise_log_start_offset(2)

    machine.advance(40_000)

    assert on_disk(machine) == [("c", "1")]


def test_as_many_passes_run_at_a_time_as_there_are_threads() -> None:
    machine = InProcess(settings={"log.cleaner.threads": "2"})
    client = machine.connect()
    create_topic(client, partitions=3, cleanup_policy="compact")
    machine.held_passes = []
    for number in range(3):
        produced(client, batch(("a", "1"), timestamp=machine.clock.now_ms()), TOPIC, number)
        machine.broker.partitions.get(TopicPartition(TOPIC, number)).log.roll()

    look(machine)
    at_first = [effect.plan.topic_partition.partition for effect in machine.held_passes]
    machine.finish_pass(machine.held_passes[0])
    machine.tick()

    assert at_first == [0, 1]
    assert len(machine.held_passes) == 3


def test_log_is_not_chosen_again_while_a_pass_is_at_work(
    machine: InProcess, client: Client
) -> None:
    """Logs of different dirtiness; the dirtiest is picked unless it is excluded."""
    compacted(client)
    machine.held_passes = []
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)

    look(machine)
    look(machine)

    assert len(machine.held_passes) == 1


# -- deletes finish by themselves ---------------------------------------------------------------


def test_delete_finishes_on_a_topic_nobody_writes_to(machine: InProcess, client: Client) -> None:
    compacted(client, delete_retention_ms=str(HOUR_MS))
    put(machine, client, ("a", "1"), ("b", "1"), ("a", None))

    machine.jump(days=1)
    stamped = on_disk(machine)
    machine.jump(hours=1)

    assert stamped == [("b", "1"), ("a", None)]
    assert on_disk(machine) == [("b", "1")]
    assert [run["reason"] for run in runs(machine)] == [
        CleaningReason.TOMBSTONE.value,
        CleaningReason.HORIZON.value,
    ]


def test_tombstone_does_not_leave_before_its_horizon(machine: InProcess, client: Client) -> None:
    compacted(client, delete_retention_ms=str(DAY_MS))
    put(machine, client, ("a", "1"), ("a", None))
    compact_now(machine)

    machine.clock.advance(ms=DAY_MS - 1)
    look(machine)
    before = on_disk(machine)
    machine.advance(2)

    assert before == [("a", None)]
    assert on_disk(machine) == []


def test_horizon_is_met_to_the_millisecond_without_anybody_asking(
    machine: InProcess, client: Client
) -> None:
    compacted(client, delete_retention_ms="7000")
    put(machine, client, ("a", None))
    compact_now(machine)

    machine.advance(6_999)
    before = on_disk(machine)
    machine.advance(1)

    assert before == [("a", None)]
    assert on_disk(machine) == []


def test_max_compaction_lag_is_a_deadline_also_for_an_idle_active_segment(
    machine: InProcess, client: Client
) -> None:
    compacted(client, max_compaction_lag_ms="60000", min_cleanable_dirty_ratio="1.0")
    put(machine, client, ("a", "1"), ("a", "2"))

    machine.advance(59_000)
    before = on_disk(machine)
    machine.advance(1_001)

    assert before == [("a", "1"), ("a", "2")]
    assert on_disk(machine) == [("a", "2")]
    assert runs(machine)[-1]["reason"] == CleaningReason.LAG.value


def test_nothing_finishes_by_itself_when_that_is_switched_off() -> None:
    machine = InProcess(settings={"ledgerstone.cleaner.finish.deletes": "false"})
    client = machine.connect()
    compacted(client, delete_retention_ms="1000", max_compaction_lag_ms="60000")
    put(machine, client, ("a", "1"), ("a", None))

    machine.jump(days=3)
    machine.advance(20_000)

    assert on_disk(machine) == [("a", "1"), ("a", None)]


def test_horizon_is_remembered_over_a_restart(machine: InProcess, client: Client) -> None:
    compacted(client, delete_retention_ms=str(HOUR_MS))
    put(machine, client, ("a", "1"), ("a", None))
    compact_now(machine)

    machine.kill()
    machine.jump(hours=1)

    assert on_disk(machine) == []


def test_horizon_that_nobody_remembers_is_found_by_one_pass(
    machine: InProcess, client: Client
) -> None:
    compacted(client, delete_retention_ms=str(HOUR_MS))
    put(machine, client, ("a", "1"), ("a", None), ("b", "1"))
    compact_now(machine)
    machine.fs.unlink(HISTORY)

    machine.kill()
    look(machine)
    reason = runs(machine)[-1]["reason"]
    machine.jump(hours=1)

    assert reason == CleaningReason.UNKNOWN_HORIZONS.value
    assert on_disk(machine) == [("b", "1")]


def test_due_log_goes_before_a_dirtier_one(machine: InProcess, client: Client) -> None:
    create_topic(client, "quiet", cleanup_policy="compact", max_compaction_lag_ms="1000")
    create_topic(client, "dirty", cleanup_policy="compact")
    for topic in ("dirty", "quiet"):
        produced(client, batch(("a", "1"), timestamp=machine.clock.now_ms()), topic)
        machine.broker.partitions.get(TopicPartition(topic, 0)).log.roll()
    machine.held_passes = []

    machine.clock.advance(ms=5_000)
    look(machine)

    assert [effect.plan.topic_partition.topic for effect in machine.held_passes] == ["quiet"]


# -- compact now --------------------------------------------------------------------------------


def test_asking_rolls_cleans_and_tells_what_was_dropped(machine: InProcess, client: Client) -> None:
    compacted(client, min_cleanable_dirty_ratio="1.0")
    put(machine, client, ("a", "1"), ("b", "1"), ("a", "2"), ("b", None))

    ticket = compact_now(machine)

    assert ticket.run is not None
    assert ticket.run.stats.records_kept == 2
    assert ticket.run.stats.dropped_superseded == 2
    assert ticket.run.stats.tombstones_stamped == 1
    assert on_disk(machine) == [("a", "2"), ("b", None)]


def test_asking_about_an_empty_log_is_answered_with_the_reason(
    machine: InProcess, client: Client
) -> None:
    compacted(client)

    ticket = compact_now(machine)

    assert ticket.is_done
    assert ticket.refusal == "the log is empty"


def test_asking_twice_before_the_pass_begins_is_asking_once(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))

    first = machine.broker.cleaning.ask(TP)
    second = machine.broker.cleaning.ask(TP)
    look(machine)

    assert first is second
    assert len(runs(machine)) == 1


def test_request_of_a_topic_that_is_deleted_is_answered(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))
    ticket = machine.broker.cleaning.ask(TP)

    delete_topic(client)

    assert ticket.refusal == "the topic was deleted"


def test_request_for_a_log_that_takes_no_writes_is_answered(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    put(machine, client, ("a", "1"))
    log_of(machine).fail("the disk is gone")

    ticket = compact_now(machine)

    assert ticket.refusal == "the log takes no writes: the disk is gone"


def test_request_heals_a_wrong_checkpoint_too(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    machine.broker.cleaning.files.set_first_dirty_offset(TP, 200)

    compact_now(machine)

    assert on_disk(machine) == [("a", "2")]
    assert checkpoint(machine) == {"events-0": 2}


# -- what changes under a pass ------------------------------------------------------------------


def held_pass(machine: InProcess, client: Client, **configs: str) -> Clean:
    """A pass that has begun and waits to be run."""
    compacted(client, **configs)
    machine.held_passes = []
    put(machine, client, ("a", "1"), ("a", "2"), ("b", "1"))
    roll(machine)
    look(machine)
    (effect,) = machine.held_passes
    return effect


def test_topic_deleted_during_a_pass_loses_nothing_of_its_successor(
    machine: InProcess, client: Client
) -> None:
    late = held_pass(machine, client)

    delete_topic(client)
    compacted(client)
    put(machine, client, ("x", "1"))
    machine.finish_pass(late)

    assert machine.called_off[late.number]
    assert on_disk(machine) == [("x", "1")]
    assert checkpoint(machine) == {}
    assert not [path for path in machine.fs.files() if path.endswith(".cleaned")]


def test_checkpoint_entry_goes_with_its_topic(machine: InProcess, client: Client) -> None:
    """A deleted partition loses its line in the cleaner's checkpoint."""
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    compact_now(machine)
    before = checkpoint(machine)

    delete_topic(client)

    assert before == {"events-0": 2}
    assert checkpoint(machine) == {}


def test_pass_is_called_off_when_its_topic_is_no_longer_compacted(
    machine: InProcess, client: Client
) -> None:
    """The cleanup policy changes while retention or a pass is at work."""
    late = held_pass(machine, client)

    alter(client, 2, TOPIC, cleanup_policy="delete")
    state = machine.broker.cleaning.states.of(TP).state
    machine.finish_pass(late)

    assert state is CleaningState.ABORTED
    assert on_disk(machine) == [("a", "1"), ("a", "2"), ("b", "1")]
    assert checkpoint(machine) == {}
    assert machine.broker.cleaning.states.is_free(TP)


def test_pass_that_was_asked_for_does_not_begin_once_its_topic_is_no_longer_compacted(
    machine: InProcess, client: Client
) -> None:
    """It had to wait: another pass was at work."""
    create_topic(client, "other", 1, cleanup_policy="compact")
    late = held_pass(machine, client)
    other = TopicPartition("other", 0)
    for value in ("1", "2"):
        records = batch(("a", value), timestamp=machine.clock.now_ms())
        assert produced(client, records, "other").error_code == ErrorCode.NONE
    ticket = machine.broker.cleaning.ask(other)
    look(machine)
    alter(client, 2, "other", cleanup_policy="delete")
    machine.held_passes = None
    machine.finish_pass(late)
    machine.advance(20_000)

    assert [each.value for each in all_records(machine.broker.partitions.get(other).log)] == [
        b"1",
        b"2",
    ]
    assert ticket.run is None
    assert "cleanup.policy" in (ticket.refusal or "")


def test_topic_that_becomes_compacted_is_cleaned_from_its_start(
    machine: InProcess, client: Client
) -> None:
    """The cleanup policy changes while retention or a pass is at work."""
    create_topic(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)
    machine.advance(20_000)

    alter(client, 2, TOPIC, cleanup_policy="compact")
    machine.advance(20_000)

    assert on_disk(machine) == [("a", "2")]


def test_tombstone_written_before_its_topic_became_compacted_has_its_deadline(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, min_cleanable_dirty_ratio="1.0")
    put(machine, client, ("a", "1"), ("a", None))
    machine.advance(20_000)

    alter(client, 2, TOPIC, cleanup_policy="compact")
    machine.advance(20_000)
    before = on_disk(machine)
    machine.jump(days=1)
    machine.advance(20_000)

    assert before == [("a", "1"), ("a", None)]
    assert on_disk(machine) == [("a", None)]
    assert runs(machine)[-1]["reason"] == CleaningReason.TOMBSTONE.value


def test_plan_overtaken_by_a_truncation_is_dropped(machine: InProcess, client: Client) -> None:
    late = held_pass(machine, client)

    machine.broker.log_dir.truncate_to(TP, 1)
    machine.finish_pass(late)

    assert on_disk(machine) == [("a", "1")]
    assert machine.broker.cleaning.states.is_free(TP)


def test_truncation_lowers_the_checkpoint_only_if_it_is_higher(
    machine: InProcess, client: Client
) -> None:
    """Truncation lowers the checkpoint, and only if it lies above."""
    compacted(client, segment_bytes="1000")
    put(machine, client, *((str(n), "x" * 150) for n in range(12)))
    second, third = log_of(machine).segments.bases()[1:3]
    machine.broker.cleaning.files.set_first_dirty_offset(TP, second)

    machine.broker.log_dir.truncate_to(TP, third + 1)
    kept = checkpoint(machine)
    machine.broker.log_dir.truncate_to(TP, second - 1)

    assert kept == {"events-0": second}
    assert checkpoint(machine) == {"events-0": 0}


def test_truncation_lowers_the_checkpoint_to_a_segment_because_batches_go_whole(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("b", "1"))
    roll(machine)
    records = batch(("c", "1"), ("d", "1"), ("e", "1"), timestamp=machine.clock.now_ms())
    produced(client, records)
    machine.broker.cleaning.files.set_first_dirty_offset(TP, 4)

    machine.broker.log_dir.truncate_to(TP, 4)

    assert on_disk(machine) == [("a", "1"), ("b", "1")]
    assert checkpoint(machine) == {"events-0": 2}


def _cut_under_the_checkpoint(machine: InProcess) -> None:
    """Everything up to 3 is cleaned; then the log is cut at 1."""
    client = machine.connect()
    compacted(client, delete_retention_ms="0")
    put(machine, client, ("a", "1"), ("b", "1"), ("c", "1"))
    compact_now(machine)


@pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "power lost"])
def test_key_deleted_where_a_truncation_had_cut_never_returns(loses_power: bool) -> None:
    """The tombstone lies below what was once cleaned: no pass may take it for cleaned."""
    probe = InProcess()
    _cut_under_the_checkpoint(probe)
    begun = probe.fs.operation_count
    probe.broker.log_dir.truncate_to(TP, 1)
    operations = probe.fs.operation_count - begun

    for crash_at in range(operations):
        machine = InProcess()
        _cut_under_the_checkpoint(machine)
        machine.fs.crash_at(machine.fs.operation_count + 1 + crash_at)
        with pytest.raises(SimulatedCrash):
            machine.broker.log_dir.truncate_to(TP, 1)
        if loses_power:
            machine.lose_power("none")
        else:
            machine.kill()
        machine.broker.log_dir.truncate_to(TP, 1)
        put(machine, machine.connect(), ("a", None), ("x", "1"), ("y", "1"), ("z", "1"))
        compact_twice(machine)

        assert on_disk(machine) == [("x", "1"), ("y", "1"), ("z", "1")], crash_at


def test_key_deleted_after_a_truncation_that_the_disk_refused_at_first_never_returns() -> None:
    """The second attempt lowers the checkpoint on disk, not only what is in memory."""
    machine = InProcess()
    _cut_under_the_checkpoint(machine)
    machine.fs.fail_matching("pwrite", "*cleaner-offset-checkpoint*", errno.ENOSPC, times=1)
    with pytest.raises(LogStorageError, match="not started"):
        machine.broker.log_dir.truncate_to(TP, 1)
    end_offset = log_of(machine).log_end_offset

    machine.broker.log_dir.truncate_to(TP, 1)

    assert end_offset == 3
    assert checkpoint(machine) == {"events-0": 0}


def test_pass_that_read_a_log_while_it_was_cut_did_not_fail(
    machine: InProcess, client: Client
) -> None:
    late = held_pass(machine, client)

    machine.broker.log_dir.truncate_to(TP, 1)
    machine.report(late, PassFailed("a file ends early"))

    assert runs(machine)[-1]["outcome"] == "aborted"
    assert machine.broker.cleaning.troubles == {}


def test_retention_waits_until_a_pass_is_done(machine: InProcess, client: Client) -> None:
    late = held_pass(machine, client, cleanup_policy="compact,delete", retention_ms="1000")

    machine.advance(60_000)
    during = log_of(machine).log_start_offset
    machine.finish_pass(late)

    assert during == 0
    assert log_of(machine).log_start_offset == 3
    assert on_disk(machine) == []


def test_records_appended_during_a_pass_stay(machine: InProcess, client: Client) -> None:
    late = held_pass(machine, client)

    put(machine, client, ("a", "3"))
    machine.finish_pass(late)

    assert on_disk(machine) == [("a", "2"), ("b", "1"), ("a", "3")]


def test_group_waits_until_its_sources_are_durable(machine: InProcess, client: Client) -> None:
    compacted(client)
    machine.held_flushes = []
    machine.held_passes = []
    put(machine, client, ("a", "1"), ("a", "2"))
    compact_now(machine)
    (effect,) = machine.held_passes

    groups: list[CleanedGroup] = []
    outcome = clean(
        machine.fs,
        effect.plan,
        dice=machine.dice,
        on_group=groups.append,
        should_abort=lambda: False,
    )
    assert isinstance(outcome, PassReport)

    machine.report(effect, GroupCleaned(groups[0]))
    before = (on_disk(machine), dict(machine.called_off))
    machine.flush(machine.held_flushes[-1])
    after = (on_disk(machine), dict(machine.called_off))
    machine.report(effect, outcome)

    assert before == ([("a", "1"), ("a", "2")], {})
    assert after == ([("a", "2")], {effect.number: False})


# -- failures -----------------------------------------------------------------------------------


def failed_pass(machine: InProcess, client: Client, *, died: bool = False) -> None:
    effect = held_pass(machine, client)
    machine.fs.open("/data/events-0/00000000000000000000.log.cleaned", create=True).pwrite(b"x", 0)
    machine.report(effect, PassFailed("broken", worker_died=died))
    machine.held_passes = []


def test_worker_that_dies_costs_nothing_but_its_pass(machine: InProcess, client: Client) -> None:
    """Kafka reports the same as DeadThreadCount."""
    failed_pass(machine, client, died=True)

    assert on_disk(machine) == [("a", "1"), ("a", "2"), ("b", "1")]
    assert not [path for path in machine.fs.files() if path.endswith(".cleaned")]
    gauges = {sample.name: sample.value for sample in samples(machine.broker)}
    assert gauges["kafka_log_logcleaner_deadthreadcount"] == 1
    assert readiness(machine.broker).status == 503
    assert checkpoint(machine) == {}


def test_failed_partition_is_tried_again_ever_more_rarely(
    machine: InProcess, client: Client
) -> None:
    failed_pass(machine, client)
    waits = []

    for _ in range(3):
        begun_ms = machine.clock.monotonic_ms()
        while not machine.held_passes:
            machine.advance(1_000)
        waits.append((machine.clock.monotonic_ms() - begun_ms) // 1000)
        effect = machine.held_passes.pop()
        machine.report(effect, PassFailed("broken"))

    assert waits == [15, 30, 60]


def test_partition_heals_when_the_cause_is_gone(machine: InProcess, client: Client) -> None:
    failed_pass(machine, client)
    machine.held_passes = None

    machine.advance(16_000)

    assert machine.broker.cleaning.troubles == {}
    assert on_disk(machine) == [("a", "2"), ("b", "1")]
    assert [run["outcome"] for run in runs(machine)] == ["failed", "cleaned"]


def test_change_of_the_topics_settings_is_a_reason_to_try_again_at_once(
    machine: InProcess, client: Client
) -> None:
    failed_pass(machine, client)

    alter(client, 2, TOPIC, max_message_bytes="100000")
    machine.tick()

    assert machine.held_passes is not None
    assert len(machine.held_passes) == 1


def test_failed_partition_stays_uncleanable_where_retries_are_switched_off() -> None:
    machine = InProcess(settings={"ledgerstone.cleaner.retry.ms": "0"})
    failed_pass(machine, machine.connect())

    machine.jump(days=2)

    assert machine.held_passes == []
    assert machine.broker.cleaning.troubles[TP].retry_at_ms is None


def test_garbage_in_one_partition_does_not_keep_the_others_from_being_cleaned(
    machine: InProcess, client: Client
) -> None:
    """Damaged partitions become uncleanable and are counted; the others are still cleaned."""
    create_topic(client, "broken", cleanup_policy="compact")
    compacted(client)
    produced(client, batch(("a", "1"), timestamp=machine.clock.now_ms()), "broken")
    produced(client, batch(("a", "2"), timestamp=machine.clock.now_ms()), "broken")
    put(machine, client, ("a", "1"), ("a", "2"))
    broken = machine.broker.partitions.get(TopicPartition("broken", 0)).log
    for log in (broken, log_of(machine)):
        log.roll()
    broken.segments.first.file.pwrite(b"\xff" * 20, 70)

    machine.advance(20_000)

    gauges = {sample.name: sample.value for sample in samples(machine.broker)}
    assert on_disk(machine) == [("a", "2")]
    assert list(machine.broker.cleaning.troubles) == [TopicPartition("broken", 0)]
    assert gauges["kafka_log_logcleanermanager_uncleanable_partitions_count"] == 1
    assert gauges["kafka_log_logcleanermanager_uncleanable_bytes"] == broken.segments.first.size


def test_full_disk_during_a_pass_is_a_passing_trouble(machine: InProcess, client: Client) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)
    machine.fs.fail_matching("pwrite", "*.cleaned", errno.ENOSPC, times=None)

    look(machine)
    during = on_disk(machine)
    machine.fs.clear_faults()
    machine.advance(16_000)

    assert during == [("a", "1"), ("a", "2")]
    assert on_disk(machine) == [("a", "2")]


def test_checkpoint_that_the_disk_refuses_leaves_the_range_dirty(
    machine: InProcess, client: Client
) -> None:
    compacted(client)
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)
    machine.fs.fail_matching("pwrite", "*cleaner-offset-checkpoint*", errno.ENOSPC)

    look(machine)
    during = checkpoint(machine)
    machine.advance(16_000)

    assert during == {}
    assert checkpoint(machine) == {"events-0": 2}
    assert on_disk(machine) == [("a", "2")]


# -- settings -----------------------------------------------------------------------------------


def test_cleaners_settings_change_while_the_broker_runs(machine: InProcess, client: Client) -> None:
    """The cleaner's settings change while the broker runs."""
    code = alter(
        client,
        4,
        "",
        log_cleaner_threads="2",
        log_cleaner_dedupe_buffer_size="8388608",
        log_cleaner_io_buffer_size="1048576",
        log_cleaner_io_max_bytes_per_second="1000000",
    )
    settings = machine.broker.cleaning.settings

    assert code == ErrorCode.NONE
    assert (settings.threads, settings.dedupe_buffer_bytes) == (2, 4_194_304)
    assert (settings.window_bytes, settings.bytes_per_second) == (262_144, 500_000.0)


@pytest.mark.parametrize("threads", ["0", "5"])
def test_number_of_threads_may_at_most_be_halved_or_doubled(client: Client, threads: str) -> None:
    """The cleaner's settings change while the broker runs."""
    assert alter(client, 4, "", log_cleaner_threads="2") == ErrorCode.NONE

    code = alter(client, 4, "", log_cleaner_threads=threads)

    assert code == ErrorCode.INVALID_CONFIG


def test_dedupe_buffer_must_leave_every_thread_more_than_a_mebibyte(client: Client) -> None:
    assert (
        alter(client, 4, "", log_cleaner_dedupe_buffer_size="1048576") == ErrorCode.INVALID_CONFIG
    )


def test_history_keeps_the_newest_runs(client: Client, machine: InProcess) -> None:
    alter(client, 4, "", ledgerstone_cleaner_history_runs="2")
    compacted(client)

    for value in "123":
        put(machine, client, ("a", value))
        machine.clock.advance(ms=1)
        compact_now(machine)
    machine.advance(5_000)

    assert [run["end_offset"] for run in runs(machine)] == [2, 3]


# -- crashes ------------------------------------------------------------------------------------


def _deleted_log(machine: InProcess, client: Client) -> None:
    # No pass but those that are asked for: they are what the crash has to come into.
    compacted(client, delete_retention_ms="0", min_cleanable_dirty_ratio="1.0")
    put(machine, client, ("a", "1"), ("b", "1"), ("a", None))
    roll(machine)
    machine.advance(2_000)
    assert on_disk(machine) == [("a", "1"), ("b", "1"), ("a", None)]


@pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "power lost"])
def test_crash_at_any_operation_of_two_passes_never_brings_a_deleted_key_back(
    loses_power: bool,
) -> None:
    probe = InProcess()
    _deleted_log(probe, probe.connect())
    begun = probe.fs.operation_count
    compact_twice(probe)
    operations = probe.fs.operation_count - begun

    for crash_at in range(operations):
        machine = InProcess()
        _deleted_log(machine, machine.connect())
        machine.fs.crash_at(machine.fs.operation_count + 1 + crash_at)
        with pytest.raises(SimulatedCrash):
            compact_twice(machine)
        if loses_power:
            machine.lose_power("none")
        else:
            machine.kill()
        survived = on_disk(machine)
        state = dict(survived)

        assert state.get("a") is None, (crash_at, survived)
        assert state["b"] == "1", (crash_at, survived)
        assert log_of(machine).log_end_offset == 3
        assert checkpoint(machine).get("events-0", 0) in (0, 3)
        compact_twice(machine)
        assert on_disk(machine) == [("b", "1")], crash_at


def test_a_value_stays_until_what_supersedes_it_is_durable() -> None:
    """Else power loss takes the new one, the pass has taken the old one, and the key is gone."""
    machine = InProcess(settings={"log.cleaner.backoff.ms": "1000"})
    client = machine.connect()
    create_topic(
        client,
        cleanup_policy="compact",
        segment_bytes="200",
        min_cleanable_dirty_ratio="0.01",
    )
    for key in ("k", "a", "b", "c"):
        produced(client, batch((key, f"old {key}" * 20)))
    machine.advance(5_000)
    machine.held_flushes = []
    for key in ("k", "d", "e"):
        produced(client, batch((key, "new" * 20)))
    machine.advance(20_000)
    assert machine.held_flushes, "nothing is synced from here on"

    machine.lose_power("none")

    assert "old k" * 20 in read_all(machine.connect())
