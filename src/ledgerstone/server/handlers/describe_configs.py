"""DescribeConfigs (32). Grade D.

Behaviour: every setting of a topic, a group or this broker: value, where it comes from, what else
has a value for it, documentation if asked for. A broker resource must name this broker, or none for
what was set for all. A resource that is named more than once is answered once. Of groups without
settings of their own, which need not exist, a thousand are answered, the others POLICY_VIOLATION.
Where nothing is wrong the message is empty, not null, as in Kafka.
Versions: 1-4.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ledgerstone.errors import (
    ConfigError,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.config_entries import (
    ConfigEntry,
    broker_entries,
    every_broker_entries,
    group_entries,
    topic_entries,
)
from ledgerstone.metadata.decision import reason_of
from ledgerstone.metadata.image import ConfigResource, MetadataImage, ResourceType
from ledgerstone.metadata.topic_names import check_topic_name
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsConfig,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request

_MOST_PLAIN_GROUPS: Final = 1_000


def handle(broker: Broker, request: Request, message: DescribeConfigsRequest) -> Answer:
    # Each resource once: an answer is a hundred times as large as the question, and a request has
    # room to ask the same a hundred thousand times.
    resources = {
        ConfigResource(each.resource_type, each.resource_name): each for each in message.resources
    }
    too_many = frozenset(islice(_plain_groups(broker.image, resources), _MOST_PLAIN_GROUPS, None))
    return DescribeConfigsResponse(
        results=[
            _describe(broker, message, resource, is_too_many=key in too_many)
            for key, resource in resources.items()
        ]
    )


def _plain_groups(
    image: MetadataImage, resources: Iterable[ConfigResource]
) -> Iterable[ConfigResource]:
    """Anybody can think of such a group; topics and brokers there are only so many."""
    return (
        each
        for each in resources
        if each.resource_type == ResourceType.GROUP and not image.config_of(each)
    )


def _describe(
    broker: Broker,
    message: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    *,
    is_too_many: bool,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        if is_too_many:
            raise PolicyViolation(
                f"more than {_MOST_PLAIN_GROUPS} groups without settings in one request"
            )
        entries = _entries(broker, resource)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, reason_of(error)
        return result
    except ConfigError as error:
        result.error_code, result.error_message = ErrorCode.INVALID_CONFIG, str(error)
        return result
    wanted = frozenset(resource.configuration_keys or ())
    result.error_message = ""
    result.configs = [
        _config(entry, message)
        for entry in entries
        # Kafka takes an empty list for all keys, like null.
        if not wanted or entry.name in wanted
    ]
    return result


def _entries(broker: Broker, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        if name not in broker.image.topics:
            raise UnknownTopicOrPartition(f"topic {name} does not exist")
        return topic_entries(broker.image, broker.config, broker.image.topic_config(name))
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return every_broker_entries(broker.image)
        if name != str(broker.config.node_id):
            raise InvalidRequest(f"broker {name!r} is not this one, {broker.config.node_id}")
        return broker_entries(broker.image, broker.config)
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            raise InvalidRequest("a group without a name")
        return group_entries(broker.image, name)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        if name != str(broker.config.node_id):
            raise InvalidRequest(f"broker {name!r} is not this one, {broker.config.node_id}")
        return []
    raise InvalidRequest(f"resource type {resource.resource_type} has no settings here")


def _config(entry: ConfigEntry, message: DescribeConfigsRequest) -> DescribeConfigsConfig:
    synonyms = entry.synonyms if message.include_synonyms else ()
    return DescribeConfigsConfig(
        name=entry.name,
        value=None if entry.is_sensitive else entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in synonyms],
        config_type=entry.kind.value,
        documentation=entry.doc if message.include_documentation else None,
    )
