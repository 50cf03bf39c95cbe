"""Records become the next image, and what they touched the delta a broker must act on. Pure.

The same functions run live and at start, so an image is a function of its records alone, however
they were cut into batches. A record that contradicts the image means that the log is not ours or
that we are wrong: InvariantViolation. Contract in README.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from ledgerstone.errors import InvariantViolation
from ledgerstone.metadata.delta import Delta, Touched, delta_of
from ledgerstone.metadata.image import (
    BrokerImage,
    ConfigResource,
    ControllerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    ResourceType,
    SupportedFeature,
    TopicImage,
)
from ledgerstone.metadata.shared_map import MapDraft
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ledgerstone.uuid_text import uuid_to_text

V = TypeVar("V")

FENCE: Final = 1
UNFENCE: Final = -1
_LEADER_UNCHANGED: Final = -2
_RECOVERY_UNCHANGED: Final = -1


class Replayed(NamedTuple):
    image: MetadataImage
    delta: Delta


def apply(image: MetadataImage, records: Iterable[MetadataRecord]) -> Replayed:
    draft = _Draft(image)
    for record in records:
        draft.replay(record)
    after = draft.finish()
    return Replayed(after, delta_of(image, after, draft.touched()))


@dataclass(slots=True)
class _OpenTopic:
    """A topic whose partitions are being changed."""

    name: str
    partitions: MapDraft[int, PartitionImage]


class _Draft:
    """The image in the making. Lives for one `apply`."""

    __slots__ = (
        "_brokers",
        "_configs",
        "_controllers",
        "_features",
        "_image",
        "_next_producer_id",
        "_open",
        "_topic_names",
        "_topics",
    )

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._brokers = MapDraft(image.brokers)
        self._controllers = MapDraft(image.controllers)
        self._topics = MapDraft(image.topics)
        self._topic_names = MapDraft(image.topic_names)
        self._configs = MapDraft(image.configs)
        self._features = MapDraft(image.features)
        self._next_producer_id = image.next_producer_id
        self._open: dict[bytes, _OpenTopic] = {}

    def finish(self) -> MetadataImage:
        for topic_id, topic in self._open.items():
            partitions = topic.partitions.finish()
            self._topics.put(
                topic.name, TopicImage(name=topic.name, topic_id=topic_id, partitions=partitions)
            )
        return replace(
            self._image,
            brokers=self._brokers.finish(),
            controllers=self._controllers.finish(),
            topics=self._topics.finish(),
            topic_names=self._topic_names.finish(),
            configs=self._configs.finish(),
            features=self._features.finish(),
            next_producer_id=self._next_producer_id,
        )

    def touched(self) -> Touched:
        """What the records named: nothing else can differ."""
        return Touched(
            topics=self._topics.touched,
            partitions={topic.name: topic.partitions.touched for topic in self._open.values()},
            configs=self._configs.touched,
            brokers=self._brokers.touched,
        )

    def replay(self, record: MetadataRecord) -> None:
        match record:
            case PartitionChangeRecord():
                self._change_partition(record)
            case PartitionRecord():
                self._put_partition(record)
            case TopicRecord():
                self._put_topic(record)
            case ConfigRecord():
                self._put_config(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case RegisterBrokerRecord():
                self._brokers.put(record.broker_id, _broker_of(record))
            case BrokerRegistrationChangeRecord():
                self._change_broker(record)
            case UnregisterBrokerRecord():
                broker = self._broker(record.broker_id, record.broker_epoch)
                self._brokers.remove(broker.broker_id)
            case RegisterControllerRecord():
                self._controllers.put(record.controller_id, _controller_of(record))
            case FeatureLevelRecord():
                self._put_feature(record)
            case ClearElrRecord():
                self._clear_elr(record)
            case NoOpRecord():
                pass
            case _:
                raise InvariantViolation(f"no rule for a {type(record).__name__}")

    def _put_topic(self, record: TopicRecord) -> None:
        if record.name in self._topics or record.topic_id in self._topic_names:
            text = uuid_to_text(record.topic_id)
            raise InvariantViolation(f"topic {record.name} with id {text} exists already")
        self._topic_names.put(record.topic_id, record.name)
        self._open[record.topic_id] = _OpenTopic(record.name, MapDraft({}))
        # The name is taken from now on, though the partitions follow.
        self._topics.put(
            record.name, TopicImage(name=record.name, topic_id=record.topic_id, partitions={})
        )

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._open_topic(record.topic_id)
        del self._open[record.topic_id]
        self._topics.remove(topic.name)
        self._topic_names.remove(record.topic_id)
        # A later topic of that name starts with settings of its own.
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        if resource in self._configs:
            self._configs.remove(resource)

    def _put_partition(self, record: PartitionRecord) -> None:
        topic = self._open_topic(record.topic_id)
        topic.partitions.put(record.partition_id, _partition_of(record))

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._open_topic(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise InvariantViolation(f"{topic.name}-{record.partition_id} changes, but is unknown")
        topic.partitions.put(record.partition_id, partition_after(before, record))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        """Of one topic, or of all. Only partitions that have something to clear change."""
        if record.topic_name and record.topic_name not in self._topics:
            raise InvariantViolation(f"no topic {record.topic_name!r} to clear the ELR of")
        names = [record.topic_name] if record.topic_name else self._topics.finish()
        for name in names:
            topic = self._topics.get(name)
            assert topic is not None
            opened = self._open.get(topic.topic_id)
            partitions = topic.partitions if opened is None else opened.partitions.finish()
            for number, partition in partitions.items():
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    change = PartitionChangeRecord(
                        partition_id=number,
                        topic_id=topic.topic_id,
                        eligible_leader_replicas=[],
                        last_known_elr=[],
                    )
                    self._change_partition(change)

    def _put_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = dict(self._configs.get(resource) or {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._configs.put(resource, values)
        elif resource in self._configs:
            self._configs.remove(resource)

    def _put_feature(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self._features.put(record.name, record.feature_level)
        elif record.name in self._features:
            self._features.remove(record.name)

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        changed = replace(
            broker,
            fenced={FENCE: True, UNFENCE: False}.get(record.fenced, broker.fenced),
            in_controlled_shutdown=broker.in_controlled_shutdown
            or record.in_controlled_shutdown == 1,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs
            if record.cordoned_log_dirs is None
            else tuple(record.cordoned_log_dirs),
        )
        self._brokers.put(record.broker_id, changed)

    def _broker(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            found = "nobody" if broker is None else f"epoch {broker.broker_epoch}"
            raise InvariantViolation(f"broker {broker_id} of epoch {broker_epoch}: found {found}")
        return broker

    def _open_topic(self, topic_id: bytes) -> _OpenTopic:
        topic = self._open.get(topic_id)
        if topic is None:
            name = self._topic_names.get(topic_id)
            if name is None:
                raise InvariantViolation(f"no topic has the id {uuid_to_text(topic_id)}")
            found = self._topics.get(name)
            assert found is not None
            topic = _OpenTopic(name, MapDraft(found.partitions))
            self._open[topic_id] = topic
        return topic


def _broker_of(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=tuple(
            Endpoint(end.name, end.host, end.port, end.security_protocol)
            for end in record.end_points
        ),
        features=tuple(
            SupportedFeature(
                feature.name, feature.min_supported_version, feature.max_supported_version
            )
            for feature in record.features
        ),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        cordoned_log_dirs=None
        if record.cordoned_log_dirs is None
        else tuple(record.cordoned_log_dirs),
    )


def _controller_of(record: RegisterControllerRecord) -> ControllerImage:
    return ControllerImage(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=tuple(
            Endpoint(end.name, end.host, end.port, end.security_protocol)
            for end in record.end_points
        ),
        features=tuple(
            SupportedFeature(
                feature.name, feature.min_supported_version, feature.max_supported_version
            )
            for feature in record.features
        ),
    )


def _partition_of(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        leader_recovery_state=record.leader_recovery_state,
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        directories=tuple(record.directories),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


def partition_after(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    names_leader = record.leader != _LEADER_UNCHANGED
    keeps_state = record.leader_recovery_state == _RECOVERY_UNCHANGED
    return PartitionImage(
        replicas=_or(record.replicas, before.replicas),
        isr=_or(record.isr, before.isr),
        leader=record.leader if names_leader else before.leader,
        leader_epoch=before.leader_epoch + names_leader,
        partition_epoch=before.partition_epoch + 1,
        leader_recovery_state=before.leader_recovery_state
        if keeps_state
        else record.leader_recovery_state,
        removing_replicas=_or(record.removing_replicas, before.removing_replicas),
        adding_replicas=_or(record.adding_replicas, before.adding_replicas),
        directories=_or(record.directories, before.directories),
        eligible_leader_replicas=_or(
            record.eligible_leader_replicas, before.eligible_leader_replicas
        ),
        last_known_elr=_or(record.last_known_elr, before.last_known_elr),
    )


def _or(given: list[V] | None, before: tuple[V, ...]) -> tuple[V, ...]:
    return before if given is None else tuple(given)
