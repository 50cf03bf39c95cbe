"""A disk that refuses: the answer says so, nothing is half done, the rest goes on."""

import errno

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.server.http.monitor import readiness
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import (
    TOPIC,
    create_topic,
    delete_topic,
    fetch,
    fetched,
    produced,
    read_all,
    values_in,
    write,
)

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.mark.parametrize("torn", [False, True])
def test_write_that_fails_is_told_and_other_partitions_go_on(
    machine: InProcess, client: Client, torn: bool
) -> None:
    create_topic(client, partitions=2)
    write(client, "a")
    machine.fs.fail_matching("pwrite", "*/events-0/*.log", errno.ENOSPC, torn=torn)

    failed = produced(client, batch(("key", "b")))
    write(client, "elsewhere", partition=1)

    assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values_in(fetched(client)) == ["a"]
    machine.kill()
    assert read_all(machine.connect()) == ["a"]


def test_partition_that_cannot_be_made_is_offline_and_the_rest_of_its_topic_is_not(
    machine: InProcess, client: Client
) -> None:
    machine.fs.fail_matching("*", "*/events-1*", errno.EMFILE)

    code = create_topic(client, partitions=3).topics[0].error_code
    answers = [produced(client, batch(("key", "v")), partition=number) for number in range(3)]

    assert code == ErrorCode.NONE
    assert [answer.error_code for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NONE,
    ]
    assert readiness(machine.broker).status == 503
    assert "events-1" in readiness(machine.broker).body


def test_partition_that_could_not_be_made_is_made_at_the_next_start(
    machine: InProcess, client: Client
) -> None:
    machine.fs.fail_matching("*", "*/events-1*", errno.EMFILE)
    create_topic(client, partitions=2)

    machine.kill()

    assert write(machine.connect(), "v", partition=1) == [0]
    assert readiness(machine.broker).status == 200


def test_topic_with_an_offline_partition_can_be_deleted(machine: InProcess, client: Client) -> None:
    machine.fs.fail_matching("*", "*/events-1*", errno.EMFILE)
    create_topic(client, partitions=2)

    code = delete_topic(client)

    assert code == ErrorCode.NONE
    assert machine.broker.partitions.offline == {}
    assert (
        produced(client, batch(("key", "v")), partition=1).error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_directory_that_cannot_be_renamed_aside_does_not_keep_the_topic(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=2)
    machine.fs.fail_matching("rename", "*/events-0*", errno.EIO)

    code = delete_topic(client)
    machine.kill()

    assert code == ErrorCode.NONE
    assert TOPIC not in machine.broker.image.topics
    assert machine.broker.partitions.find(TopicPartition(TOPIC, 0)) is None


@pytest.mark.parametrize("operation", ["pwrite", "fsync"])
def test_metadata_that_cannot_be_written_is_not_true_and_the_broker_lives_on(
    machine: InProcess, client: Client, operation: str
) -> None:
    create_topic(client)
    other = machine.connect()
    machine.fs.fail_matching(operation, "*/__cluster_metadata-0/*", errno.EIO)

    topic = CreateTopicsRequestTopic(name="new", num_partitions=1, replication_factor=1)
    client.send(CreateTopicsRequest(topics=[topic]))

    assert client.closed is not None
    assert "new" not in machine.broker.image.topics
    assert other.ask(HELLO, ApiVersionsResponse).error_code == ErrorCode.NONE
    assert write(other, "still served") == [0]
    machine.kill()
    assert TOPIC in machine.broker.image.topics


def test_read_that_fails_is_told_and_other_partitions_are_read(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=2)
    write(client, "a", "b")
    write(client, "elsewhere", partition=1)
    machine.fs.fail_matching("pread*", "*/events-0/*", errno.EIO, times=None)

    failed = fetched(client, fetch({0: 1}))
    machine.fs.clear_faults()

    assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert read_all(client, partition=1) == ["elsewhere"]
    assert read_all(client) == ["a", "b"]
