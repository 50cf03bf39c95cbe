"""Configuration of topics and brokers: read, set, reset. Shell over a `Client`."""

from collections.abc import Mapping
from enum import IntEnum

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import check
from ledgerstone.client.routing import AnyBroker, Target, ToBroker
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsConfig,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class _Operation(IntEnum):
    SET = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class Resource:
    type: ResourceType
    name: str  # a broker's id; empty for the default of all brokers

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"

    @property
    def target(self) -> Target:
        # Only the broker itself knows the settings it was started with.
        if self.type is ResourceType.BROKER and self.name:
            return ToBroker(int(self.name))
        return AnyBroker()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str | None  # None if it is secret
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


def describe_configs(
    client: Client, resource: Resource, *, documentation: bool = False
) -> list[ConfigEntry]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type, resource_name=resource.name, configuration_keys=None
            )
        ],
        include_documentation=documentation,
    )
    response = client.call(request, DescribeConfigsResponse, to=resource.target)
    entries: list[ConfigEntry] = []
    for result in response.results:
        check(result.error_code, f"{resource}", result.error_message)
        entries += map(_entry, result.configs)
    return sorted(entries, key=lambda entry: entry.name)


def _entry(config: DescribeConfigsConfig) -> ConfigEntry:
    known = config.config_source in list(ConfigSource)
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=ConfigSource(config.config_source) if known else ConfigSource.UNKNOWN,
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        documentation=config.documentation,
    )


def alter_configs(client: Client, resource: Resource, changes: Mapping[str, str | None]) -> None:
    """Sets each key to its value; None removes the override."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    IncrementalAlterConfigsConfig(
                        name=name,
                        config_operation=_Operation.DELETE if value is None else _Operation.SET,
                        value=value,
                    )
                    for name, value in changes.items()
                ],
            )
        ]
    )
    response = client.call(request, IncrementalAlterConfigsResponse, to=resource.target)
    for result in response.responses:
        check(result.error_code, f"{resource}", result.error_message)
