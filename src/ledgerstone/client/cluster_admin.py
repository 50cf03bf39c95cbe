"""Brokers and the replicas they host, as operators see and move them. Shell over a `Client`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import NO_NODE
from ledgerstone.client.errors import check
from ledgerstone.client.grouping import by_topic
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartition,
)
from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ledgerstone.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ledgerstone.types import TopicPartition

_PREFERRED: Final = 0
_TIMEOUT_MS: Final = 60_000
# What an election answers about a partition that needs none, or cannot have one now.
_NO_ELECTION: Final = (
    ErrorCode.NONE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class BrokerInfo(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerInfo, ...]  # fenced ones included


class Reassignment(NamedTuple):
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def describe_cluster(client: Client) -> ClusterDescription:
    response = client.call(
        DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse
    )
    check(response.error_code, "the cluster", response.error_message)
    brokers = sorted(response.brokers, key=lambda each: each.broker_id)
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=None if response.controller_id == NO_NODE else response.controller_id,
        brokers=tuple(
            BrokerInfo(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in brokers
        ),
    )


def reassign(client: Client, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Asks for other replicas. Returns when the controller has taken all of it; the copying goes on
    after that."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=_TIMEOUT_MS,
        topics=[
            AlterReassignmentsTopic(
                name=topic,
                partitions=[
                    AlterReassignmentsPartition(partition_index=number, replicas=list(replicas))
                    for number, replicas in partitions.items()
                ],
            )
            for topic, partitions in by_topic(wanted).items()
        ],
    )
    response = client.call(request, AlterPartitionReassignmentsResponse, timeout_ms=_TIMEOUT_MS)
    check(response.error_code, "the reassignment", response.error_message)
    for topic in response.responses:
        for each in topic.partitions:
            what = f"the move of {topic.name}-{each.partition_index}"
            check(each.error_code, what, each.error_message)


def list_reassignments(client: Client) -> dict[TopicPartition, Reassignment]:
    """Those under way."""
    response = client.call(
        ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse
    )
    check(response.error_code, "the list of moves", response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def elect_preferred(client: Client, partitions: Iterable[TopicPartition]) -> None:
    """Lets the first replica lead where it is in sync. Others stay with the leader they have."""
    numbers: dict[str, list[int]] = {}
    for name, number in partitions:
        numbers.setdefault(name, []).append(number)
    if not numbers:
        return
    request = ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[
            ElectLeadersTopicPartition(topic=name, partitions=found)
            for name, found in numbers.items()
        ],
        timeout_ms=_TIMEOUT_MS,
    )
    response = client.call(request, ElectLeadersResponse, timeout_ms=_TIMEOUT_MS)
    check(response.error_code, "the election")
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            if each.error_code not in _NO_ELECTION:
                what = f"the election of {topic.topic}-{each.partition_id}"
                check(each.error_code, what, each.error_message)


def unregister_broker(client: Client, broker_id: int) -> None:
    """The cluster forgets a broker. One that still runs registers again by itself."""
    response = client.call(
        UnregisterBrokerRequest(broker_id=broker_id),
        UnregisterBrokerResponse,
        timeout_ms=_TIMEOUT_MS,
    )
    check(response.error_code, f"broker {broker_id}", response.error_message)
