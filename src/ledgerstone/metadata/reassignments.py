"""AlterPartitionReassignments and ListPartitionReassignments: moving replicas. Pure.

A reassignment first adds: the replicas become the target, followed by those to be removed. It ends
by itself (`change_record`) as soon as the target can carry the partition. Rules in README.md.
"""

from collections.abc import Iterable, Mapping, Sequence

from ledgerstone.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.assignments import check_replicas
from ledgerstone.metadata.change_record import Election, LeaderRecoveryState, PartitionTarget
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.image import MetadataImage, PartitionImage
from ledgerstone.metadata.partition_index import Key
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReassignmentsPartition,
    AlterReassignmentsPartitionResult,
    AlterReassignmentsTopicResult,
)
from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsPartition,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponseTopic,
)
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord


def alter_reassignments(
    partitions: Partitions, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    response = AlterPartitionReassignmentsResponse(
        # Kafka says so where no topic is named, and nothing where one is.
        error_message=None if request.topics else "",
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    records: list[MetadataRecord] = []
    seen: set[Key] = set()
    for topic in request.topics:
        results = []
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            result = AlterReassignmentsPartitionResult(partition_index=wanted.partition_index)
            results.append(result)
            try:
                if key in seen:
                    raise InvalidRequest(f"{_label(key)} is named more than once")
                seen.add(key)
                change = _reassign(partitions, key, wanted, request)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, reason_of(error)
            else:
                records += [] if change is None else [change]
        response.responses.append(AlterReassignmentsTopicResult(topic.name, results))
    return Decision(records, response)


def _label(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _reassign(
    partitions: Partitions,
    key: Key,
    wanted: AlterReassignmentsPartition,
    request: AlterPartitionReassignmentsRequest,
) -> PartitionChangeRecord | None:
    partition = partitions.image.partition(*key)
    if partition is None:
        raise UnknownTopicOrPartition(f"there is no partition {_label(key)}")
    if wanted.replicas is None:
        return _cancel(partitions, key, partition)
    check_replicas(partitions.image.brokers, wanted.replicas)
    if not request.allow_replication_factor_change:
        _check_factor(partition, wanted.replicas)
    # Moving replicas is no request for an unclean leader.
    return partitions.change(key, _target(partition, wanted.replicas), election=Election.ONLINE)


def _check_factor(partition: PartitionImage, replicas: Sequence[int]) -> None:
    """Compared with what a running reassignment would end with."""
    present = [each for each in partition.replicas if each not in partition.removing_replicas]
    if len(present) != len(replicas):
        raise InvalidReplicationFactor(
            f"the replication factor would change from {len(present)} to {len(replicas)}"
        )


def _target(partition: PartitionImage, wanted: Sequence[int]) -> PartitionTarget:
    """On top of a running reassignment too: what is to be added and removed is found anew, from all
    replicas there are now. A replica that was being added and is still wanted has to arrive."""
    present = partition.replicas
    removing = sorted(each for each in present if each not in wanted)
    still_adding = partition.adding_replicas
    adding = sorted(each for each in wanted if each not in present or each in still_adding)
    return PartitionTarget(replicas=[*wanted, *removing], removing=removing, adding=adding)


def _cancel(
    partitions: Partitions, key: Key, partition: PartitionImage
) -> PartitionChangeRecord | None:
    if not partition.is_reassigning:
        raise NoReassignmentInProgress(f"{_label(key)} is not being reassigned")
    adding = partition.adding_replicas
    replicas = [each for each in partition.replicas if each not in adding]
    isr = [each for each in partition.isr if each not in adding]
    if not replicas:
        raise InvalidReplicaAssignment(f"{_label(key)} would have no replicas left")
    if isr:
        return partitions.change(
            key, PartitionTarget(isr=isr, replicas=replicas, adding=[], removing=[])
        )
    if not partitions.is_unclean_allowed(key[0]):
        raise InvalidReplicaAssignment(
            f"only replicas that {_label(key)} is moved to are in sync; to go back needs an"
            " unclean election, which the topic does not allow"
        )
    target = PartitionTarget(
        isr=replicas[:1],
        replicas=replicas,
        adding=[],
        removing=[],
        recovery_state=LeaderRecoveryState.RECOVERING,
    )
    return partitions.change(key, target)


def list_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest, running: Iterable[Key]
) -> ListPartitionReassignmentsResponse:
    """`running` names at least the partitions of the image that are being reassigned."""
    response = ListPartitionReassignmentsResponse()
    for name, numbers in _asked(request, running).items():
        found = [
            ListPartitionReassignmentsPartition(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for number in numbers
            if (partition := image.partition(name, number)) is not None and partition.is_reassigning
        ]
        if found:
            response.topics.append(ListPartitionReassignmentsResponseTopic(name, found))
    return response


def _asked(
    request: ListPartitionReassignmentsRequest, running: Iterable[Key]
) -> Mapping[str, Iterable[int]]:
    by_topic: dict[str, dict[int, None]] = {}
    if request.topics is None:
        for name, number in sorted(running):
            by_topic.setdefault(name, {})[number] = None
        return by_topic
    for topic in request.topics:
        by_topic.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return by_topic
