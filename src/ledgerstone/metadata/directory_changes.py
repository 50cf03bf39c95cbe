"""AssignReplicasToDirs: a broker with several directories says which one holds a replica. Pure."""

from typing import Final

from ledgerstone.errors import (
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.change_record import Election, PartitionTarget
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.image import TopicImage
from ledgerstone.metadata.partition_changes import changes_without
from ledgerstone.metadata.partition_index import Key
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
    AssignReplicasToDirsRequestTopic,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectory,
    AssignReplicasToDirsResponsePartition,
    AssignReplicasToDirsResponseTopic,
)

# As many as Kafka's brokers put into one request.
MAX_ASSIGNMENTS: Final = 2250


def assign_replicas_to_dirs(
    partitions: Partitions, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    assigning = _Assigning(partitions, request.broker_id)
    try:
        _check_request(partitions, request)
    except KafkaError as error:
        return Decision([], AssignReplicasToDirsResponse(error_code=error.code))
    answers = [assigning.assign(directory) for directory in request.directories]
    records = [*assigning.records, *assigning.moved_away()]
    response = AssignReplicasToDirsResponse(directories=answers)
    return Decision(records, response, is_atomic=False)


def _check_request(partitions: Partitions, request: AssignReplicasToDirsRequest) -> None:
    broker = partitions.image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        raise StaleBrokerEpoch(f"broker {request.broker_id} of epoch {request.broker_epoch}")
    asked = sum(
        len(topic.partitions) for directory in request.directories for topic in directory.topics
    )
    if asked > MAX_ASSIGNMENTS:
        raise InvalidRequest(f"{asked} assignments are more than {MAX_ASSIGNMENTS}")


class _Assigning:
    """One request's work."""

    __slots__ = ("_broker_id", "_offline", "_partitions", "records")

    def __init__(self, partitions: Partitions, broker_id: int) -> None:
        self._partitions = partitions
        self._broker_id = broker_id
        self._offline: set[Key] = set()
        self.records: list[MetadataRecord] = []

    def assign(
        self, directory: AssignReplicasToDirsRequestDirectory
    ) -> AssignReplicasToDirsResponseDirectory:
        topics = [self._assign_topic(directory.id, topic) for topic in directory.topics]
        return AssignReplicasToDirsResponseDirectory(directory.id, topics)

    def moved_away(self) -> list[MetadataRecord]:
        """Replicas that are in a directory which has failed meanwhile."""
        return changes_without(self._partitions, self._broker_id, sorted(self._offline))

    def _assign_topic(
        self, directory: bytes, wanted: AssignReplicasToDirsRequestTopic
    ) -> AssignReplicasToDirsResponseTopic:
        topic = self._partitions.image.topic_by_id(wanted.topic_id)
        results = []
        for each in wanted.partitions:
            result = AssignReplicasToDirsResponsePartition(each.partition_index)
            results.append(result)
            try:
                self._assign(directory, topic, each.partition_index)
            except KafkaError as error:
                result.error_code = error.code
        return AssignReplicasToDirsResponseTopic(wanted.topic_id, results)

    def _assign(self, directory: bytes, topic: TopicImage | None, number: int) -> None:
        broker_id = self._broker_id
        if topic is None:
            raise UnknownTopicId("no topic has this id")
        partition = topic.partitions.get(number)
        if partition is None:
            raise UnknownTopicOrPartition(f"{topic.name} has no partition {number}")
        if broker_id not in partition.replicas:
            raise NotLeaderOrFollower(f"broker {broker_id} is no replica of {topic.name}-{number}")
        key = (topic.name, number)
        target = PartitionTarget(directories={broker_id: directory})
        record = self._partitions.change(key, target, election=Election.ONLINE)
        if record is not None:
            self.records.append(record)
        if not self._partitions.image.brokers[broker_id].has_online(directory):
            self._offline.add(key)
