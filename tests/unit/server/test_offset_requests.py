"""OffsetCommit and OffsetDelete of topics and partitions that do not exist."""

import pytest

from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import TOPIC, create_topic

GROUP = "sink"
UNKNOWN_TOPIC_OR_PARTITION = 3


def commit(client: Client, *wanted: tuple[str, list[int]], version: int = 8) -> list[object]:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=number, committed_offset=5)
                for number in numbers
            ],
        )
        for name, numbers in wanted
    ]
    request = OffsetCommitRequest(group_id=GROUP, topics=topics)
    answer = client.ask(request, OffsetCommitResponse, version)
    return [
        (topic.name, each.partition_index, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]


def committed(client: Client) -> list[tuple[str, int]]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    topics = client.ask(request, OffsetFetchResponse, 8).groups[0].topics
    return [(topic.name, each.partition_index) for topic in topics for each in topic.partitions]


@pytest.mark.parametrize("version", range(2, 10))
def test_offset_of_what_does_not_exist_is_refused_and_the_others_are_committed(
    client: Client, version: int
) -> None:
    create_topic(client, partitions=2)

    answer = commit(client, (TOPIC, [0, 9, -1, 1]), ("nowhere", [0]), version=version)

    # Refused ones first, as Kafka builds its answer.
    assert answer == [
        (TOPIC, 9, UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, -1, UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, 0, 0),
        (TOPIC, 1, 0),
        ("nowhere", 0, UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert committed(client) == [(TOPIC, 0), (TOPIC, 1)]


def test_commit_of_nothing_that_exists_leaves_no_group_behind(client: Client) -> None:
    answer = commit(client, ("nowhere", [0]), ("a b", [0]))

    assert answer == [("nowhere", 0, UNKNOWN_TOPIC_OR_PARTITION), ("a b", 0, 3)]
    assert committed(client) == []


def test_no_offset_of_an_unknown_topic_is_there_after_a_restart(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    commit(client, (TOPIC, [0, 4]), ("nowhere", [0]))

    machine.stop()
    machine.start()

    assert committed(machine.connect()) == [(TOPIC, 0)]


def delete(client: Client, group: str, topic: str, *numbers: int) -> tuple[int, list[object]]:
    partitions = [OffsetDeleteRequestPartition(partition_index=each) for each in numbers]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    answer = client.ask(request, OffsetDeleteResponse, 0)
    results: list[object] = [
        (each.partition_index, each.error_code)
        for found in answer.topics
        for each in found.partitions
    ]
    return answer.error_code, results


def test_offset_of_what_does_not_exist_is_not_deleted_and_the_others_are(client: Client) -> None:
    create_topic(client, partitions=2)
    commit(client, (TOPIC, [0, 1]))

    some = delete(client, GROUP, TOPIC, 9, 0)
    nowhere = delete(client, GROUP, "nowhere", 0)
    nobody = delete(client, "nobody", "nowhere", 0)

    assert some == (0, [(9, UNKNOWN_TOPIC_OR_PARTITION), (0, 0)])
    assert nowhere == (0, [(0, UNKNOWN_TOPIC_OR_PARTITION)])
    assert nobody == (69, [])  # what is wrong with the group comes before
    assert committed(client) == [(TOPIC, 1)]
