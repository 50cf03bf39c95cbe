"""Records become the next image, and what they touched the delta a broker must act on. Pure.

The same functions run live and at start, so an image is a function of its records alone, however
they were cut into batches. A record that contradicts the image means that the log is not ours or
that we are wrong: InvariantViolation. Contract in README.md.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.errors import InvariantViolation
from ledgerstone.metadata.delta import Delta, Touched, delta_of
from ledgerstone.metadata.features import KRAFT_VERSION_FEATURE
from ledgerstone.metadata.image import (
    BrokerImage,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ledgerstone.metadata.kept_records import KEYS, kept_key
from ledgerstone.metadata.record_images import (
    acl_of,
    broker_of,
    changed,
    controller_of,
    partition_of,
)
from ledgerstone.metadata.shared_map import MapDraft
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.uuid_text import uuid_to_text

FENCE: Final = 1
UNFENCE: Final = -1
_FENCED: Final = {FENCE: True, UNFENCE: False}


class Replayed(NamedTuple):
    image: MetadataImage
    delta: Delta


def apply(image: MetadataImage, records: Iterable[MetadataRecord]) -> Replayed:
    draft = _Draft(image)
    draft.replay(records)
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
        "_acl_ids",
        "_acls",
        "_brokers",
        "_configs",
        "_controllers",
        "_features",
        "_image",
        "_kept",
        "_next_producer_id",
        "_open",
        "_quotas",
        "_topic_names",
        "_topics",
        "_transaction",
    )

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._brokers = MapDraft(image.brokers)
        self._controllers = MapDraft(image.controllers)
        self._topics = MapDraft(image.topics)
        self._topic_names = MapDraft(image.topic_names)
        self._configs = MapDraft(image.configs)
        self._features = MapDraft(image.features)
        self._acls = MapDraft(image.acls)
        self._acl_ids = MapDraft(image.acl_ids)
        self._quotas = MapDraft(image.client_quotas)
        self._kept = MapDraft(image.kept)
        self._next_producer_id = image.next_producer_id
        self._open: dict[bytes, _OpenTopic] = {}
        transaction = image.open_transaction
        self._transaction = None if transaction is None else list(transaction)

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
            acls=self._acls.finish(),
            acl_ids=self._acl_ids.finish(),
            client_quotas=self._quotas.finish(),
            kept=self._kept.finish(),
            next_producer_id=self._next_producer_id,
            open_transaction=None if self._transaction is None else tuple(self._transaction),
        )

    def touched(self) -> Touched:
        """What the records named: nothing else can differ."""
        return Touched(
            topics=self._topics.touched,
            partitions={topic.name: topic.partitions.touched for topic in self._open.values()},
            configs=self._configs.touched,
            brokers=self._brokers.touched,
            acls=self._acls.touched,
        )

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        """Records of a transaction wait for its end: until then it has not happened."""
        rules = _RULES
        for record in records:
            if self._transaction is not None and type(record) not in _MARKERS:
                self._transaction.append(record)
                continue
            rule = rules.get(type(record))
            if rule is None:
                raise InvariantViolation(f"no rule for a {type(record).__name__}")
            rule(self, record)

    def _begin(self, record: BeginTransactionRecord) -> None:
        if self._transaction is not None:
            raise InvariantViolation("a transaction begins inside another one")
        self._transaction = []

    def _end(self, record: EndTransactionRecord) -> None:
        transaction = self._transaction
        if transaction is None:
            raise InvariantViolation("a transaction ends that has not begun")
        self._transaction = None
        self.replay(transaction)

    def _abort(self, record: AbortTransactionRecord) -> None:
        if self._transaction is None:
            raise InvariantViolation("a transaction is aborted that has not begun")
        self._transaction = None

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
        topic = self._open.get(record.topic_id) or self._open_topic(record.topic_id)
        topic.partitions.put(record.partition_id, partition_of(record))

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._open_topic(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise InvariantViolation(f"{topic.name}-{record.partition_id} changes, but is unknown")
        topic.partitions.put(record.partition_id, changed(before, record))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        """Of one topic, or of all where none is named. Partitions without any stay as they are."""
        if record.topic_name and record.topic_name not in self._topics:
            raise InvariantViolation(f"no topic has the name {record.topic_name}")
        for name in [record.topic_name] if record.topic_name else list(self._topics):
            topic = self._topics.get(name)
            assert topic is not None
            self._clear_elr_of(topic)

    def _clear_elr_of(self, topic: TopicImage) -> None:
        opened = self._open.get(topic.topic_id)
        partitions = MapDraft(topic.partitions) if opened is None else opened.partitions
        for number in list(partitions):
            found = partitions.get(number)
            if found is not None and (found.eligible_leader_replicas or found.last_known_elr):
                self._change_partition(
                    PartitionChangeRecord(
                        number, topic.topic_id, eligible_leader_replicas=[], last_known_elr=[]
                    )
                )

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

    def _put_quota(self, record: ClientQuotaRecord) -> None:
        entity = QuotaEntity.of({each.entity_type: each.entity_name for each in record.entity})
        values = dict(self._quotas.get(entity) or {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas.put(entity, values)
        elif entity in self._quotas:
            self._quotas.remove(entity)

    def _put_feature(self, record: FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION_FEATURE:
            # The quorum's own records say it. Some releases wrote this one by mistake.
            return
        if record.feature_level:
            self._features.put(record.name, record.feature_level)
        elif record.name in self._features:
            self._features.remove(record.name)

    def _put_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _put_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers.put(record.broker_id, broker_of(record))

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        after = replace(
            broker,
            fenced=_FENCED.get(record.fenced, broker.fenced),
            in_controlled_shutdown=broker.in_controlled_shutdown
            or record.in_controlled_shutdown == 1,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else tuple(cordoned),
        )
        self._brokers.put(record.broker_id, after)

    def _fence_broker(self, record: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
        """As releases before 3.3 wrote it."""
        broker = self._broker(record.id, record.epoch)
        fenced = isinstance(record, FenceBrokerRecord)
        self._brokers.put(record.id, replace(broker, fenced=fenced))

    def _remove_broker(self, record: UnregisterBrokerRecord) -> None:
        self._brokers.remove(self._broker(record.broker_id, record.broker_epoch).broker_id)

    def _put_controller(self, record: RegisterControllerRecord) -> None:
        self._controllers.put(record.controller_id, controller_of(record))

    def _put_acl(self, record: AccessControlEntryRecord) -> None:
        acl = acl_of(record)
        if record.id in self._acls or acl in self._acl_ids:
            text = uuid_to_text(record.id)
            raise InvariantViolation(f"ACL {acl} with id {text} exists already")
        self._acls.put(record.id, acl)
        self._acl_ids.put(acl, record.id)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        acl = self._acls.get(record.id)
        if acl is None:
            raise InvariantViolation(f"no ACL has the id {uuid_to_text(record.id)}")
        self._acls.remove(record.id)
        self._acl_ids.remove(acl)

    def _keep(self, record: MetadataRecord) -> None:
        key, is_gone = kept_key(record)
        if not is_gone:
            self._kept.put(key, record)
        elif key in self._kept:
            self._kept.remove(key)

    def _pass(self, record: MetadataRecord) -> None:
        """Nothing that an image holds."""

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


_MARKERS: Final = frozenset({BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})
_RULES: Final[Mapping[type[MetadataRecord], Callable[[_Draft, Any], None]]] = {
    RegisterBrokerRecord: _Draft._put_broker,
    UnregisterBrokerRecord: _Draft._remove_broker,
    TopicRecord: _Draft._put_topic,
    PartitionRecord: _Draft._put_partition,
    ConfigRecord: _Draft._put_config,
    PartitionChangeRecord: _Draft._change_partition,
    FenceBrokerRecord: _Draft._fence_broker,
    UnfenceBrokerRecord: _Draft._fence_broker,
    RemoveTopicRecord: _Draft._remove_topic,
    FeatureLevelRecord: _Draft._put_feature,
    ProducerIdsRecord: _Draft._put_producer_ids,
    BrokerRegistrationChangeRecord: _Draft._change_broker,
    NoOpRecord: _Draft._pass,
    # Of clusters that once used ZooKeeper.
    ZkMigrationStateRecord: _Draft._pass,
    BeginTransactionRecord: _Draft._begin,
    EndTransactionRecord: _Draft._end,
    AbortTransactionRecord: _Draft._abort,
    RegisterControllerRecord: _Draft._put_controller,
    ClearElrRecord: _Draft._clear_elr,
    AccessControlEntryRecord: _Draft._put_acl,
    RemoveAccessControlEntryRecord: _Draft._remove_acl,
    ClientQuotaRecord: _Draft._put_quota,
    **dict.fromkeys(KEYS, _Draft._keep),
}
