"""DeleteTopics and CreatePartitions. Pure: an image and a request in, records and a response out.

Each topic is judged by itself; one that is refused does not stop the others. Rules in README.md.
"""

from collections import Counter

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.assignments import (
    check_assignments,
    check_partition_budget,
    new_partition,
)
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.image import MetadataImage, TopicImage
from ledgerstone.metadata.placement import place_replicas
from ledgerstone.metadata.topic_names import check_is_not_evidence
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResult,
    DeleteTopicsTopic,
)
from ledgerstone.protocol.messages.metadata_records import RemoveTopicRecord
from ledgerstone.quotas.mutations import MutationQuota
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text


def delete_topics(
    image: MetadataImage,
    config: BrokerConfig,
    request: DeleteTopicsRequest,
    quota: MutationQuota | None = None,
) -> Decision[DeleteTopicsResponse]:
    # Up to version 5 topics have names only, from version 6 on they come as structs.
    wanted = [*request.topics, *(DeleteTopicsTopic(name=name) for name in request.topic_names)]
    times = Counter((topic.name, topic.topic_id) for topic in wanted)
    wanted = list({(topic.name, topic.topic_id): topic for topic in wanted}.values())
    response = DeleteTopicsResponse()
    doomed: dict[bytes, None] = {}
    for topic in wanted:
        try:
            if not config.delete_topic_enable:
                raise TopicDeletionDisabled("delete.topic.enable=false")
            found = _topic_to_delete(image, topic, times[topic.name, topic.topic_id], doomed)
            if quota is not None:
                quota.take(len(found.partitions))
        except KafkaError as error:
            response.responses.append(
                DeleteTopicsResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=error.code,
                    error_message=reason_of(error),
                )
            )
        else:
            doomed[found.topic_id] = None
            response.responses.append(DeleteTopicsResult(name=found.name, topic_id=found.topic_id))
    records: list[MetadataRecord] = [RemoveTopicRecord(topic_id=topic_id) for topic_id in doomed]
    return Decision(records, response)


def _topic_to_delete(
    image: MetadataImage, wanted: DeleteTopicsTopic, times: int, doomed: dict[bytes, None]
) -> TopicImage:
    by_id = wanted.topic_id != ZERO_UUID
    if by_id and wanted.name is not None:
        raise InvalidRequest(f"topic {wanted.name!r}: name a topic or its id, not both")
    if not by_id and wanted.name is None:
        raise InvalidRequest("neither the name nor the id of a topic is given")
    label = uuid_to_text(wanted.topic_id) if by_id else repr(wanted.name)
    if times > 1:
        raise InvalidRequest(f"topic {label} is named more than once")
    found = image.topic_by_id(wanted.topic_id) if by_id else image.topics.get(wanted.name or "")
    if found is None and by_id:
        raise UnknownTopicId(f"no topic has the id {label}")
    if found is None:
        raise UnknownTopicOrPartition(f"there is no topic {label}")
    if found.topic_id in doomed:
        raise InvalidRequest(f"topic {label} is named by its name and by its id")
    check_is_not_evidence(found.name, "cannot be deleted")
    return found


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    dice: Dice,
    quota: MutationQuota | None = None,
) -> Decision[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in reversed(request.topics)}
    response = CreatePartitionsResponse()
    records: list[MetadataRecord] = []
    for name, count in times.items():
        result = CreatePartitionsResult(name=name)
        response.results.append(result)
        try:
            if count > 1:
                raise InvalidRequest(f"topic {name!r} is named more than once")
            added = _new_partitions(image, wanted[name], len(records), dice)
            if quota is not None:
                quota.take(len(added))
            records += added
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = reason_of(error)
    return Decision([] if request.validate_only else records, response)


def _new_partitions(
    image: MetadataImage, wanted: CreatePartitionsTopic, added_before: int, dice: Dice
) -> list[MetadataRecord]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {wanted.name!r}")
    check_is_not_evidence(topic.name, "gets no more partitions")
    present = len(topic.partitions)
    if wanted.count <= present:
        raise InvalidPartitions(
            f"topic {topic.name!r} has {present} partition(s); {wanted.count} is not an increase"
        )
    check_partition_budget(added_before + wanted.count - present)
    replicas = _replicas_of_new(image, topic, wanted, dice)
    return [
        new_partition(topic.topic_id, partition, broker_ids, image.brokers)
        for partition, broker_ids in enumerate(replicas, start=present)
    ]


def _replicas_of_new(
    image: MetadataImage, topic: TopicImage, wanted: CreatePartitionsTopic, dice: Dice
) -> list[tuple[int, ...]]:
    added = wanted.count - len(topic.partitions)
    if wanted.assignments is None:
        return place_replicas(
            image.brokers,
            partitions=added,
            replication_factor=topic.replication_factor,
            dice=dice,
        )
    if len(wanted.assignments) != added:
        raise InvalidReplicaAssignment(
            f"{added} partition(s) are added, but {len(wanted.assignments)} assignment(s) are given"
        )
    return check_assignments(
        image.brokers,
        [assignment.broker_ids for assignment in wanted.assignments],
        replication_factor=topic.replication_factor,
    )
