"""Thousands of partitions in one request: made and removed in slices, while others are served."""

from collections.abc import Iterator

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ledgerstone.replication.hosted_partitions import ASKED_FOR_PER_SLICE, SLICE_PARTITIONS
from ledgerstone.types import TopicPartition
from tests.kit.in_process import DATA, Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import (
    TOPIC,
    commit_offset,
    create_topic,
    delete_topic,
    fetch,
    fetched,
    produced,
    read_all,
    write,
)

MANY = 5 * SLICE_PARTITIONS + 3
LAST = MANY - 1
NOT_LEADER_OR_FOLLOWER = 6


def live_dirs(machine: InProcess, topic: str = TOPIC) -> int:
    names = machine.fs.list_dir(DATA)
    return sum(name.rpartition("-")[0] == topic for name in names)


def ticks_until_done(machine: InProcess) -> Iterator[int]:
    """Ticks while there is a backlog, and tells how many directories came or went with each."""
    while machine.broker.partitions.backlog:
        before = live_dirs(machine)
        machine.tick()
        yield abs(live_dirs(machine) - before)


def test_no_call_makes_more_than_a_slice_and_all_are_made(
    machine: InProcess, client: Client
) -> None:
    created = create_topic(client, partitions=MANY)
    at_once = live_dirs(machine)
    made = list(ticks_until_done(machine))

    assert created.topics[0].error_code == ErrorCode.NONE
    assert 0 < at_once <= SLICE_PARTITIONS
    assert max(made) <= SLICE_PARTITIONS
    assert at_once + sum(made) == MANY
    assert len(machine.broker.partitions) == MANY


def test_small_topic_is_ready_with_the_answer(machine: InProcess, client: Client) -> None:
    create_topic(client, partitions=SLICE_PARTITIONS)

    assert write(client, "v", partition=SLICE_PARTITIONS - 1) == [0]
    assert machine.broker.partitions.backlog == 0


def test_partition_that_is_still_to_come_is_known_but_not_led_yet(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY)

    described = client.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), MetadataResponse
    )
    asked_for = range(LAST - ASKED_FOR_PER_SLICE, LAST)
    served = [write(client, "v", partition=each) for each in asked_for]
    refused = produced(client, batch(("k", "v")), partition=LAST)
    unread = fetched(client, fetch({LAST: 0}))
    list(ticks_until_done(machine))

    assert len(described.topics[0].partitions) == MANY
    assert served == [[0]] * ASKED_FOR_PER_SLICE
    assert refused.error_code == NOT_LEADER_OR_FOLLOWER
    assert unread.error_code == NOT_LEADER_OR_FOLLOWER
    assert write(client, "v", partition=LAST) == [0]


def test_partition_that_was_asked_for_before_its_turn_is_made_once(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY)
    machine.advance(0)
    create_topic(client, "other", partitions=SLICE_PARTITIONS + 1)

    first = write(client, "v", topic="other", partition=SLICE_PARTITIONS)
    is_told_of = machine.broker.partitions.backlog
    list(ticks_until_done(machine))

    assert (first, is_told_of) == ([0], 1)
    assert live_dirs(machine, "other") == SLICE_PARTITIONS + 1
    machine.broker.check_invariants()


def test_broker_asks_for_its_next_tick_at_once_while_there_is_something_to_do(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY)

    behind_ms = machine.broker.next_deadline_ms
    machine.advance(0)

    assert behind_ms == machine.clock.monotonic_ms()
    assert machine.broker.partitions.backlog == 0
    assert machine.broker.next_deadline_ms > machine.clock.monotonic_ms()


def test_added_partitions_are_made_in_slices_too(machine: InProcess, client: Client) -> None:
    create_topic(client)
    write(client, "v")
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=TOPIC, count=MANY)])

    answer = client.ask(request, CreatePartitionsResponse)
    made = list(ticks_until_done(machine))

    assert answer.results[0].error_code == ErrorCode.NONE
    assert max(made) <= SLICE_PARTITIONS
    assert live_dirs(machine) == MANY
    assert read_all(client) == ["v"]


def test_deleted_partitions_are_gone_at_once_and_leave_the_disk_in_slices(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY)
    machine.advance(0)

    code = delete_topic(client)
    hosted = len(machine.broker.partitions)
    removed = list(ticks_until_done(machine))

    assert (code, hosted) == (ErrorCode.NONE, 0)
    assert max(removed) <= SLICE_PARTITIONS
    assert live_dirs(machine) == 0
    assert len(machine.broker.log_dir.doomed) == MANY


def test_name_that_comes_back_before_its_directories_left_begins_empty(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY)
    machine.advance(0)
    write(client, "old", partition=LAST)

    delete_topic(client)
    create_topic(client, partitions=MANY)
    machine.advance(0)

    assert machine.broker.partitions.offline == {}
    assert write(client, "new", partition=LAST) == [0]
    assert read_all(client, partition=LAST) == ["new"]


def test_topic_deleted_before_it_was_made_leaves_nothing(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY)

    delete_topic(client)
    machine.advance(0)

    assert live_dirs(machine) == 0
    assert len(machine.broker.partitions) == 0


@pytest.mark.parametrize("how", ["kill", "lose_power"])
def test_restart_in_the_middle_makes_the_rest(machine: InProcess, client: Client, how: str) -> None:
    create_topic(client, partitions=MANY)
    write(client, "v")
    machine.tick()

    getattr(machine, how)()

    assert live_dirs(machine) == MANY
    assert machine.broker.partitions.backlog == 0
    assert write(machine.connect(), "after", partition=LAST) == [0]


def test_kill_in_the_middle_of_a_deletion_sets_the_rest_aside(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY)
    machine.advance(0)
    delete_topic(client)

    machine.kill()

    names = machine.fs.list_dir(DATA)
    assert live_dirs(machine) == 0
    assert any(name.endswith("-stray") for name in names)
    assert write_after_creating_anew(machine) == [0]


def write_after_creating_anew(machine: InProcess) -> list[int]:
    client = machine.connect()
    create_topic(client)
    return write(client, "new")


def test_clean_stop_finishes_deletions_first(machine: InProcess, client: Client) -> None:
    create_topic(client, partitions=MANY)
    machine.advance(0)
    delete_topic(client)

    machine.broker.partitions.drop_rest()
    machine.stop()
    machine.start()

    assert not any("-stray" in name for name in machine.fs.list_dir(DATA))


def test_compacted_partition_that_came_late_is_watched_by_the_cleaner(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=MANY, cleanup_policy="compact")

    machine.advance(0)

    assert TopicPartition(TOPIC, LAST) in machine.broker.cleaning.pending
    assert produced(client, batch(("k", None)), partition=LAST).error_code == ErrorCode.NONE


def test_coordinator_is_not_available_until_the_whole_offsets_topic_is_made() -> None:
    machine = InProcess(settings={"offsets.topic.num.partitions": str(MANY)})
    client = machine.connect()
    request = FindCoordinatorRequest(coordinator_keys=["group"])

    first = client.ask(request, FindCoordinatorResponse).coordinators[0]
    machine.advance(0)
    second = client.ask(request, FindCoordinatorResponse).coordinators[0]

    assert first.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (second.error_code, second.node_id) == (ErrorCode.NONE, 1)


def test_group_that_asked_for_no_coordinator_is_served_all_the_same() -> None:
    machine = InProcess(settings={"offsets.topic.num.partitions": str(MANY)})
    client = machine.connect()
    create_topic(client)

    code = commit_offset(client, "group", 0)

    assert code == ErrorCode.NONE
    assert machine.broker.partitions.backlog == 0
