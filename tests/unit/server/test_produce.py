"""Produce: acks, refusals with Kafka's codes, and waiting for replicas."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
)
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.batch import Codec
from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.roles import change_partition, led_by
from tests.kit.roles import followed as follower_has
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    delete_topic,
    end_offset,
    produce,
    produced,
    read_all,
)

ONE = batch(("key", "value"))
HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture(autouse=True)
def topic(client: Client) -> None:
    create_topic(client, partitions=2)


def followed(machine: InProcess, *isr: int) -> Partition:
    """Partition 0 with followers that have nothing yet."""
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, 0))
    partition.assume(led_by(1, 1, isr))
    return partition


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_is_answered_with_the_offset(client: Client, version: int, acks: int) -> None:
    response = client.ask(produce(ONE, acks=acks), ProduceResponse, version)

    answer = response.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("acks", [2, -2, 32_767])
def test_acks_that_do_not_exist_are_refused(client: Client, acks: int) -> None:
    answer = produced(client, ONE, acks=acks)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)


def test_error_in_one_partition_does_not_touch_the_others(client: Client) -> None:
    data = [
        ProducePartitionData(index=index, records=records)
        for index, records in ((0, bytearray(ONE)), (7, bytearray(ONE)), (1, bytearray(b"junk")))
    ]
    topics = [ProduceTopicData(name=TOPIC, partition_data=data)]

    response = client.ask(ProduceRequest(acks=1, topic_data=topics), ProduceResponse)

    answers = response.responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD,
    ]
    assert read_all(client) == ["value"]


def corrupted() -> bytearray:
    data = bytearray(ONE)
    data[-1] ^= 1
    return data


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (corrupted(), ErrorCode.CORRUPT_MESSAGE),
        (b"", ErrorCode.INVALID_RECORD),
        (bytes(61), ErrorCode.CORRUPT_MESSAGE),
        (ONE + ONE, ErrorCode.INVALID_RECORD),
        (batch(("key", "v" * 1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(("key", "value"), timestamp=1_800_000_000_000_000), ErrorCode.INVALID_TIMESTAMP),
        (
            batch(("key", "v"), producer_id=7, producer_epoch=0, base_sequence=5),
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ),
    ],
    ids=["crc", "nothing", "zeros", "two batches", "too large", "far future", "sequence gap"],
)
def test_batch_that_is_refused_has_kafkas_code_and_leaves_no_trace(
    machine: InProcess, client: Client, records: bytes, code: int
) -> None:
    produced(client, batch(("key", "v"), producer_id=7, producer_epoch=0, base_sequence=0))

    answer = produced(client, records)

    assert answer.error_code == code
    assert end_offset(machine) == 1


def test_record_without_a_key_is_named_on_a_compacted_topic(client: Client) -> None:
    create_topic(client, "compacted", cleanup_policy="compact")

    answer = produced(client, batch(("a", "1"), (None, "2"), ("c", "3")), "compacted")

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_internal_topics_take_nothing_from_clients(client: Client, name: str, code: int) -> None:
    answer = produced(client, ONE, name)

    assert answer.error_code == code


@pytest.mark.parametrize("version", [3, 8, 11])
def test_name_as_long_as_the_protocol_allows_is_answered(client: Client, version: int) -> None:
    """The reason quotes it, and has to fit the answer all the same."""
    response = client.ask(produce(ONE, "n" * 32_767), ProduceResponse, version)

    assert (
        response.responses[0].partition_responses[0].error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_zstd_needs_a_version_whose_readers_know_it(client: Client) -> None:
    records = batch(("key", "value"), codec=Codec.ZSTD)

    old = client.ask(produce(records), ProduceResponse, 6)
    new = client.ask(produce(records), ProduceResponse, 7)

    assert (
        old.responses[0].partition_responses[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    )
    assert new.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_repeated_batch_is_answered_with_its_first_offset_and_not_written_again(
    machine: InProcess, client: Client
) -> None:
    records = batch(("key", "v"), producer_id=7, producer_epoch=0, base_sequence=0)
    produced(client, ONE)

    first, second = produced(client, records), produced(client, records)

    assert (first.base_offset, second.base_offset, second.error_code) == (1, 1, ErrorCode.NONE)
    assert end_offset(machine) == 2


# -- waiting for replicas ---------------------------------------------------------------------


def test_acks_all_waits_until_every_in_sync_replica_has_it(
    machine: InProcess, client: Client
) -> None:
    partition = followed(machine, 1, 2)
    client.send(produce(ONE, acks=-1))

    waits = client.is_waiting
    follower_has(partition, 2, 1)
    machine.broker.appended(partition.topic_partition)
    machine.tick()

    assert waits
    answer = client.take(ProduceResponse).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


def test_acks_all_times_out_when_replicas_do_not_follow(machine: InProcess, client: Client) -> None:
    followed(machine, 1, 2)
    client.send(produce(ONE, acks=-1))

    machine.advance(999)
    early = client.is_waiting
    machine.advance(1)

    assert early
    assert (
        client.take(ProduceResponse).responses[0].partition_responses[0].error_code
        == ErrorCode.REQUEST_TIMED_OUT
    )


def test_acks_one_does_not_wait_for_replicas(machine: InProcess, client: Client) -> None:
    followed(machine, 1, 2)

    answer = produced(client, ONE, acks=1)

    assert answer.error_code == ErrorCode.NONE


def test_acks_all_is_refused_while_too_few_replicas_are_in_sync(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, "safe", min_insync_replicas="2")
    partition = machine.broker.partitions.get(TopicPartition("safe", 0))
    partition.assume(led_by(1, 1, (1,), replicas=(1, 2)))

    answer = produced(client, ONE, "safe", acks=-1)

    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert end_offset(machine, "safe") == 0


def test_topic_with_fewer_replicas_than_it_wants_in_sync_is_served_by_those_it_has(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, "safe", min_insync_replicas="2")

    answer = produced(client, ONE, "safe", acks=-1)

    assert answer.error_code == ErrorCode.NONE
    assert end_offset(machine, "safe") == 1


def test_batch_committed_by_too_few_replicas_in_the_end_is_told_so(
    machine: InProcess, client: Client
) -> None:
    partition = followed(machine, 1, 2)
    partition.configure(min_insync_replicas=2)
    client.send(produce(ONE, acks=-1))

    follower_has(partition, 2, 1)
    partition.assume(led_by(1, 1, (1,), replicas=(1, 2), partition_epoch=2))
    machine.broker.appended(partition.topic_partition)
    machine.tick()

    answer = client.take(ProduceResponse).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_lost_leadership_is_told_to_parked_requests(machine: InProcess, client: Client) -> None:
    followed(machine, 1, 2)
    client.send(produce(ONE, acks=-1))
    waits = client.is_waiting

    change_partition(machine, TopicPartition(TOPIC, 0), leader=2, isr=[2], replicas=[1, 2])

    assert waits
    answer = client.take(ProduceResponse).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_deleted_topic_is_told_to_who_waits(machine: InProcess, client: Client) -> None:
    followed(machine, 1, 2)
    writer = machine.connect()
    writer.send(produce(ONE, acks=-1))

    delete_topic(client)

    assert (
        writer.take(ProduceResponse).responses[0].partition_responses[0].error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


# -- producer ids -----------------------------------------------------------------------------


def new_producer_id(client: Client, own_id: int = -1, own_epoch: int = -1) -> int:
    request = InitProducerIdRequest(
        transactional_id=None, producer_id=own_id, producer_epoch=own_epoch
    )
    answer = client.ask(request, InitProducerIdResponse)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    return answer.producer_id


def test_producer_ids_are_never_given_twice_even_across_a_crash(
    machine: InProcess, client: Client
) -> None:
    given = [new_producer_id(client) for _ in range(3)]
    machine.lose_power("none")
    given += [new_producer_id(machine.connect()) for _ in range(3)]
    machine.kill()
    given += [new_producer_id(machine.connect()) for _ in range(3)]

    assert len(set(given)) == 9


def test_id_that_a_client_makes_up_is_not_given_to_it(client: Client) -> None:
    """Else a later producer, who gets it in good faith, would be fenced by the first."""
    made_up = 500

    given = new_producer_id(client, own_id=made_up, own_epoch=3)

    assert given != made_up


def test_producers_of_a_partition_are_described(client: Client) -> None:
    produced(client, batch(("key", "v"), producer_id=7, producer_epoch=2, base_sequence=0))
    topics = [DescribeProducersRequestTopic(name=TOPIC, partition_indexes=[0, 9])]

    response = client.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse)

    known, unknown = response.topics[0].partitions
    assert [(each.producer_id, each.producer_epoch) for each in known.active_producers] == [(7, 2)]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("repeats", "expected"), [(50, [[0, 9] * 50]), (51, [[0, 9]])], ids=["some", "too many"]
)
def test_partition_that_is_named_too_often_is_described_once(
    client: Client, repeats: int, expected: list[list[int]]
) -> None:
    topics = [DescribeProducersRequestTopic(name=TOPIC, partition_indexes=[0, 9] * repeats)]

    response = client.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse)

    found = [[each.partition_index for each in topic.partitions] for topic in response.topics]
    assert found == expected


def test_connection_is_good_after_a_refusal(client: Client) -> None:
    produced(client, corrupted())

    assert client.ask(HELLO, ApiVersionsResponse).error_code == ErrorCode.NONE
