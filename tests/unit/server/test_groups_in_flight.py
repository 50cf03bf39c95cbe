"""Groups whose log is replicated: nothing is answered, and no offset shown, before it is committed.

Broker 2 is a follower that exists in the metadata alone; `fetched_by` is its progress."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ledgerstone.protocol.messages.sync_group import (
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.roles import change_partition, fetched_by, followed
from tests.unit.server.asks import (
    TOPIC,
    commit_offset,
    committed_offset,
    create_topic,
    delete_topic,
    join,
)

GROUP = "readers"
OFFSETS = TopicPartition("__consumer_offsets", 0)


@pytest.fixture
def machine() -> InProcess:
    return InProcess(settings={"offsets.topic.num.partitions": "1"})


@pytest.fixture
def partition(machine: InProcess, client: Client) -> Partition:
    """Of the offsets topic: one offset is committed, and broker 2 is in sync but has nothing."""
    create_topic(client)
    assert commit_offset(client, GROUP, 1) == 0
    change_partition(machine, OFFSETS, leader=1, isr=[1, 2], replicas=[1, 2])
    return machine.broker.partitions.get(OFFSETS)


def commit(offset: int, topic: str = TOPIC) -> OffsetCommitRequest:
    wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[wanted])]
    return OffsetCommitRequest(group_id=GROUP, topics=topics)


def commit_code(client: Client) -> int:
    return client.take(OffsetCommitResponse).topics[0].partitions[0].error_code


def fetch_offsets() -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])


def shown_offset(machine: InProcess) -> int:
    """What lookers see: the pages, and what holds tombstones back."""
    return machine.broker.shards.committed_on(TOPIC)[GROUP][0].offset


def test_commits_in_flight_are_answered_in_order_as_the_high_watermark_passes_them(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    other = machine.connect()
    first_end = partition.log.log_end_offset + 1
    client.send(commit(5), 8)
    other.send(commit(6), 8)
    waited = client.is_waiting, other.is_waiting, shown_offset(machine)

    followed(partition, 2, first_end)
    machine.broker.following.high_watermark_moved(OFFSETS)
    machine.perform(machine.broker.changed_from_outside())

    assert waited == (True, True, 1)
    assert commit_code(client) == ErrorCode.NONE
    assert other.is_waiting
    assert shown_offset(machine) == 5
    fetched_by(machine, partition, 2)
    assert commit_code(other) == ErrorCode.NONE
    assert shown_offset(machine) == 6
    machine.check_invariants()


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (fetch_offsets(), OffsetFetchResponse),
        (DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse),
        (ListGroupsRequest(), ListGroupsResponse),
        (DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse),
    ],
)
def test_reads_wait_for_the_writes_before_them(
    machine: InProcess,
    client: Client,
    partition: Partition,
    asked: ApiMessage,
    kind: type[ApiMessage],
) -> None:
    reader = machine.connect()
    client.send(commit(5), 8)
    reader.send(asked)

    waits = reader.is_waiting
    fetched_by(machine, partition, 2)
    # What a deletion writes has to be replicated in its turn.
    fetched_by(machine, partition, 2)

    assert waits
    assert commit_code(client) == ErrorCode.NONE
    reader.take(kind)


def test_isr_that_shrinks_to_the_leader_commits_what_is_in_flight(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    client.send(commit(5), 8)

    change_partition(machine, OFFSETS, isr=[1])

    assert commit_code(client) == ErrorCode.NONE
    assert committed_offset(client, GROUP) == 5


def test_lost_leadership_refuses_what_is_in_flight_and_nothing_is_answered_twice(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    reader = machine.connect()
    client.send(commit(5), 8)
    reader.send(fetch_offsets())

    change_partition(machine, OFFSETS, leader=2)

    assert commit_code(client) == ErrorCode.NOT_COORDINATOR
    refused = reader.take(OffsetFetchResponse).groups[0]
    assert (refused.error_code, refused.topics) == (ErrorCode.NOT_COORDINATOR, [])
    partition.log.advance_high_watermark(partition.log.log_end_offset)
    machine.broker.following.high_watermark_moved(OFFSETS)
    machine.perform(machine.broker.changed_from_outside())
    machine.tick()
    assert client.is_waiting
    assert reader.is_waiting
    assert machine.broker.groups.memory.offsets_bytes == 0
    machine.check_invariants()


def test_members_that_wait_are_sent_to_the_next_coordinator(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    client.send(join(GROUP), 3)
    machine.advance(0)
    joined = client.take(JoinGroupResponse)
    beating = machine.connect()
    assignment = SyncGroupAssignment(member_id=joined.member_id, assignment=b"part")
    client.send(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        ),
        4,
    )
    beat = HeartbeatRequest(
        group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id
    )
    beating.send(beat)
    assert client.is_waiting, "the generation is not committed"
    assert beating.is_waiting, "and a heartbeat would say that it is"

    change_partition(machine, OFFSETS, leader=2)

    assert client.take(SyncGroupResponse).error_code == ErrorCode.NOT_COORDINATOR
    assert beating.take(HeartbeatResponse).error_code == ErrorCode.NOT_COORDINATOR
    assert machine.broker.groups.memory.members_bytes == 0


def test_requests_after_the_loss_are_sent_to_the_leader(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    change_partition(machine, OFFSETS, leader=2)

    described = client.ask(DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse)

    assert commit_offset(client, GROUP, 7) == ErrorCode.NOT_COORDINATOR
    assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    found = client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse)
    # Broker 2 is not registered, so nobody can be named.
    assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_regained_shard_loads_once_all_of_its_log_is_committed(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    client.send(commit(5), 8)
    change_partition(machine, OFFSETS, leader=2)
    assert commit_code(client) == ErrorCode.NOT_COORDINATOR

    change_partition(machine, OFFSETS, leader=1)

    assert commit_offset(client, GROUP, 6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    fetched_by(machine, partition, 2)
    # The refused commit was in the log, and its leader commits what it has.
    assert committed_offset(client, GROUP) == 5
    client.send(commit(6), 8)
    fetched_by(machine, partition, 2)
    assert commit_code(client) == ErrorCode.NONE
    machine.check_invariants()


def test_groups_of_a_shard_that_loads_are_not_left_out_of_a_list_in_silence(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    client.send(commit(5), 8)
    change_partition(machine, OFFSETS, leader=2)
    assert commit_code(client) == ErrorCode.NOT_COORDINATOR
    elsewhere = client.ask(ListGroupsRequest(), ListGroupsResponse)

    change_partition(machine, OFFSETS, leader=1)
    loading = client.ask(ListGroupsRequest(), ListGroupsResponse)
    fetched_by(machine, partition, 2)
    loaded = client.ask(ListGroupsRequest(), ListGroupsResponse)

    assert (elsewhere.error_code, elsewhere.groups) == (ErrorCode.NONE, [])
    assert (loading.error_code, loading.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert [each.group_id for each in loaded.groups] == [GROUP]


def test_new_epoch_of_the_same_leader_disturbs_nothing(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    client.send(commit(5), 8)

    change_partition(machine, OFFSETS, leader=1)

    assert client.is_waiting
    fetched_by(machine, partition, 2)
    assert commit_code(client) == ErrorCode.NONE


def test_commit_that_takes_too_long_is_refused_and_counts_when_it_is_committed_all_the_same(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    client.send(commit(5), 8)

    machine.advance(machine.config.offsets_commit_timeout_ms - 1)
    waits = client.is_waiting
    machine.advance(1)

    assert waits
    assert commit_code(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shown_offset(machine) == 1
    fetched_by(machine, partition, 2)
    assert client.is_waiting
    assert shown_offset(machine) == 5


def test_refused_append_is_answered_after_what_was_in_flight_before_it(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    other = machine.connect()
    client.send(commit(5), 8)
    partition.configure(min_insync_replicas=2)
    change_partition(machine, OFFSETS, isr=[1])

    other.send(commit(6), 8)

    assert client.is_waiting
    assert other.is_waiting
    change_partition(machine, OFFSETS, isr=[1, 2])
    fetched_by(machine, partition, 2)
    assert commit_code(client) == ErrorCode.NONE
    assert commit_code(other) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shown_offset(machine) == 5


def test_connection_that_leaves_is_not_answered(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    leaving = machine.connect()
    leaving.send(commit(5), 8)
    leaving.leave()
    del machine.clients[leaving.number]

    fetched_by(machine, partition, 2)

    assert shown_offset(machine) == 5
    assert client.is_waiting


def test_offset_that_is_committed_again_does_not_expire_meanwhile() -> None:
    machine = InProcess(
        settings={
            "offsets.topic.num.partitions": "1",
            "offsets.retention.minutes": "1",
            "offsets.retention.check.interval.ms": "1000",
        }
    )
    client = machine.connect()
    create_topic(client)
    assert commit_offset(client, GROUP, 1) == 0
    machine.advance(59_500)
    change_partition(machine, OFFSETS, leader=1, isr=[1, 2], replicas=[1, 2])
    partition = machine.broker.partitions.get(OFFSETS)
    client.send(commit(5), 8)

    machine.advance(1_500)
    fetched_by(machine, partition, 2)

    assert commit_code(client) == ErrorCode.NONE
    fetched_by(machine, partition, 2)
    assert shown_offset(machine) == 5
    machine.check_invariants()


def test_offset_of_a_deleted_topic_goes_even_if_its_commit_was_in_flight(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    other = machine.connect()
    create_topic(other, "other")
    client.send(commit(5, "other"), 8)

    delete_topic(other, "other")
    fetched_by(machine, partition, 2)
    fetched_by(machine, partition, 2)

    assert commit_code(client) == ErrorCode.NONE
    assert machine.broker.shards.committed_on("other") == {}
    machine.check_invariants()


def test_offset_of_a_topic_that_is_deleted_while_its_shard_loads_goes_too(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    other = machine.connect()
    create_topic(other, "other")
    client.send(commit(5, "other"), 8)
    change_partition(machine, OFFSETS, leader=2)
    assert commit_code(client) == ErrorCode.NOT_COORDINATOR
    change_partition(machine, OFFSETS, leader=1)
    assert machine.broker.shards.loaded() == []

    delete_topic(other, "other")
    create_topic(other, "other")
    fetched_by(machine, partition, 2)
    fetched_by(machine, partition, 2)

    assert machine.broker.shards.loaded() == [0]
    assert machine.broker.shards.committed_on("other") == {}
    assert shown_offset(machine) == 1
    machine.check_invariants()


def test_reads_that_were_refused_are_not_kept_until_the_log_goes_on(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    reader = machine.connect()
    client.send(commit(5), 8)
    partition.configure(min_insync_replicas=2)
    change_partition(machine, OFFSETS, isr=[1])
    hosted = machine.broker.groups.shards.by_number[0]

    for _ in range(3):
        reader.send(fetch_offsets())
        machine.advance(machine.config.offsets_commit_timeout_ms)
        reader.take(OffsetFetchResponse)

    assert hosted.in_flight == 1, "the commit, which may still come true"
    change_partition(machine, OFFSETS, isr=[1, 2])
    fetched_by(machine, partition, 2)
    assert hosted.in_flight == 0
    assert shown_offset(machine) == 5
