"""Settings as DescribeConfigs shows them: the value that holds, and where it comes from. Pure."""

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.broker_key import BrokerKey, Update
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.group import GROUP_KEYS, GroupKey
from ledgerstone.config.listener_keys import find_key
from ledgerstone.config.setting import ConfigKey, ConfigType, Value, format_value
from ledgerstone.config.topic import TOPIC_KEYS, settle_topic
from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.metadata.image import EVERY_BROKER, ConfigResource, MetadataImage, ResourceType


class ConfigSource(enum.IntEnum):
    """Where a value was set; the values are the wire's."""

    TOPIC = 1
    BROKER = 2
    EVERY_BROKER = 3
    STATIC = 4
    DEFAULT = 5
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """One place that has a value for a key, under the name it has there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str | None  # None where nothing is set, or where the value is a secret.
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    kind: ConfigType
    doc: str
    synonyms: tuple[ConfigSynonym, ...]  # The strongest first; the first is the value that holds.


def topic_values(image: MetadataImage, config: BrokerConfig, topic: str) -> dict[str, Value]:
    """What holds for a topic, as a broker with this config sees it; it need not have a replica."""
    broker = image.broker_values(config.node_id, config.raw)
    return settle_topic(image.topic_config(topic), broker)


def topic_entries(
    image: MetadataImage, config: BrokerConfig, overrides: Mapping[str, str]
) -> list[ConfigEntry]:
    """Every topic key of a topic that has `overrides` of its own."""
    values = settle_topic(overrides, image.broker_values(config.node_id, config.raw))
    layers = _broker_layers(image, config)
    entries = []
    for name, key in TOPIC_KEYS.items():
        synonyms = tuple(_topic_synonyms(key, overrides, layers))
        entries.append(
            ConfigEntry(
                name=name,
                value=format_value(values[name]),
                source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                read_only=False,
                is_sensitive=False,
                kind=key.kind,
                doc=key.doc,
                synonyms=synonyms,
            )
        )
    return entries


def broker_entries(image: MetadataImage, config: BrokerConfig) -> list[ConfigEntry]:
    """Every broker key of the broker that has this config."""
    layers, in_cluster = _broker_layers(image, config), config.cluster.is_configured
    # What is set for one listener has names of its own.
    own = [
        replace(key, name=name)
        for name in config.raw
        if name not in BROKER_KEYS and (key := find_key(name, BROKER_KEYS)) is not None
    ]
    keys = (*BROKER_KEYS.values(), *own)
    return [_broker_entry(key, layers, in_cluster=in_cluster) for key in keys]


def every_broker_entries(image: MetadataImage) -> list[ConfigEntry]:
    """What was set for all brokers at once; nothing else belongs to that resource."""
    given = image.config_of(EVERY_BROKER)
    layers = {ConfigSource.EVERY_BROKER: given}
    entries = [_broker_entry(BROKER_KEYS[name], layers) for name in given if name in BROKER_KEYS]
    # As in Kafka: what each broker would have without it is not said here.
    return [replace(entry, synonyms=entry.synonyms[:1]) for entry in entries]


def group_entries(image: MetadataImage, group_id: str) -> list[ConfigEntry]:
    """Every group key, also of a group nobody knows: its settings may come before it does."""
    given = image.config_of(ConfigResource(ResourceType.GROUP, group_id))
    return [_group_entry(key, given.get(key.name)) for key in GROUP_KEYS.values()]


def _group_entry(key: GroupKey, own: str | None) -> ConfigEntry:
    default = ConfigSynonym(key.from_broker, format_value(key.default), ConfigSource.DEFAULT)
    synonyms: tuple[ConfigSynonym, ...] = (default,)
    if own is not None:
        synonyms = (ConfigSynonym(key.name, own, ConfigSource.GROUP), default)
    return ConfigEntry(
        name=key.name,
        value=synonyms[0].value,
        source=synonyms[0].source,
        read_only=False,
        is_sensitive=False,
        kind=key.kind,
        doc=key.doc,
        synonyms=synonyms,
    )


_Layers = Mapping[ConfigSource, Mapping[str, str]]


def _broker_layers(image: MetadataImage, config: BrokerConfig) -> _Layers:
    own = ConfigResource(ResourceType.BROKER, str(config.node_id))
    return {
        ConfigSource.BROKER: image.config_of(own),
        ConfigSource.EVERY_BROKER: image.config_of(EVERY_BROKER),
        ConfigSource.STATIC: config.raw,
    }


def _topic_synonyms(
    key: ConfigKey, overrides: Mapping[str, str], layers: _Layers
) -> Iterator[ConfigSynonym]:
    if key.name in overrides:
        yield ConfigSynonym(key.name, overrides[key.name], ConfigSource.TOPIC)
    names = [synonym.name for synonym in key.synonyms]
    for source, values in layers.items():
        yield from (ConfigSynonym(name, values[name], source) for name in names if name in values)
    for name in names:
        text = BROKER_KEYS[name].default_text
        if text is not None:
            yield ConfigSynonym(name, text, ConfigSource.DEFAULT)


def _broker_entry(key: BrokerKey, layers: _Layers, *, in_cluster: bool = False) -> ConfigEntry:
    synonyms = [
        ConfigSynonym(key.name, None if key.is_sensitive else values[key.name], source)
        for source, values in layers.items()
        if key.name in values
    ]
    default_text = key.default_text_for(in_cluster=in_cluster)
    if default_text is not None:
        synonyms.append(ConfigSynonym(key.name, default_text, ConfigSource.DEFAULT))
    return ConfigEntry(
        name=key.name,
        value=synonyms[0].value if synonyms else None,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=key.update is Update.READ_ONLY,
        is_sensitive=key.is_sensitive,
        kind=key.kind,
        doc=key.doc,
        synonyms=tuple(synonyms),
    )
