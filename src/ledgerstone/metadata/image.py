"""The cluster's metadata at one offset of its log, as immutable values. Pure.

An image is never changed: `ledgerstone.metadata.replay` makes the next one, and the two share
whatever the records in between did not touch. Contract in README.md.
"""

import enum
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from ledgerstone.config.understood import is_understood
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.features import METADATA_VERSION, METADATA_VERSION_FEATURE
from ledgerstone.metadata.kept_records import KeptKey
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.security.acl import Acl
from ledgerstone.uuid_text import UUID_BYTES, ZERO_UUID

NO_LEADER: Final = -1

# Directory ids that name no directory. The first two count as online, a lost one does not.
MIGRATING: Final = ZERO_UUID  # Not known yet: the record is older than directories.
UNASSIGNED: Final = (1).to_bytes(UUID_BYTES)  # The broker has several and will say which.
LOST: Final = (2).to_bytes(UUID_BYTES)
_FIRST_UNRESERVED: Final = (100).to_bytes(UUID_BYTES)


class ResourceType(enum.IntEnum):
    """What a setting belongs to; the values are the wire's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Whose setting it is. A broker without a name stands for every broker."""

    resource_type: int
    name: str


EVERY_BROKER: Final = ConfigResource(ResourceType.BROKER, "")


def is_reserved(directory: bytes) -> bool:
    """Whether no broker can have a directory of this id."""
    return directory < _FIRST_UNRESERVED


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class SupportedFeature(NamedTuple):
    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """One registered broker. Its epoch is the offset of the record that registered it."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()
    # Directories that take no new replicas. None: the broker has not said yet.
    cordoned_log_dirs: tuple[bytes, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_new_replicas(self) -> bool:
        """Whether some directory is not cordoned. Brokers that name none have one all the same."""
        cordoned = self.cordoned_log_dirs
        return not cordoned or not self.log_dirs or not set(self.log_dirs) <= set(cordoned)

    @property
    def default_directory(self) -> bytes:
        """Where a new replica goes. A broker with several directories chooses by itself."""
        if len(self.log_dirs) == 1:
            return self.log_dirs[0]
        return UNASSIGNED if self.log_dirs else MIGRATING

    def has_online(self, directory: bytes) -> bool:
        """Brokers that name no directories are older than that: theirs count as online."""
        if directory in (MIGRATING, UNASSIGNED):
            return True
        return directory != LOST and (not self.log_dirs or directory in self.log_dirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerImage:
    """One registered controller. Whether it votes is the quorum's business."""

    controller_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    replicas: tuple[int, ...]  # In order of preference.
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int  # Rises by one whenever a leader is named, the same one included.
    partition_epoch: int  # Rises by one with every change.
    leader_recovery_state: int = 0
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def check_invariants(self) -> None:
        replicas, isr = set(self.replicas), set(self.isr)
        elr = set(self.eligible_leader_replicas)
        assert len(replicas) == len(self.replicas) > 0, self
        assert len(isr) == len(self.isr), self
        assert elr <= replicas - isr, self
        assert {*self.adding_replicas, *self.removing_replicas} <= replicas, self

    def directory_of(self, broker_id: int) -> bytes:
        """Of a broker that is a replica."""
        return self.directories[self.replicas.index(broker_id)] if self.directories else MIGRATING


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    cluster_id: str
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)  # By topic id.
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: Mapping[bytes, Acl] = field(default_factory=dict)  # By id.
    acl_ids: Mapping[Acl, bytes] = field(default_factory=dict)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    # What this release does not act on, by key, as it came.
    kept: Mapping[KeptKey, MetadataRecord] = field(default_factory=dict)
    # Records of a transaction that has not ended. They are not in the rest of the image, and never
    # in a snapshot.
    open_transaction: tuple[MetadataRecord, ...] | None = None

    @property
    def metadata_version(self) -> int:
        """Says in which versions records are written. A log without one is about to begin."""
        return self.features.get(METADATA_VERSION_FEATURE, METADATA_VERSION)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def partition_numbers(self, topic: str) -> Collection[int]:
        """None of a topic that does not exist."""
        found = self.topics.get(topic)
        return () if found is None else found.partitions.keys()

    def config_of(self, resource: ConfigResource) -> Mapping[str, str]:
        """What was set for the resource itself; empty where nothing was."""
        return self.configs.get(resource, {})

    def topic_config(self, topic: str) -> Mapping[str, str]:
        return self.config_of(ConfigResource(ResourceType.TOPIC, topic))

    def broker_values(self, broker_id: int, static: Mapping[str, str]) -> dict[str, str]:
        """A broker's settings as text: its own, before every broker's, before the static ones.

        What is committed and not understood counts as not set. A Kafka controller takes values that
        we refuse, and no broker may end over them."""
        values = dict(static)
        for resource in (EVERY_BROKER, ConfigResource(ResourceType.BROKER, str(broker_id))):
            for name, text in self.config_of(resource).items():
                if is_understood(name, text):
                    values[name] = text
        return values

    def check_invariants(self) -> None:
        """For tests and simulations: what every image keeps, whatever was replayed into it."""
        assert self.topic_names == {t.topic_id: name for name, t in self.topics.items()}
        assert self.acl_ids == {acl: acl_id for acl_id, acl in self.acls.items()}
        for name, topic in self.topics.items():
            assert topic.name == name
            assert len(topic.topic_id) == UUID_BYTES
            assert sorted(topic.partitions) == list(range(len(topic.partitions))), name
            for partition in topic.partitions.values():
                assert all(broker in partition.replicas for broker in partition.isr), name
                assert partition.leader == NO_LEADER or partition.leader in partition.isr, name
                partition.check_invariants()
        for resource, values in self.configs.items():
            assert values, resource
            is_topic = resource.resource_type == ResourceType.TOPIC
            assert not is_topic or resource.name in self.topics, resource
        assert all(self.client_quotas.values()), self.client_quotas
