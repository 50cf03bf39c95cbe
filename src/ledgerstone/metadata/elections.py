"""Elections that were asked for, and those the controller holds by itself. Pure.

Who wins is decided where all changes of partitions are, in `change_record`. Here is when to hold
one, and what to answer where it changes nothing. Rules in README.md.
"""

import enum
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from ledgerstone.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.change_record import Election, PartitionTarget
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.partition_index import Key
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersReplicaElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord

# As many changes as Kafka lets one request make.
MAX_RECORDS_PER_REQUEST: Final = 10_000
# Of one pass of the controller's own, so that other work gets its turn.
MAX_ELECTIONS: Final = 1000


class ElectionType(enum.IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    partitions: Partitions, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    image = partitions.image
    if request.election_type not in tuple(ElectionType):
        error = InvalidRequest(f"there is no election type {request.election_type}")
        return Decision([], _refused(image, request, error))
    election = ElectionType(request.election_type)
    response = ElectLeadersResponse()
    records: list[MetadataRecord] = []
    for topic, numbers in _wanted(image, request):
        results = []
        for partition in numbers:
            result = ElectLeadersPartitionResult(partition_id=partition)
            try:
                records.append(_elect(partitions, (topic, partition), election))
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
    if len(records) > MAX_RECORDS_PER_REQUEST:
        too_many = PolicyViolation(f"{len(records)} elections in one request")
        return Decision([], _refused(image, request, too_many))
    return Decision(records, response, is_atomic=False)


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


def _elect(partitions: Partitions, key: Key, election: ElectionType) -> PartitionChangeRecord:
    label = f"{key[0]}-{key[1]}"
    found = partitions.image.partition(*key)
    if found is None:
        raise UnknownTopicOrPartition(f"there is no partition {label}")
    preferred = found.replicas[0]
    if election is ElectionType.PREFERRED:
        if found.leader == preferred:
            raise ElectionNotNeeded(f"{label} is led by its preferred leader, broker {preferred}")
        change = partitions.change(key, PartitionTarget(), election=Election.PREFERRED)
        if change is None:
            raise PreferredLeaderNotAvailable(
                f"broker {preferred}, the preferred leader of {label}, is not in sync and active"
            )
        return change
    if found.leader != NO_LEADER:
        raise ElectionNotNeeded(f"{label} is led by broker {found.leader}")
    change = partitions.change(key, PartitionTarget(), election=Election.UNCLEAN)
    if change is None:
        raise EligibleLeadersNotAvailable(f"none of the replicas {list(found.replicas)} is active")
    return change


class Pass(NamedTuple):
    """One pass of periodic work. A full one is followed by the next at once."""

    records: list[MetadataRecord]
    is_full: bool


def balance_leaders(partitions: Partitions) -> Pass:
    """Preferred leaders for partitions that have another one, or none."""
    keys = sorted(partitions.index.imbalanced)
    return _pass(
        partitions.change(key, PartitionTarget(), election=Election.PREFERRED) for key in keys
    )


def elect_unclean_leaders(partitions: Partitions, keys: Iterable[Key]) -> Pass:
    """Leaders for those of the leaderless partitions whose topics rather lose records."""
    return _pass(
        partitions.change(key, PartitionTarget(), election=Election.UNCLEAN)
        for key in sorted(keys)
        if partitions.is_unclean_allowed(key[0])
    )


def _pass(changes: Iterable[PartitionChangeRecord | None]) -> Pass:
    needed = (change for change in changes if change is not None)
    records: list[MetadataRecord] = list(islice(needed, MAX_ELECTIONS))
    return Pass(records, is_full=len(records) == MAX_ELECTIONS)
