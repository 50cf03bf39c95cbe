"""CreateTopics. Pure: an image and a request in, records and a response out.

Each topic is judged by itself; one that is refused does not stop the others. Rules in README.md.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.topic import resolve_topic
from ledgerstone.errors import (
    ConfigError,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    TopicAlreadyExists,
)
from ledgerstone.metadata.assignments import (
    check_assignments,
    check_partition_budget,
    new_partition,
)
from ledgerstone.metadata.config_entries import topic_entries
from ledgerstone.metadata.decision import Decision, check_fits_record, reason_of
from ledgerstone.metadata.image import MetadataImage, ResourceType
from ledgerstone.metadata.placement import place_replicas
from ledgerstone.metadata.topic_names import (
    CLUSTER_METADATA,
    check_is_not_evidence,
    check_topic_name,
    collision_key,
)
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.metadata_records import ConfigRecord, TopicRecord
from ledgerstone.quotas.mutations import MutationQuota
from ledgerstone.uuid_text import ZERO_UUID, random_uuid


def create_topics(
    image: MetadataImage,
    config: BrokerConfig,
    request: CreateTopicsRequest,
    dice: Dice,
    *,
    by_broker: bool = False,
    quota: MutationQuota | None = None,
) -> Decision[CreateTopicsResponse]:
    """`by_broker`: the broker makes a topic of its own, which nobody else may make. `quota`: as in
    Kafka also what is only validated counts."""
    creation = _Creation(image, config, dice, by_broker=by_broker, quota=quota)
    response = CreateTopicsResponse()
    total = sum(_partition_count(topic, config) for topic in request.topics)
    for topic, is_repeated in _each_name_once(request.topics):
        try:
            # As in Kafka the whole request is refused: a part of it is not what was asked for.
            check_partition_budget(total)
            if is_repeated:
                raise InvalidRequest(f"topic {topic.name!r} is named more than once")
            response.topics.append(creation.create(topic))
        except KafkaError as error:
            response.topics.append(
                CreateTopicsResponseTopic(
                    name=topic.name,
                    error_code=error.code,
                    error_message=reason_of(error),
                    configs=[],
                )
            )
    if not request.validate_only:
        return Decision(creation.records, response)
    for result in response.topics:
        # Nothing was made, so there is nothing that has an id.
        result.topic_id = ZERO_UUID
    return Decision([], response)


def _each_name_once(
    topics: Sequence[CreateTopicsRequestTopic],
) -> Iterator[tuple[CreateTopicsRequestTopic, bool]]:
    times = Counter(topic.name for topic in topics)
    first = {topic.name: topic for topic in reversed(topics)}
    for name, count in times.items():
        yield first[name], count > 1


def _partition_count(topic: CreateTopicsRequestTopic, config: BrokerConfig) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return config.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)


class _Creation:
    """One request's work: what it has made so far counts for the topics that follow."""

    __slots__ = ("_by_broker", "_config", "_dice", "_image", "_names", "_quota", "records")

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        dice: Dice,
        *,
        by_broker: bool,
        quota: MutationQuota | None,
    ) -> None:
        self._quota = quota
        self._by_broker = by_broker
        self._image = image
        self._config = config
        self._dice = dice
        self._names = {collision_key(name): name for name in image.topics}
        self.records: list[MetadataRecord] = []

    def create(self, topic: CreateTopicsRequestTopic) -> CreateTopicsResponseTopic:
        self._check_name(topic.name)
        configs = self._checked_configs(topic)
        replicas = self._replicas(topic)
        if self._quota is not None:
            self._quota.take(len(replicas))
        topic_id = random_uuid(self._dice)

        brokers = self._image.brokers
        self._names[collision_key(topic.name)] = topic.name
        self.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self.records += [
            ConfigRecord(
                resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value
            )
            for name, value in configs.items()
        ]
        self.records += [
            new_partition(topic_id, partition, broker_ids, brokers)
            for partition, broker_ids in enumerate(replicas)
        ]
        return CreateTopicsResponseTopic(
            name=topic.name,
            topic_id=topic_id,
            num_partitions=len(replicas),
            replication_factor=len(replicas[0]),
            configs=self._described(configs),
        )

    def _check_name(self, name: str) -> None:
        if name == CLUSTER_METADATA:
            raise InvalidRequest(f"{name} is the cluster's own log and no topic")
        check_topic_name(name)
        if not self._by_broker:
            # Also under a name that would keep the broker from making it.
            check_is_not_evidence(collision_key(name), "cannot be created")
        if name in self._image.topics:
            raise TopicAlreadyExists(f"topic {name!r} exists already")
        other = self._names.get(collision_key(name))
        if other is not None:
            raise InvalidTopic(
                f"topic {name!r} collides with {other!r}: '.' and '_' are not told apart"
            )

    def _checked_configs(self, topic: CreateTopicsRequestTopic) -> dict[str, str]:
        configs: dict[str, str] = {}
        for config in topic.configs:
            if config.value is None:
                raise InvalidConfig(f"{config.name}: a setting of a new topic needs a value")
            check_fits_record(config.name, config.value)
            configs[config.name] = config.value
        try:
            resolve_topic(configs, self._broker_values())
        except ConfigError as error:
            raise InvalidConfig(str(error)) from error
        return configs

    def _broker_values(self) -> dict[str, str]:
        return self._image.broker_values(self._config.node_id, self._config.raw)

    def _replicas(self, topic: CreateTopicsRequestTopic) -> list[tuple[int, ...]]:
        if topic.assignments:
            return self._assigned(topic)
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise InvalidReplicationFactor(
                f"replication factor {topic.replication_factor}: must be positive, or -1 for the"
                " default"
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise InvalidPartitions(
                f"{topic.num_partitions} partitions: must be positive, or -1 for the default"
            )
        partitions = self._config.num_partitions
        if topic.num_partitions > 0:
            partitions = topic.num_partitions
        factor = self._config.default_replication_factor
        if topic.replication_factor > 0:
            factor = topic.replication_factor
        return place_replicas(
            self._image.brokers,
            partitions=partitions,
            replication_factor=factor,
            dice=self._dice,
        )

    def _assigned(self, topic: CreateTopicsRequestTopic) -> list[tuple[int, ...]]:
        for name, value in (
            ("replication factor", topic.replication_factor),
            ("number of partitions", topic.num_partitions),
        ):
            if value != -1:
                raise InvalidRequest(f"with an assignment the {name} must be -1, not {value}")
        return check_assignments(self._image.brokers, _in_order(topic.assignments))

    def _described(self, configs: dict[str, str]) -> list[CreateTopicsResponseConfig]:
        return [
            CreateTopicsResponseConfig(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(self._image, self._config, configs)
        ]


def _in_order(assignments: Sequence[CreateTopicsAssignment]) -> list[list[int]]:
    by_partition: dict[int, list[int]] = {}
    for assignment in assignments:
        if assignment.partition_index in by_partition:
            raise InvalidReplicaAssignment(
                f"partition {assignment.partition_index} is assigned more than once"
            )
        by_partition[assignment.partition_index] = assignment.broker_ids
    numbers = sorted(by_partition)
    if numbers != list(range(len(numbers))):
        raise InvalidReplicaAssignment(f"assigned partitions {numbers} do not count up from 0")
    return [by_partition[number] for number in numbers]
