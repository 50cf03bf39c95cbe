"""Fetches of followers: what they read, and what their leader learns from them."""

from dataclasses import replace

import pytest

from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.metadata.topic_names import TRANSACTION_STATE
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic
from ledgerstone.protocol.messages.produce import ProduceResponse
from ledgerstone.records.batch import iter_headers
from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.roles import change_partition, leader_of
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    fetch,
    produce,
    produced,
    values_in,
    write,
)
from tests.unit.server.leading_kit import (
    LED,
    SECOND_EPOCH,
    ask,
    fence,
    follow,
    isr_of,
    led_by_one,
    register,
)
from tests.unit.server.transactions_kit import TxnProducer, find_coordinator


@pytest.fixture
def partition(machine: InProcess, client: Client) -> Partition:
    return led_by_one(machine, client)


def test_follower_reads_to_the_end_of_the_log(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "first", "second")
    change_partition(machine, LED, isr=[1, 2])
    produced(client, batch(("key", "not committed")))

    answer = follow(machine.connect(), 1).responses[0].partitions[0]

    assert values_in(answer) == ["second", "not committed"]
    assert answer.high_watermark == 2


def test_follower_that_has_caught_up_joins_and_is_waited_for(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "value")
    follower = machine.connect()

    follow(follower, 0)
    behind = isr_of(machine)
    follow(follower, 1)
    joined = isr_of(machine)
    client.send(produce(batch(("key", "more")), acks=-1))
    waits = client.is_waiting
    answer = follow(follower, 2).responses[0].partitions[0]

    assert (behind, joined) == ((1,), (1, 2))
    assert partition.isr == (1, 2)
    assert waits
    assert answer.high_watermark == 2
    response = client.take(ProduceResponse).responses[0].partition_responses[0]
    assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("version", [10, 14, 17])
def test_replica_is_named_in_the_request_or_in_its_tag(
    machine: InProcess, client: Client, partition: Partition, version: int
) -> None:
    follow(machine.connect(), 0, version=version)

    assert leader_of(partition).in_sync.followers[2].end_offset == 0
    assert isr_of(machine) == (1, 2)


def test_parked_fetch_of_a_follower_is_answered_by_an_append_that_nobody_has_committed(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    change_partition(machine, LED, isr=[1, 2])
    follower, consumer = machine.connect(), machine.connect()
    follower.send(ask(follower, 0, wait_ms=500), 17)
    consumer.send(fetch(max_wait_ms=500, min_bytes=1), 12)

    produced(client, batch(("key", "value")))
    answer = follower.take(FetchResponse).responses[0].partitions[0]
    waits = consumer.is_waiting
    follow(follower, 1)

    assert values_in(answer) == ["value"]
    assert answer.high_watermark == 0
    assert waits
    assert values_in(consumer.take(FetchResponse).responses[0].partitions[0]) == ["value"]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"leader_epoch": 0, "replica": 3}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": 3}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"epoch": SECOND_EPOCH - 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"last_fetched_epoch": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
    ids=["newer assignment", "not assigned", "newer epoch", "former life", "unknown epoch"],
)
def test_refused_fetch_leaves_what_is_known_of_the_follower(
    machine: InProcess,
    client: Client,
    partition: Partition,
    how: dict[str, int],
    code: ErrorCode,
) -> None:
    write(client, "value")
    before = replace(leader_of(partition).in_sync.followers[2])

    answer = follow(machine.connect(), 1, **how).responses[0].partitions[0]

    assert answer.error_code == code
    assert (answer.records or b"") == b""
    assert leader_of(partition).in_sync.followers[2] == before
    assert isr_of(machine) == (1,)


def test_offset_outside_the_log_leaves_what_is_known_of_the_follower(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    before = replace(leader_of(partition).in_sync.followers[2])

    answer = follow(machine.connect(), 5).responses[0].partitions[0]

    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader_of(partition).in_sync.followers[2] == before


def test_diverging_follower_is_told_where_and_nothing_else_happens(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "value")
    change_partition(machine, LED, leader=1)
    before = replace(leader_of(partition).in_sync.followers[2])

    answer = follow(machine.connect(), 2, last_fetched_epoch=0).responses[0].partitions[0]

    assert answer.diverging_epoch is not None
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert leader_of(partition).in_sync.followers[2] == before


def test_fenced_follower_reads_and_does_not_join(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    write(client, "value")
    fence(machine, 2)

    answer = follow(machine.connect(), 1).responses[0].partitions[0]

    assert answer.error_code == ErrorCode.NONE
    assert isr_of(machine) == (1,)
    assert leader_of(partition).in_sync.followers[2].end_offset == 1


def test_refusal_names_the_leader_and_where_it_is(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    change_partition(machine, LED, leader=2, isr=[2])
    consumer = machine.connect()
    topic_id = machine.broker.image.topics[TOPIC].topic_id

    request = fetch(leader_epoch=0)
    request.topics[0].topic_id = topic_id
    by_consumer = consumer.ask(request, FetchResponse, 16)
    by_follower = follow(machine.connect(), 0, version=16)
    by_producer = client.ask(produce(batch(("key", "value"))), ProduceResponse, 10)

    for response in (by_consumer, by_follower):
        leader = response.responses[0].partitions[0].current_leader
        assert leader is not None
        assert (leader.leader_id, leader.leader_epoch) == (2, 1)
    assert by_consumer.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert [(each.node_id, each.host) for each in by_consumer.node_endpoints] == [(2, "broker-2")]
    assert by_follower.node_endpoints == []
    refused = by_producer.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader is not None
    assert refused.current_leader.leader_id == 2
    assert [(each.node_id, each.port) for each in by_producer.node_endpoints] == [(2, 9092)]


# -- sessions -------------------------------------------------------------------------------------


def test_follower_in_a_session_is_told_what_changed(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    change_partition(machine, LED, isr=[1, 2])
    follower = machine.connect()
    opened = follow(follower, 0, leader_epoch=0, session_epoch=0)
    machine.advance(1_000)

    quiet = again(follower, opened.session_id, 1)
    known = replace(leader_of(partition).in_sync.followers[2])
    write(client, "value")
    news = again(follower, opened.session_id, 2)

    assert opened.session_id != 0
    assert quiet.responses == []
    assert known.last_fetch_ms == known.last_caught_up_ms == machine.clock.monotonic_ms()
    assert values_in(news.responses[0].partitions[0]) == ["value"]


def again(client: Client, session_id: int, epoch: int) -> FetchResponse:
    request = ask(client, 0, session_id=session_id, session_epoch=epoch)
    request.topics = []
    return client.ask(request, FetchResponse, 17)


@pytest.mark.parametrize("what", ["new epoch", "new life", "out of the ISR", "log start"])
def test_nothing_that_a_follower_must_know_is_taken_for_quiet(
    machine: InProcess, client: Client, partition: Partition, what: str
) -> None:
    write(client, "value")
    change_partition(machine, LED, isr=[1, 2])
    follower = machine.connect()
    opened = follow(follower, 1, leader_epoch=0, session_epoch=0)
    quiet = again(follower, opened.session_id, 1)
    code = ErrorCode.NONE
    match what:
        case "new epoch":
            change_partition(machine, LED, leader=1)
            code = ErrorCode.FENCED_LEADER_EPOCH
        case "new life":
            register(machine, 2, epoch=SECOND_EPOCH + 1)
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        case "out of the ISR":
            change_partition(machine, LED, isr=[1])
        case _:
            partition.log.raise_log_start_offset(1)

    response = again(follower, opened.session_id, 2)

    assert quiet.responses == []
    if what == "out of the ISR":
        assert isr_of(machine) == (1, 2), "it has joined again by this fetch"
    else:
        answer = response.responses[0].partitions[0]
        assert answer.error_code == code
        assert code or answer.log_start_offset == 1


def test_waiting_follower_is_told_of_all_that_changed_when_its_time_is_up(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    """The high watermark moves while it waits, and there are no records to wake it."""
    write(client, "value")
    register(machine, 3)
    change_partition(machine, LED, isr=[1, 2, 3], replicas=[1, 2, 3])
    produced(client, batch(("key", "more")))
    second, third = machine.connect(), machine.connect()
    opened = follow(second, 2, leader_epoch=0, session_epoch=0)
    request = ask(second, 2, session_id=opened.session_id, session_epoch=1, wait_ms=500)
    request.topics = []
    second.send(request, 17)

    follow(third, 2, replica=3, epoch=SECOND_EPOCH)
    waits = second.is_waiting
    machine.advance(500)

    assert opened.responses[0].partitions[0].high_watermark == 1
    assert waits
    answer = second.take(FetchResponse).responses[0].partitions[0]
    assert answer.high_watermark == 2


# -- throttles ------------------------------------------------------------------------------------


def test_follower_that_catches_up_gets_no_more_than_its_share(
    machine: InProcess, client: Client, partition: Partition
) -> None:
    throttle = machine.broker.isr.throttle
    throttle.configure(100, {TOPIC: ["0:1"]})
    large = batch(("key", "v" * 4_000))
    for _ in range(3):
        produced(client, large)
    follower = machine.connect()

    first = follow(follower, 0, partition_max_bytes=1)
    second = follow(follower, 1, partition_max_bytes=1)
    machine.advance(60_000)
    third = follow(follower, 1, partition_max_bytes=1)
    change_partition(machine, LED, isr=[1, 2])
    in_sync = follow(follower, 2, partition_max_bytes=1)

    sizes = [
        len(values_in(each.responses[0].partitions[0])) for each in (first, second, third, in_sync)
    ]
    assert sizes == [1, 0, 1, 1]
    assert leader_of(partition).in_sync.followers[2].end_offset == 2


def test_fetch_that_commits_a_decision_carries_what_it_led_to(
    machine: InProcess, client: Client
) -> None:
    """The end of a transaction is committed by a follower's fetch, and its marker appended then: to
    a partition that the same fetch has looked at already."""
    create_topic(client)
    assert find_coordinator(client) == 0
    producer = TxnProducer(client)
    assert producer.init() == 0
    assert producer.add(LED) == 0
    number = partition_for(producer.transactional_id, 2)
    state = TopicPartition(TRANSACTION_STATE, number)
    register(machine, 2)
    for each in (LED, state):
        change_partition(machine, each, isr=[1, 2], replicas=[1, 2])
    client.send(producer.end_request(commit=True), 4)
    follower = machine.connect()
    end_offset = machine.broker.partitions.get(state).log.log_end_offset
    request = ask(follower, 0, wait_ms=500)
    request.topics.append(
        FetchTopic(
            topic_id=machine.broker.image.topics[TRANSACTION_STATE].topic_id,
            partitions=[FetchPartition(number, fetch_offset=end_offset, partition_max_bytes=9999)],
        )
    )

    follower.send(request, 17)

    assert not follower.is_waiting, "the marker is there"
    answer = follower.take(FetchResponse)
    records = answer.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert [header.is_control for _, header in iter_headers(records)] == [True]
