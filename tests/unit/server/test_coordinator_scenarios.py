"""Scenarios 89 to 99 of the cluster, as far as one broker shows them: coordinators come and go.

Broker 2 is a follower that exists in the metadata alone; `fetched_by` is its progress. The same on
several brokers that replicate: tests/crash/test_coordinator_failover.py."""

import errno

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.end_txn import EndTxnResponse
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
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
from ledgerstone.replication import sliced_replay
from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.roles import change_partition, fetched_by
from tests.unit.server.asks import TOPIC, commit_offset, committed_offset, create_topic, join
from tests.unit.server.transactions_kit import MarkerWriter, TxnProducer, find_coordinator

GROUP = "readers"
OFFSETS = TopicPartition("__consumer_offsets", 0)
STATE = TopicPartition("__transaction_state", 0)
P0 = TopicPartition(TOPIC, 0)
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
ELSEWHERE = ErrorCode.NOT_COORDINATOR


@pytest.fixture
def machine() -> InProcess:
    one_each = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    return InProcess(settings=one_each)


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads take many turns."""
    monkeypatch.setattr(sliced_replay, "SLICE_RECORDS", 5)


def commit(offset: int) -> OffsetCommitRequest:
    wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[wanted])]
    return OffsetCommitRequest(group_id=GROUP, topics=topics)


def commit_code(client: Client) -> int:
    return client.take(OffsetCommitResponse).topics[0].partitions[0].error_code


def fetch_code(client: Client, group: str = GROUP) -> int:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    return client.ask(request, OffsetFetchResponse).groups[0].error_code


def next_load_ms(machine: InProcess) -> int | None:
    return machine.broker.groups.next_deadline_ms


def replicated(machine: InProcess, topic_partition: TopicPartition) -> Partition:
    change_partition(machine, topic_partition, leader=1, isr=[1, 2], replicas=[1, 2])
    return machine.broker.partitions.get(topic_partition)


def test_89_a_moving_coordinator_says_where_it_is_and_keeps_what_was_committed(
    machine: InProcess, client: Client, slices: None
) -> None:
    create_topic(client)
    groups = [f"group-{number}" for number in range(20)]
    for number, group in enumerate(groups):
        assert commit_offset(client, group, number) == 0
    change_partition(machine, OFFSETS, leader=2, isr=[1, 2], replicas=[1, 2])
    assert fetch_code(client, groups[0]) == ELSEWHERE

    change_partition(machine, OFFSETS, leader=1, isr=[1])
    assert fetch_code(client, groups[0]) == LOADING
    assert commit_offset(client, groups[0], 1) == LOADING
    assert next_load_ms(machine) == 0
    # Unloaded before the load has ended, and loaded again.
    change_partition(machine, OFFSETS, leader=2, isr=[1, 2])
    assert fetch_code(client, groups[0]) == ELSEWHERE
    assert next_load_ms(machine) is None
    assert machine.broker.groups.memory.offsets_bytes == 0
    change_partition(machine, OFFSETS, leader=1, isr=[1])
    turns = 0
    while fetch_code(client, groups[0]) == LOADING:
        machine.tick()
        turns += 1

    assert turns > 2
    assert [committed_offset(client, group) for group in groups] == list(range(20))
    machine.check_invariants()


def test_89_transactions_are_loaded_in_slices_too(
    machine: InProcess, client: Client, slices: None
) -> None:
    assert find_coordinator(client) == 0
    producers = [TxnProducer(client, f"txn-{number}") for number in range(20)]
    for producer in producers:
        assert producer.init() == 0
    change_partition(machine, STATE, leader=2, isr=[1, 2], replicas=[1, 2])
    assert producers[0].init() == ELSEWHERE
    change_partition(machine, STATE, leader=1, isr=[1])

    turns = 0
    while producers[0].described().error_code == LOADING:
        # What goes by the clock leaves a half-loaded shard alone.
        machine.broker.transactions.look_now()
        machine.tick()
        turns += 1

    assert turns > 2
    assert [producer.init() for producer in producers] == [0] * 20
    assert [producer.producer_epoch for producer in producers] == [1] * 20


def test_89_a_log_that_the_disk_does_not_give_back_has_no_coordinator(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    assert commit_offset(client, GROUP, 1) == 0
    change_partition(machine, OFFSETS, leader=2, isr=[1, 2], replicas=[1, 2])
    machine.fs.fail_matching("pread", "*/__consumer_offsets-0/*.log", errno.EIO)

    change_partition(machine, OFFSETS, leader=1, isr=[1])
    machine.tick()

    assert fetch_code(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert next_load_ms(machine) is None
    machine.check_invariants()


def test_89_members_have_a_full_session_after_the_load(machine: InProcess, client: Client) -> None:
    create_topic(client)
    client.send(join(GROUP), 3)
    machine.tick()
    joined = client.take(JoinGroupResponse)
    assignment = SyncGroupAssignment(joined.member_id, b"all")
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assignment],
    )
    assert client.ask(sync, SyncGroupResponse, 3).error_code == 0
    beat = HeartbeatRequest(
        group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id
    )
    session_ms = join(GROUP).session_timeout_ms
    machine.advance(session_ms - 1000)
    change_partition(machine, OFFSETS, leader=2, isr=[1, 2], replicas=[1, 2])
    assert client.ask(beat, HeartbeatResponse).error_code == ELSEWHERE
    machine.advance(session_ms)

    change_partition(machine, OFFSETS, leader=1, isr=[1])

    machine.advance(session_ms - 1000)
    assert client.ask(beat, HeartbeatResponse).error_code == 0
    machine.advance(session_ms + 1000)
    assert client.ask(beat, HeartbeatResponse).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_90_a_commit_that_is_not_committed_at_the_failover_was_no_success(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    assert commit_offset(client, GROUP, 1) == 0
    replicated(machine, OFFSETS)
    client.send(commit(2), 8)
    assert client.is_waiting

    change_partition(machine, OFFSETS, leader=2)

    assert commit_code(client) == ELSEWHERE


def test_94_a_lost_answer_is_not_given_again_when_leadership_returns(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    assert commit_offset(client, GROUP, 1) == 0
    partition = replicated(machine, OFFSETS)
    other = machine.connect()
    client.send(commit(2), 8)
    change_partition(machine, OFFSETS, leader=2)
    assert commit_code(client) == ELSEWHERE
    change_partition(machine, OFFSETS, leader=1)

    # Replayed, and not committed: nothing is said from it yet, good or bad.
    assert fetch_code(other) == LOADING
    fetched_by(machine, partition, 2)

    assert client.is_waiting, "answered once"
    assert committed_offset(other, GROUP) == 2


def test_94_a_decision_of_an_older_term_is_not_answered(machine: InProcess, client: Client) -> None:
    create_topic(client)
    assert find_coordinator(client) == 0
    producer = TxnProducer(client)
    assert producer.init() == 0
    assert producer.add(P0) == 0
    machine.broker.transactions.settling.markers = writer = MarkerWriter()
    partition = replicated(machine, STATE)
    client.send(producer.end_request(commit=True), 4)
    assert client.is_waiting

    # The same broker in a new term is a new coordinator.
    change_partition(machine, STATE, leader=1)

    assert client.take(EndTxnResponse).error_code == ELSEWHERE
    assert writer.requests == [], "what is not committed is marked nowhere"
    fetched_by(machine, partition, 2)
    machine.tick()
    fetched_by(machine, partition, 2)
    assert writer.marked == [[P0]]
    assert writer.requests[0].markers[0].coordinator_epoch == partition.leader_epoch
    assert producer.end(commit=True) == 0


def test_96_a_late_end_does_not_hit_the_next_transaction(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    assert find_coordinator(client) == 0
    producer = TxnProducer(client)
    assert producer.init() == 0
    assert producer.add(P0) == 0
    late = producer.end_request(commit=True)
    assert producer.end(commit=False, version=5) == 0
    assert producer.add(P0) == 0
    change_partition(machine, STATE, leader=2, isr=[1, 2], replicas=[1, 2])
    change_partition(machine, STATE, leader=1, isr=[1])

    assert client.ask(late, EndTxnResponse, 5).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.described().transaction_state == "Ongoing"


def test_99_a_broker_that_slept_through_its_replacement_acknowledges_nothing(
    machine: InProcess, client: Client
) -> None:
    """Requests are read before the news of the new leader: they were in the socket's buffer."""
    create_topic(client)
    assert commit_offset(client, GROUP, 1) == 0
    replicated(machine, OFFSETS)
    for offset in (2, 3):
        client.send(commit(offset), 8)
    reading = machine.connect()
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    reading.send(request)
    # Behind commits in flight nothing is read either.
    assert reading.is_waiting

    change_partition(machine, OFFSETS, leader=2)

    assert commit_code(client) == ELSEWHERE
    assert commit_code(client) == ELSEWHERE
    assert reading.take(OffsetFetchResponse).groups[0].error_code == ELSEWHERE
