"""Fetch: long polls, limits, sessions, epochs, and how far each reader sees."""

import gc
from typing import Any

import pytest

from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)
from ledgerstone.protocol.messages.produce import ProduceResponse
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.server.handlers import fetch_reading
from ledgerstone.storage.log_reader import ReadResult, read
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.roles import followed, led_by
from tests.unit.server.asks import (
    BY_NAME,
    TOPIC,
    create_topic,
    delete_topic,
    fetch,
    fetched,
    partitions_in,
    produce,
    produced,
    values_in,
    write,
)


@pytest.fixture
def reader(machine: InProcess, client: Client) -> Client:
    create_topic(client, partitions=3)
    return machine.connect()


# -- waiting ----------------------------------------------------------------------------------


def test_long_poll_is_answered_empty_when_its_time_is_up(
    machine: InProcess, reader: Client
) -> None:
    reader.send(fetch(max_wait_ms=500, min_bytes=1), BY_NAME)

    machine.advance(499)
    early = reader.is_waiting
    machine.advance(1)

    assert early
    assert values_in(reader.take(FetchResponse).responses[0].partitions[0]) == []


def test_long_poll_is_woken_by_a_produce(
    machine: InProcess, client: Client, reader: Client
) -> None:
    reader.send(fetch(max_wait_ms=500, min_bytes=1), BY_NAME)

    write(client, "news")

    assert values_in(reader.take(FetchResponse).responses[0].partitions[0]) == ["news"]
    assert len(machine.broker.purgatory) == 0


def test_producer_is_answered_before_those_who_wait_for_its_records(
    machine: InProcess, client: Client, reader: Client
) -> None:
    reader.send(fetch(max_wait_ms=500, min_bytes=1), BY_NAME)
    _, data = client.frame(produce(batch(("key", "news"))), 10)

    answer, *rest = machine.broker.receive(client.number, memoryview(bytearray(data)))
    machine.perform([answer])
    waits = reader.is_waiting
    machine.perform(rest)

    assert client.take(ProduceResponse).responses[0].partition_responses[0].error_code == 0
    assert waits
    assert values_in(reader.take(FetchResponse).responses[0].partitions[0]) == ["news"]


def test_growth_of_another_partition_does_not_wake_a_long_poll(
    client: Client, reader: Client
) -> None:
    reader.send(fetch({0: 0, 1: 0}, max_wait_ms=500, min_bytes=1), BY_NAME)

    write(client, "elsewhere", partition=2)
    waits = reader.is_waiting
    write(client, "here", partition=1)

    assert waits
    assert partitions_in(reader.take(FetchResponse)) == [0, 1]


def test_long_poll_waits_for_min_bytes_and_takes_what_there_is_at_the_end(
    machine: InProcess, client: Client, reader: Client
) -> None:
    reader.send(fetch(max_wait_ms=500, min_bytes=400), BY_NAME)

    write(client, "v" * 100)
    after_one = reader.is_waiting
    write(client, "w" * 300)

    assert after_one
    assert len(values_in(reader.take(FetchResponse).responses[0].partitions[0])) == 2

    reader.send(fetch({0: 1}, max_wait_ms=500, min_bytes=4_000), BY_NAME)
    machine.advance(500)

    assert len(values_in(reader.take(FetchResponse).responses[0].partitions[0])) == 1


def test_wait_for_min_bytes_reads_only_partitions_that_grew(
    machine: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of readers without a session, as librdkafka's: every batch would cost a read of them all."""
    count, wide = 50, "wide"
    create_topic(client, wide, partitions=count)
    machine.advance(1_000)
    one = batch(("k", "v"))
    offsets = dict.fromkeys(range(count), 0)
    reader, reads = machine.connect(), list[Any]()
    request = fetch(offsets, topic=wide, max_wait_ms=500, min_bytes=10 * len(one))
    reader.send(request, BY_NAME)

    def counted(*given: Any, **named: Any) -> ReadResult:
        reads.append(given)
        return read(*given, **named)

    monkeypatch.setattr(fetch_reading, "read", counted)

    for number in range(9):
        produced(client, one, wide, number % 5)
    waits, reads_before = reader.is_waiting, len(reads)
    produced(client, one, wide, 40)

    assert waits
    assert reads_before == 9
    assert len(reads) == 10 + count
    found = reader.take(FetchResponse).responses[0].partitions
    assert sum(len(values_in(each)) for each in found) == 10


def test_reader_in_an_older_segment_does_not_wait_for_more_bytes_of_it(
    machine: InProcess, client: Client, reader: Client
) -> None:
    """As in Kafka. A reader of small segments waited its time for each of them."""
    write(client, "old")
    machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log.roll()
    write(client, "new")

    answer = fetched(reader, fetch(max_wait_ms=500, min_bytes=4_000))
    reader.send(fetch({0: 1}, max_wait_ms=500, min_bytes=4_000), BY_NAME)

    assert values_in(answer) == ["old"]
    assert reader.is_waiting


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (500, 0), (500, -1)])
def test_fetch_that_may_not_or_need_not_wait_is_answered_at_once(
    reader: Client, max_wait_ms: int, min_bytes: int
) -> None:
    answer = fetched(reader, fetch(max_wait_ms=max_wait_ms, min_bytes=min_bytes))

    assert answer.error_code == ErrorCode.NONE


def test_error_in_one_partition_ends_the_wait_of_all(reader: Client) -> None:
    request = fetch({0: 0, 1: 99, 7: 0}, max_wait_ms=500, min_bytes=1)

    answers = reader.ask(request, FetchResponse, BY_NAME).responses[0].partitions

    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_deleting_the_topic_ends_the_wait(client: Client, reader: Client) -> None:
    reader.send(fetch(max_wait_ms=500, min_bytes=1), BY_NAME)

    delete_topic(client)

    assert (
        reader.take(FetchResponse).responses[0].partitions[0].error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


# -- limits -----------------------------------------------------------------------------------


def test_first_batch_is_given_though_it_is_larger_than_every_limit(
    client: Client, reader: Client
) -> None:
    write(client, "v" * 5_000, "second")

    for size in (0, 1, -1, -(2**31)):
        answer = fetched(reader, fetch(partition_max_bytes=size, max_bytes=size))

        assert [len(value) for value in values_in(answer)] == [5_000]


def test_only_the_first_partition_with_data_may_exceed_the_limit(
    client: Client, reader: Client
) -> None:
    for partition in (1, 2):
        write(client, "v" * 5_000, partition=partition)

    request = fetch({0: 0, 1: 0, 2: 0}, max_bytes=100)
    answers = reader.ask(request, FetchResponse, BY_NAME).responses[0].partitions

    assert [len(values_in(answer)) for answer in answers] == [0, 1, 0]


def test_partition_limit_gives_whole_batches_only(client: Client, reader: Client) -> None:
    write(client, "a" * 100, "b" * 100, "c" * 100)

    answer = fetched(reader, fetch(partition_max_bytes=400))

    assert [value[0] for value in values_in(answer)] == ["a", "b"]


def test_broker_limits_what_a_reader_asks_for() -> None:
    machine = InProcess(settings={"fetch.max.bytes": "1024"})
    client = machine.connect()
    create_topic(client)
    write(client, *("v" * 500 for _ in range(5)))

    answer = fetched(client, fetch(partition_max_bytes=1 << 30, max_bytes=1 << 30))

    assert len(values_in(answer)) == 1


def test_partition_named_twice_is_answered_once_by_its_last_wish(
    client: Client, reader: Client
) -> None:
    write(client, "a", "b")
    partitions = [
        FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
        for offset in (0, 1)
    ]
    request = FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=partitions)])

    answers = reader.ask(request, FetchResponse, BY_NAME).responses[0].partitions

    assert [values_in(answer) for answer in answers] == [["b"]]


# -- offsets, epochs, isolation ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "code"),
    [
        (-1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, ErrorCode.NONE),
        (3, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1 << 62, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_offset_outside_the_log_is_out_of_range_and_its_end_is_not(
    client: Client, reader: Client, offset: int, code: int
) -> None:
    write(client, "a", "b")

    answer = fetched(reader, fetch({0: offset}))

    assert answer.error_code == code


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epoch_of_the_request_must_be_the_current_one(
    machine: InProcess, reader: Client, epoch: int, code: int
) -> None:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.assume(led_by(1, 1, (1,)))

    answer = fetched(reader, fetch(leader_epoch=epoch))

    assert answer.error_code == code


def test_reader_whose_epoch_ended_earlier_here_is_told_where(
    machine: InProcess, client: Client, reader: Client
) -> None:
    write(client, "a", "b")
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.assume(led_by(1, 3, (1,)))
    write(client, "c")

    diverged = fetched(reader, fetch({0: 3}, last_fetched_epoch=0))
    agreed = fetched(reader, fetch({0: 2}, last_fetched_epoch=0))

    assert diverged.diverging_epoch is not None
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 2)
    assert agreed.diverging_epoch is None
    assert values_in(agreed) == ["c"]


def test_partition_that_is_led_elsewhere_is_served_to_readers_that_know_of_followers(
    machine: InProcess, client: Client, reader: Client
) -> None:
    write(client, "committed")
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.assume(led_by(2, 1, (1, 2)))

    old = reader.ask(fetch(), FetchResponse, 10).responses[0].partitions[0]
    new = fetched(reader)

    assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert new.error_code == ErrorCode.NONE
    assert values_in(new) == ["committed"]


def test_end_offset_of_an_epoch_is_told(machine: InProcess, client: Client, reader: Client) -> None:
    write(client, "a", "b")
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.assume(led_by(1, 2, (1,)))
    asked = [
        OffsetForLeaderEpochRequestPartition(partition=0, current_leader_epoch=at, leader_epoch=of)
        for at, of in ((2, 0), (1, 0), (9, 0), (-1, 2))
    ]
    topics = [OffsetForLeaderEpochRequestTopic(topic=TOPIC, partitions=asked)]

    response = reader.ask(OffsetForLeaderEpochRequest(topics=topics), OffsetForLeaderEpochResponse)

    answers = response.topics[0].partitions
    assert [(each.error_code, each.end_offset) for each in answers] == [
        (ErrorCode.NONE, 2),
        (ErrorCode.FENCED_LEADER_EPOCH, -1),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1),
        (ErrorCode.NONE, 2),
    ]


def test_read_committed_ends_before_an_open_transaction_and_names_aborted_ones(
    machine: InProcess, client: Client, reader: Client
) -> None:
    write(client, "before")
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    transactional = batch(
        ("key", "undecided"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    partition.append(transactional, acks=1)

    uncommitted = fetched(reader, fetch(isolation_level=0))
    open_one = fetched(reader, fetch(isolation_level=1))
    marker = end_txn_marker(
        commit=False, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=0
    )
    partition.append(marker, acks=1, origin=Origin.COORDINATOR)
    aborted = fetched(reader, fetch(isolation_level=1))

    assert values_in(uncommitted) == ["before", "undecided"]
    assert values_in(open_one) == ["before"]
    assert open_one.last_stable_offset == 1
    assert [
        (each.producer_id, each.first_offset) for each in aborted.aborted_transactions or ()
    ] == [(5, 1)]
    assert aborted.last_stable_offset == 3


def test_reader_waits_for_what_is_not_replicated_yet(
    machine: InProcess, client: Client, reader: Client
) -> None:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.assume(led_by(1, 1, (1, 2)))
    produced(client, batch(("key", "value")))
    reader.send(fetch(max_wait_ms=1_000, min_bytes=1), BY_NAME)

    waits = reader.is_waiting
    followed(partition, 2, 1)
    machine.broker.appended(partition.topic_partition)
    machine.tick()

    assert waits
    assert values_in(reader.take(FetchResponse).responses[0].partitions[0]) == ["value"]


def test_topic_is_named_by_id_from_version_13_on(
    machine: InProcess, client: Client, reader: Client
) -> None:
    write(client, "value")
    topic_id = machine.broker.image.topics[TOPIC].topic_id
    asked = [FetchPartition(partition=0, partition_max_bytes=1_000)]
    topics = [
        FetchTopic(topic_id=topic_id, partitions=asked),
        FetchTopic(topic_id=b"\x09" * 16, partitions=asked),
    ]

    response = reader.ask(FetchRequest(topics=topics), FetchResponse)

    assert [topic.topic_id for topic in response.responses] == [topic_id, b"\x09" * 16]
    assert values_in(response.responses[0].partitions[0]) == ["value"]
    assert response.responses[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_fetch_that_waits_keeps_its_request_once_however_often_it_names_a_partition() -> None:
    machine = InProcess()
    client = machine.connect()
    create_topic(client)
    before = _asked_partitions()
    request = fetch({0: 0}, max_wait_ms=1000, min_bytes=1)
    request.topics[0].partitions *= 50_000

    client.send(request, BY_NAME)

    assert client.is_waiting
    assert _asked_partitions() - before <= 1, "only the one that this test made is left"


def _asked_partitions() -> int:
    return sum(isinstance(each, FetchPartition) for each in gc.get_objects())


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.parametrize(
    ("asked", "code", "aborted"),
    [
        (fetch({0: 1}), ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (fetch({0: 9}), ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (fetch({0: -1}), ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (fetch({7: 0}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        (fetch(topic="nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    ],
    ids=["below the start", "above the end", "negative", "partition", "topic"],
)
def test_error_comes_with_an_empty_set_of_records_and_without_offsets(
    machine: InProcess,
    client: Client,
    reader: Client,
    asked: FetchRequest,
    code: int,
    aborted: list[object] | None,
    version: int,
) -> None:
    write(client, "a", "b", "c")
    log = machine.broker.partitions.get(TopicPartition(TOPIC, 0)).log
    log.raise_log_start_offset(2)

    answer = reader.ask(asked, FetchResponse, version).responses[0].partitions[0]

    assert answer.error_code == code
    # Null is what librdkafka takes for a broken answer; it asks again without a pause.
    assert answer.records == b""
    assert answer.aborted_transactions == aborted
    assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)
    assert answer.log_start_offset == -1


NO_OFFSETS = "ffffffffffffffff" * 3  # high watermark, last stable offset, log start


@pytest.mark.parametrize(
    ("version", "asked", "body"),
    [
        # Null aborted transactions, no preferred replica, no bytes of records.
        (11, fetch({0: 9}), f"00000000 0001 {NO_OFFSETS} ffffffff ffffffff 00000000"),
        (11, fetch({7: 0}), f"00000007 0003 {NO_OFFSETS} 00000000 ffffffff 00000000"),
        (12, fetch({0: 9}), f"00000000 0001 {NO_OFFSETS} 00 ffffffff 01 00"),
        (12, fetch({7: 0}), f"00000007 0003 {NO_OFFSETS} 01 ffffffff 01 00"),
    ],
    ids=["11 above the end", "11 unknown partition", "12 above the end", "12 unknown partition"],
)
def test_bytes_of_an_error_are_those_of_apache_kafka(
    reader: Client, version: int, asked: FetchRequest, body: str
) -> None:
    answer = reader.ask(asked, FetchResponse, version)

    encoded = b"".join(bytes(each) for each in encode_response(answer, version))  # type: ignore[arg-type]
    topic = TOPIC.encode()
    start, name, end = {
        11: ("00000000 0000 00000000 00000001", b"\0\6" + topic + b"\0\0\0\1", ""),
        12: ("00000000 0000 00000000 02", b"\7" + topic + b"\2", "00 00"),
    }[version]
    expected = bytes.fromhex(start) + name + bytes.fromhex(f"{body} {end}")
    assert encoded == expected
