"""What clients of a leader see of its followers: commits, offsets, deletes, and where to read."""

import pytest

from ledgerstone.metadata.image import MIGRATING
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from ledgerstone.protocol.messages.fetch import FetchPartitionResponse, FetchResponse
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from ledgerstone.protocol.messages.metadata_records import (
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ledgerstone.protocol.messages.produce import ProducePartitionResponse, ProduceResponse
from ledgerstone.replication.partition import Partition
from ledgerstone.server.isr.view import samples
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import T0, batch
from tests.kit.roles import change_partition, leader_of
from tests.unit.server.asks import TOPIC, fetch, produce, produced, values_in, write
from tests.unit.server.leading_kit import LED, fence, follow, isr_of, led_by_one, register

ONE = batch(("key", "value"))


@pytest.fixture
def partition(machine: InProcess, client: Client) -> Partition:
    """Broker 1 leads, 2 is in sync, and both must be."""
    made = led_by_one(machine, client, min_insync_replicas="2")
    change_partition(machine, LED, isr=[1, 2])
    return made


def taken(client: Client) -> ProducePartitionResponse:
    return client.take(ProduceResponse).responses[0].partition_responses[0]


# -- acks=all -------------------------------------------------------------------------------------


def test_too_few_in_sync(machine: InProcess, client: Client, partition: Partition) -> None:  # 78
    change_partition(machine, LED, isr=[1])
    consumer = machine.connect()

    all_of_them = produced(client, ONE, acks=-1)
    one_of_them = produced(client, ONE, acks=1)
    follow(machine.connect(), 0)
    seen = consumer.ask(fetch(), FetchResponse, 12).responses[0].partitions[0]

    assert all_of_them.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert one_of_them.error_code == ErrorCode.NONE
    assert partition.log.log_end_offset == 1
    assert values_in(seen) == []
    assert partition.log.high_watermark == 0


def test_produce_waits_for_the_members_that_are_left(  # 79
    machine: InProcess, client: Client, partition: Partition
) -> None:
    register(machine, 3)
    change_partition(machine, LED, isr=[1, 2, 3], replicas=[1, 2, 3])
    client.send(produce(ONE, acks=-1))
    follow(machine.connect(), 1)
    waits = client.is_waiting

    change_partition(machine, LED, isr=[1, 2])

    assert waits
    assert taken(client).error_code == ErrorCode.NONE


def test_produce_that_too_few_are_left_for_is_not_committed(  # 79
    machine: InProcess, client: Client, partition: Partition
) -> None:
    """The high watermark stands still, so the producer learns that its time was up."""
    client.send(produce(ONE, acks=-1))
    fence(machine, 2)

    change_partition(machine, LED, isr=[1])
    machine.advance(1_000)

    assert taken(client).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert partition.log.high_watermark == 0


def test_each_batch_of_a_partition_that_is_named_twice_waits_for_its_replicas(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    twice = produce(ONE, acks=-1)
    twice.topic_data[0].partition_data.append(produce(ONE).topic_data[0].partition_data[0])
    other = machine.connect()
    client.send(twice)
    other.send(twice)

    follow(machine.connect(), 1)
    follow(machine.connect(), 3)
    machine.advance(1_000)

    first, second = client.take(ProduceResponse), other.take(ProduceResponse)
    assert [each.error_code for each in first.responses[0].partition_responses] == [0, 0]
    assert [each.error_code for each in second.responses[0].partition_responses] == [
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
    ]


def test_nothing_of_a_partition_that_is_named_twice_is_acknowledged_without_its_replicas(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    twice = produce(ONE, acks=-1)
    twice.topic_data[0].partition_data.append(produce(ONE).topic_data[0].partition_data[0])
    client.send(twice)

    machine.advance(1_000)

    answers = client.take(ProduceResponse).responses[0].partition_responses
    assert [each.error_code for each in answers] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert partition.log.high_watermark == 0


def test_newcomer_counts_for_a_commit_before_the_controller_has_agreed(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    """Kafka counts the maximal ISR when it looks for enough replicas after the append."""
    role = leader_of(partition)
    change_partition(machine, LED, isr=[1])
    assert not role.has_enough_for_commit
    role.follower_fetched(
        2, fetch_offset=0, log_start_offset=0, broker_epoch=-1, now_ms=machine.clock.monotonic_ms()
    )

    assert role.isr == (1,)
    assert role.has_enough_for_commit


def test_leader_that_loses_its_lead_tells_a_parked_produce_where_to_go(  # 80
    machine: InProcess, client: Client, partition: Partition
) -> None:
    client.send(produce(ONE, acks=-1))

    change_partition(machine, LED, leader=2, isr=[2])
    response = client.take(ProduceResponse)

    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)
    assert [each.host for each in response.node_endpoints] == ["broker-2"]


def test_topic_made_anew_says_nothing_about_a_parked_produce(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    """Deleted and created in one step: nothing in between tells the producer."""
    client.send(produce(ONE, acks=-1))
    old, new = machine.broker.image.topics[TOPIC].topic_id, bytes(15) + b"n"
    machine.broker.controller_link.write(
        [
            RemoveTopicRecord(topic_id=old),
            TopicRecord(name=TOPIC, topic_id=new),
            PartitionRecord(
                partition_id=0,
                topic_id=new,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[MIGRATING],
            ),
        ]
    )
    machine.perform(machine.broker.changed_from_outside())
    while machine.broker.partitions.backlog:
        machine.tick()
    write(machine.connect(), "of the new topic")

    assert taken(client).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- offsets --------------------------------------------------------------------------------------


def list_offsets(
    client: Client, timestamp: int, *, replica_id: int = -1, version: int = 11
) -> tuple[int, int]:
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsRequestTopic(TOPIC, [asked])]
    )
    answer = client.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]
    return answer.error_code, answer.offset


def test_new_leader_does_not_say_what_is_committed_before_it_knows(  # 87
    machine: InProcess, client: Client, partition: Partition
) -> None:
    produced(client, ONE)
    change_partition(machine, LED, leader=2, isr=[1, 2])
    change_partition(machine, LED, leader=1)

    latest, old = list_offsets(client, -1), list_offsets(client, -1, version=4)
    earliest, by_time = list_offsets(client, -2), list_offsets(client, 0)
    replica = list_offsets(client, -1, replica_id=2)
    never = list_offsets(client, T0 + 1_000_000)
    follow(machine.connect(), 1)

    assert latest == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert old == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert earliest == (ErrorCode.NONE, 0)
    assert by_time == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert never == (ErrorCode.NONE, -1)
    assert replica == (ErrorCode.NONE, 1)
    assert list_offsets(client, -1) == (ErrorCode.NONE, 1)


def test_follower_answers_a_debugger_only(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    change_partition(machine, LED, leader=2, isr=[1, 2])

    assert list_offsets(client, -1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert list_offsets(client, -1, replica_id=-2) == (ErrorCode.NONE, 0)


# -- deletes --------------------------------------------------------------------------------------


def delete_records(offset: int) -> DeleteRecordsRequest:
    asked = [DeleteRecordsRequestPartition(partition_index=0, offset=offset)]
    topics = [DeleteRecordsRequestTopic(name=TOPIC, partitions=asked)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=1_000)


def deleted(client: Client) -> tuple[int, int]:
    answer = client.take(DeleteRecordsResponse).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def follow_with_start(client: Client, offset: int, log_start_offset: int) -> None:
    follow(client, offset, log_start_offset=log_start_offset)


def test_delete_waits_for_every_live_replica(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "a", "b")
    follower = machine.connect()
    follow_with_start(follower, 2, 0)
    client.send(delete_records(1))
    waits = client.is_waiting

    follow_with_start(follower, 2, 1)

    assert waits
    assert deleted(client) == (ErrorCode.NONE, 1)


def test_delete_that_replicas_do_not_follow_times_out(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "a", "b")
    follow_with_start(machine.connect(), 2, 0)
    client.send(delete_records(1))

    machine.advance(1_000)

    assert deleted(client) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert partition.log.log_start_offset == 1


def test_each_delete_of_a_partition_that_is_named_twice_waits_for_the_replicas(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "a", "b")
    follow_with_start(machine.connect(), 2, 0)
    twice = delete_records(1)
    twice.topics[0].partitions += delete_records(2).topics[0].partitions
    client.send(twice)

    follow_with_start(machine.connect(), 2, 1)
    machine.advance(1_000)

    answers = client.take(DeleteRecordsResponse).topics[0].partitions
    assert [(each.error_code, each.low_watermark) for each in answers] == [
        (ErrorCode.NONE, 1),
        (ErrorCode.REQUEST_TIMED_OUT, 0),
    ]


def test_delete_does_not_wait_for_a_fenced_broker(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "a", "b")
    follow_with_start(machine.connect(), 2, 0)
    fence(machine, 2)

    client.send(delete_records(1))

    assert deleted(client) == (ErrorCode.NONE, 1)


def test_delete_is_refused_once_the_lead_is_lost(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "a", "b")
    follow_with_start(machine.connect(), 2, 0)
    client.send(delete_records(1))

    change_partition(machine, LED, leader=2, isr=[2])

    assert deleted(client) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


# -- where to read --------------------------------------------------------------------------------


def read_in(client: Client, rack: str, offset: int = 0) -> FetchPartitionResponse:
    request = fetch({0: offset}, rack_id=rack, max_wait_ms=500, min_bytes=1)
    return client.ask(request, FetchResponse, 12).responses[0].partitions[0]


@pytest.fixture
def racks() -> tuple[InProcess, Client]:
    """Broker 1 is in rack a, 2 and 3 are in b; 2 is ahead, 4 in c is not in sync."""
    machine = InProcess(
        settings={
            "broker.rack": "a",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        },
    )
    client = machine.connect()
    led_by_one(machine, client)
    for broker_id, rack in ((2, "b"), (3, "b"), (4, "c")):
        register(machine, broker_id, rack=rack)
    change_partition(machine, LED, isr=[1, 2, 3], replicas=[1, 2, 3, 4])
    write(client, "first", "second")
    follower = machine.connect()
    for broker_id, offset in ((2, 2), (3, 1), (4, 0)):
        follow(follower, offset, replica=broker_id)
    return machine, client


@pytest.mark.parametrize(
    ("rack", "offset", "chosen"),
    [("b", 0, 2), ("b", 1, 2), ("b", 2, 2), ("a", 0, -1), ("c", 0, -1), ("", 0, -1), ("d", 0, -1)],
)
def test_consumer_is_sent_to_the_best_replica_in_its_rack(
    racks: tuple[InProcess, Client], rack: str, offset: int, chosen: int
) -> None:
    machine, _ = racks
    assert isr_of(machine) == (1, 2, 3)

    reader = machine.connect()
    reader.send(fetch({0: offset}, rack_id=rack, max_wait_ms=500, min_bytes=1), 12)
    if reader.is_waiting:
        machine.advance(500)
    answer = reader.take(FetchResponse).responses[0].partitions[0]

    assert answer.preferred_read_replica == chosen
    if chosen >= 0:
        assert (answer.records or b"") == b""
        assert answer.error_code == ErrorCode.NONE


def test_consumer_in_a_rack_reads_from_the_leader_unless_replicas_are_chosen_by_rack(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "value")
    follow(machine.connect(), 1)

    answer = read_in(machine.connect(), "b")

    assert answer.preferred_read_replica == -1
    assert values_in(answer) == ["value"]


# -- metrics --------------------------------------------------------------------------------------


def test_metrics_say_who_lags_and_what_that_costs(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "first", "second", "third")
    follow(machine.connect(), 1)
    change_partition(machine, LED, isr=[1])

    found = {each.name: each.value for each in samples(machine.broker.partitions)}

    assert found == {
        "kafka_server_replicamanager_underreplicatedpartitions": 1,
        "kafka_server_replicamanager_underminisrpartitioncount": 1,
        "kafka_server_replicamanager_atminisrpartitioncount": 0,
        "ledgerstone_follower_lag_max": 2,
        "ledgerstone_follower_lag_sum": 2,
    }
