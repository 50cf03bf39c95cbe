"""Controller mutations: strict for those who understand it, permissive for older clients."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsTopic,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import create_topic
from tests.unit.server.quota_kit import client_of, muted_ms, set_quota

NONE, TOO_MUCH = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
ANN = {"user": "ann"}


@pytest.fixture
def machine() -> InProcess:
    """Two partitions a second, over ten windows."""
    started = InProcess(settings={"controller.quota.window.num": "10"})
    started.advance(1)
    set_quota(started, ANN, controller_mutation_rate=2)
    return started


def create(
    client: Client, *topics: str, partitions: int = 30, version: int = 7, validate: bool = False
) -> tuple[list[int], int]:
    wanted = [
        CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in topics
    ]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=1000, validate_only=validate)
    answer = client.ask(request, CreateTopicsResponse, version)
    return [each.error_code for each in answer.topics], answer.throttle_time_ms


def test_new_client_is_refused_what_is_too_much_and_succeeds_after_the_time(
    machine: InProcess,
) -> None:
    client = client_of(machine)

    codes, wait_ms = create(client, "a", "b")
    muted = muted_ms(client)
    machine.advance(wait_ms)
    again = create(client, "b")

    assert codes == [NONE, TOO_MUCH]
    assert wait_ms == muted == 5000
    assert again == ([NONE], 0)
    assert set(machine.broker.image.topics) == {"a", "b"}


def test_old_client_gets_it_all_and_waits(machine: InProcess) -> None:
    client = client_of(machine)

    codes, wait_ms = create(client, "a", "b", version=5)

    assert (codes, wait_ms) == ([NONE, NONE], 20_000)
    assert muted_ms(client) == 20_000


def test_validation_counts_too(machine: InProcess) -> None:
    client = client_of(machine)

    first = create(client, "a", validate=True)
    second = create(client, "a")

    assert first == ([NONE], 0)
    assert second == ([TOO_MUCH], 5000)


def test_refused_topic_counts_nothing(machine: InProcess) -> None:
    client = client_of(machine)

    bad = create(client, "no/name", "__cluster_metadata")
    good = create(client, "a", partitions=20)

    assert NONE not in bad[0]
    assert good == ([NONE], 0)
    assert create(client, "b", partitions=1) == ([NONE], 0)


def test_deleted_and_added_partitions_count(machine: InProcess) -> None:
    admin = machine.connect()
    for name in ("a", "b"):
        create_topic(admin, name, partitions=30)
    client = client_of(machine)
    doomed = [DeleteTopicsTopic(name=name) for name in ("a", "b")]

    deleted = client.ask(DeleteTopicsRequest(topics=doomed, timeout_ms=1000), DeleteTopicsResponse)
    machine.advance(deleted.throttle_time_ms)
    added = [
        client.ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="b", count=count)], timeout_ms=1000
            ),
            CreatePartitionsResponse,
        )
        for count in (31, 32)
    ]

    assert [each.error_code for each in deleted.responses] == [NONE, TOO_MUCH]
    assert deleted.throttle_time_ms == 5000
    assert [each.results[0].error_code for each in added] == [NONE, TOO_MUCH]
    assert added[1].throttle_time_ms == 500


def test_others_are_free(machine: InProcess) -> None:
    assert create(client_of(machine, "bob"), "a", "b") == ([NONE, NONE], 0)


def test_topic_that_a_metadata_request_makes_counts(machine: InProcess) -> None:
    client = client_of(machine)
    create(client, "a", partitions=30)

    answer = client.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name="auto")]), MetadataResponse
    )

    assert answer.topics[0].error_code != NONE
    assert "auto" not in machine.broker.image.topics
