"""Settings as they are shown: the value that holds, and every place that has one."""

from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.setting import ConfigType
from ledgerstone.config.topic import TOPIC_KEYS
from ledgerstone.metadata.config_entries import (
    ConfigEntry,
    ConfigSource,
    broker_entries,
    every_broker_entries,
    topic_entries,
)
from ledgerstone.metadata.image import EVERY_BROKER, ConfigResource, ResourceType
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from tests.unit.metadata.cluster import Cluster

OWN = ConfigResource(ResourceType.BROKER, "1")


def _cluster(*overrides: str, **dynamic: dict[ConfigResource, str]) -> Cluster:
    """Dynamic settings by key, with underscores for dots."""
    cluster = Cluster(*overrides)
    for name, values in dynamic.items():
        for resource, value in values.items():
            cluster.commit([ConfigRecord(*resource, name.replace("_", "."), value)])
    return cluster


def _topic_entry(cluster: Cluster, name: str, **overrides: str) -> ConfigEntry:
    own = {key.replace("_", "."): value for key, value in overrides.items()}
    entries = {entry.name: entry for entry in topic_entries(cluster.image, cluster.config, own)}
    assert list(entries) == list(TOPIC_KEYS)
    return entries[name]


def _broker_entry(cluster: Cluster, name: str) -> ConfigEntry:
    entries = {entry.name: entry for entry in broker_entries(cluster.image, cluster.config)}
    assert list(entries) == list(BROKER_KEYS)
    return entries[name]


def test_synonyms_come_strongest_first_under_the_names_they_have_there() -> None:
    cluster = _cluster(
        "log.retention.hours=2",
        log_retention_ms={OWN: "30", EVERY_BROKER: "40"},
    )

    entry = _topic_entry(cluster, "retention.ms", retention_ms="20")

    assert (entry.value, entry.source) == ("20", ConfigSource.TOPIC)
    assert entry.synonyms == (
        ("retention.ms", "20", ConfigSource.TOPIC),
        ("log.retention.ms", "30", ConfigSource.BROKER),
        ("log.retention.ms", "40", ConfigSource.EVERY_BROKER),
        ("log.retention.hours", "2", ConfigSource.STATIC),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_a_topic_inherits_in_its_own_unit() -> None:
    entry = _topic_entry(_cluster("log.retention.hours=2"), "retention.ms")

    assert (entry.value, entry.source) == ("7200000", ConfigSource.STATIC)
    assert (entry.kind, entry.read_only, entry.is_sensitive) == (ConfigType.LONG, False, False)
    assert entry.doc == TOPIC_KEYS["retention.ms"].doc


def test_a_broker_key_nobody_set_has_its_default_or_nothing() -> None:
    cluster = _cluster()

    partitions, retention = (
        _broker_entry(cluster, "num.partitions"),
        _broker_entry(cluster, "log.retention.ms"),
    )

    assert (partitions.value, partitions.source) == ("1", ConfigSource.DEFAULT)
    assert (retention.value, retention.source, retention.synonyms) == (
        None,
        ConfigSource.DEFAULT,
        (),
    )


def test_a_broker_key_shows_whether_it_can_change() -> None:
    cluster = _cluster("num.partitions=5", max_connections={OWN: "9"})

    partitions, connections = (
        _broker_entry(cluster, "num.partitions"),
        _broker_entry(cluster, "max.connections"),
    )

    assert (partitions.value, partitions.source, partitions.read_only) == (
        "5",
        ConfigSource.STATIC,
        True,
    )
    assert (connections.value, connections.source) == ("9", ConfigSource.BROKER)
    assert not connections.read_only


def test_the_resource_of_all_brokers_shows_what_was_set_for_all_of_them() -> None:
    cluster = _cluster("max.connections=5", max_connections={EVERY_BROKER: "8"})

    entries = every_broker_entries(cluster.image)

    assert [(entry.name, entry.value, entry.source) for entry in entries] == [
        ("max.connections", "8", ConfigSource.EVERY_BROKER)
    ]
