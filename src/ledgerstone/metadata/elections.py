"""ElectLeaders: who should lead a partition, and when there is nothing to do. Pure.

Leaders are found in the order of the replicas: the first that is in sync and active. Only an
unclean election goes outside the in-sync set, and says so in the record. Rules in README.md.
"""

import enum
from collections.abc import Iterator, Mapping

from ledgerstone.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.change_record import LeaderRecoveryState
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersReplicaElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    if request.election_type not in tuple(ElectionType):
        error = InvalidRequest(f"there is no election type {request.election_type}")
        return Decision([], _refused(image, request, error))
    election = ElectionType(request.election_type)
    response = ElectLeadersResponse()
    records: list[MetadataRecord] = []
    for topic, partitions in _wanted(image, request):
        results = []
        for partition in partitions:
            result = ElectLeadersPartitionResult(partition_id=partition)
            try:
                records.append(_elect(image, topic, partition, election))
            except ElectionNotNeeded as error:
                if request.topic_partitions is None:
                    # Nobody asked about this one.
                    continue
                _refuse(result, error)
            except KafkaError as error:
                _refuse(result, error)
            results.append(result)
        if results:
            response.replica_election_results.append(
                ElectLeadersReplicaElectionResult(topic=topic, partition_result=results)
            )
    return Decision(records, response)


def _refused(
    image: MetadataImage, request: ElectLeadersRequest, error: KafkaError
) -> ElectLeadersResponse:
    """The request as a whole, and every partition that it names."""
    response = ElectLeadersResponse(error_code=error.code)
    if request.topic_partitions is None:
        return response
    for topic, partitions in _wanted(image, request):
        results = [ElectLeadersPartitionResult(partition_id=each) for each in partitions]
        for result in results:
            _refuse(result, error)
        response.replica_election_results.append(
            ElectLeadersReplicaElectionResult(topic=topic, partition_result=results)
        )
    return response


def _refuse(result: ElectLeadersPartitionResult, error: KafkaError) -> None:
    result.error_code = error.code
    result.error_message = reason_of(error)


def _wanted(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    """Each topic once and each of its partitions once; all there are where none is named."""
    if request.topic_partitions is None:
        for name, topic in sorted(image.topics.items()):
            yield name, sorted(topic.partitions)
        return
    by_topic: dict[str, dict[int, None]] = {}
    for wanted in request.topic_partitions:
        by_topic.setdefault(wanted.topic, {}).update(dict.fromkeys(wanted.partitions))
    for name, partitions in by_topic.items():
        yield name, list(partitions)


def _elect(
    image: MetadataImage, topic: str, partition: int, election: ElectionType
) -> PartitionChangeRecord:
    found = image.partition(topic, partition)
    if found is None:
        raise UnknownTopicOrPartition(f"there is no partition {topic}-{partition}")
    topic_id = image.topics[topic].topic_id
    change = PartitionChangeRecord(partition_id=partition, topic_id=topic_id)
    if election is ElectionType.PREFERRED:
        change.leader = _preferred(found, image.brokers, f"{topic}-{partition}")
    elif found.leader != NO_LEADER:
        raise ElectionNotNeeded(f"{topic}-{partition} is led by broker {found.leader}")
    else:
        _elect_unclean(change, found, image.brokers)
    return change


def _preferred(partition: PartitionImage, brokers: Mapping[int, BrokerImage], label: str) -> int:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise ElectionNotNeeded(f"{label} is led by its preferred leader, broker {preferred}")
    if preferred not in partition.isr or not _is_active(brokers, preferred):
        raise PreferredLeaderNotAvailable(
            f"broker {preferred}, the preferred leader of {label}, is not in sync and active"
        )
    return preferred


def _elect_unclean(
    change: PartitionChangeRecord, partition: PartitionImage, brokers: Mapping[int, BrokerImage]
) -> None:
    active = [broker_id for broker_id in partition.replicas if _is_active(brokers, broker_id)]
    in_sync = [broker_id for broker_id in active if broker_id in partition.isr]
    if in_sync:
        change.leader = in_sync[0]
    elif active:
        change.leader = active[0]
        change.isr = [active[0]]
        change.leader_recovery_state = LeaderRecoveryState.RECOVERING
    else:
        raise EligibleLeadersNotAvailable(
            f"none of the replicas {list(partition.replicas)} is active"
        )


def _is_active(brokers: Mapping[int, BrokerImage], broker_id: int) -> bool:
    broker = brokers.get(broker_id)
    return broker is not None and broker.is_active
