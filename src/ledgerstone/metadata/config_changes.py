"""IncrementalAlterConfigs and AlterConfigs. Pure: image and request in, records and response out.

Both come to the same question: may the resource have these settings afterwards? What changes is
then written key by key. Each resource is judged by itself. Rules in README.md.
"""

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.broker_key import BrokerKey, Update
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.connection_limits import OVERRIDES_KEY, parse_overrides
from ledgerstone.config.group import GROUP_KEYS, parse_group_settings
from ledgerstone.config.setting import ConfigKey, ConfigType, format_value
from ledgerstone.config.topic import TOPIC_KEYS, resolve_topic, settle_topic
from ledgerstone.config.understood import is_understood
from ledgerstone.errors import (
    ConfigError,
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.decision import Decision, check_fits_record, reason_of
from ledgerstone.metadata.features import ELR_FEATURE
from ledgerstone.metadata.image import EVERY_BROKER, ConfigResource, MetadataImage, ResourceType
from ledgerstone.metadata.topic_names import check_is_not_evidence, check_topic_name
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)
from ledgerstone.protocol.messages.metadata_records import ConfigRecord

# A leader may move: as in Kafka since 4.1 what it waits for must not depend on who leads.
_FOR_ALL_ONLY: Final = ("min.insync.replicas",)
# What the dedupe buffer of one cleaner thread must exceed.
_SMALLEST_DEDUPE_BUFFER: Final = 1 << 20


_KEYS: Final[Mapping[int, Mapping[str, ConfigKey | BrokerKey]]] = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: BROKER_KEYS,
    ResourceType.GROUP: GROUP_KEYS,
}


class Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    image: MetadataImage, config: BrokerConfig, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    def settings_after(resource: IncrementalAlterConfigsResource) -> dict[str, str]:
        return _after_operations(image, config, _key(resource), resource.configs)

    outcomes, records = _alter(image, config, request.resources, settings_after)
    results = [
        IncrementalAlterConfigsResult(
            error_code=0 if error is None else error.code,
            error_message=None if error is None else reason_of(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(request.resources, outcomes, strict=True)
    ]
    response = IncrementalAlterConfigsResponse(responses=results)
    return Decision([] if request.validate_only else records, response)


def alter_configs(
    image: MetadataImage, config: BrokerConfig, request: AlterConfigsRequest
) -> Decision[AlterConfigsResponse]:
    """The older request, which replaces all settings of a resource by those it names."""
    outcomes, records = _alter(image, config, request.resources, _as_given)
    results = [
        AlterConfigsResult(
            error_code=0 if error is None else error.code,
            error_message=None if error is None else reason_of(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(request.resources, outcomes, strict=True)
    ]
    response = AlterConfigsResponse(responses=results)
    return Decision([] if request.validate_only else records, response)


AnyResource = TypeVar("AnyResource", AlterConfigsResource, IncrementalAlterConfigsResource)


def _key(resource: AlterConfigsResource | IncrementalAlterConfigsResource) -> ConfigResource:
    return ConfigResource(resource.resource_type, resource.resource_name)


def _alter(
    image: MetadataImage,
    config: BrokerConfig,
    resources: Sequence[AnyResource],
    settings_after: Callable[[AnyResource], dict[str, str]],
) -> tuple[list[KafkaError | None], list[MetadataRecord]]:
    """For each resource the reason it was refused or None, and the records of all that were not."""
    times = Counter(map(_key, resources))
    outcomes: list[KafkaError | None] = []
    records: list[MetadataRecord] = []
    for resource in resources:
        key = _key(resource)
        try:
            if times[key] > 1:
                raise InvalidRequest(f"{_label(key)} is named more than once")
            # Existence first: whoever misspells a topic should not hear about its settings.
            _check_resource(image, key)
            _check_names([each.name for each in resource.configs])
            after = settings_after(resource)
            _check_settings(image, config, key, after)
        except KafkaError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
            records += _change_records(key, image.config_of(key), after)
    return outcomes, records


def _label(key: ConfigResource) -> str:
    if key == EVERY_BROKER:
        return "the resource of all brokers"
    known = key.resource_type in tuple(ResourceType)
    kind = ResourceType(key.resource_type).name.lower() if known else f"type {key.resource_type}"
    return f"{kind} {key.name!r}"


def _check_resource(image: MetadataImage, key: ConfigResource) -> None:
    match key.resource_type:
        case ResourceType.TOPIC:
            if not key.name:
                raise InvalidRequest("a topic without a name")
            check_topic_name(key.name)
            if key.name not in image.topics:
                raise UnknownTopicOrPartition(f"there is no topic {key.name!r}")
            check_is_not_evidence(key.name, "keeps its settings")
        case ResourceType.BROKER:
            if key.name and key.name not in [str(broker_id) for broker_id in image.brokers]:
                raise InvalidRequest(f"no broker has the id {key.name!r}")
        case ResourceType.GROUP:
            # Settings may come before the group does.
            if not key.name:
                raise InvalidRequest("a group without a name")
        case _:
            raise InvalidRequest(f"{_label(key)}: only topics, brokers and groups have settings")


def _check_names(names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if not name:
            raise InvalidConfig("a setting without a name")
        if times > 1:
            raise InvalidRequest(f"{name} is named more than once")


def _check_settings(
    image: MetadataImage, config: BrokerConfig, key: ConfigResource, after: Mapping[str, str]
) -> None:
    _check_min_isr_stays(image, key, after)
    try:
        if key.resource_type == ResourceType.TOPIC:
            resolve_topic(after, image.broker_values(config.node_id, config.raw))
            return
        if key.resource_type == ResourceType.GROUP:
            parse_group_settings(after)
            return
        for name, text in after.items():
            _check_broker_setting(name, text, for_everyone=key == EVERY_BROKER)
        had = _broker_values(image, config, key, image.config_of(key))
        has = _broker_values(image, config, key, after)
        _check_cleaner(had, has)
        # The new defaults must be something a topic can have.
        resolve_topic({}, has)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from error


def _broker_values(
    image: MetadataImage, config: BrokerConfig, key: ConfigResource, own: Mapping[str, str]
) -> dict[str, str]:
    """What a broker goes by when the resource of brokers has the settings `own` and no others. Of
    all brokers: one that has nothing of its own. Their files are taken to be this node's."""
    values = dict(config.raw)
    for settings in (own,) if key == EVERY_BROKER else (image.config_of(EVERY_BROKER), own):
        values |= {name: text for name, text in settings.items() if is_understood(name, text)}
    return values


def _check_min_isr_stays(
    image: MetadataImage, key: ConfigResource, after: Mapping[str, str]
) -> None:
    """Which replicas are eligible to lead depends on it: it must not fall back to what the file of
    this or that controller says."""
    if key != EVERY_BROKER or image.features.get(ELR_FEATURE, 0) == 0:
        return
    for name in _FOR_ALL_ONLY:
        if name in image.config_of(key) and name not in after:
            raise InvalidConfig(f"{name} of all brokers stays set while {ELR_FEATURE} is on")


def _check_cleaner(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Kafka's rules for a cleaner that is changed while it runs."""
    threads_key, buffer_key = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
    if all(before.get(key) == after.get(key) for key in (threads_key, buffer_key)):
        return

    def number(values: Mapping[str, str], name: str) -> int:
        key = BROKER_KEYS[name]
        value = key.parse(values[name]) if name in values else key.default
        assert isinstance(value, int)
        return value

    now, wanted = number(before, threads_key), number(after, threads_key)
    if now != wanted and not max(now / 2, 1) <= wanted <= max(now * 2, 1):
        reason = f"must be at least 1, and between half and double of the present {now}"
        raise ConfigError(threads_key, wanted, reason)
    buffer = number(after, buffer_key)
    if buffer // max(wanted, 1) <= _SMALLEST_DEDUPE_BUFFER:
        reason = f"must be more than {_SMALLEST_DEDUPE_BUFFER} for each of {wanted} threads"
        raise ConfigError(buffer_key, buffer, reason)


def _check_broker_setting(name: str, text: str, *, for_everyone: bool) -> None:
    key = BROKER_KEYS.get(name)
    if key is None:
        raise ConfigError(name, text, "unknown broker config name")
    if key.update is Update.READ_ONLY:
        raise InvalidRequest(f"{name} cannot be changed while a broker runs")
    if key.update is Update.PER_BROKER and for_everyone:
        raise InvalidRequest(f"{name} is set for one broker, not for all")
    if name in _FOR_ALL_ONLY and not for_everyone:
        raise InvalidConfig(f"{name} is set for all brokers or for a topic, not for one broker")
    key.parse(text)
    if name == OVERRIDES_KEY:
        parse_overrides(text)


def _as_given(resource: AlterConfigsResource) -> dict[str, str]:
    after: dict[str, str] = {}
    for each in resource.configs:
        if each.value is None:
            raise InvalidRequest(f"{each.name}: a value is needed; leave the key out to unset it")
        after[each.name] = each.value
    return after


def _after_operations(
    image: MetadataImage,
    config: BrokerConfig,
    key: ConfigResource,
    changes: Sequence[IncrementalAlterConfigsConfig],
) -> dict[str, str]:
    after = dict(image.config_of(key))
    for change in changes:
        operation = change.config_operation
        if operation == Operation.DELETE:
            after.pop(change.name, None)
            continue
        if change.value is None:
            raise InvalidRequest(f"{change.name}: operation {operation} needs a value")
        if operation == Operation.SET:
            after[change.name] = change.value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            present = _list_now(image, config, key, change.name)
            after[change.name] = _list_after(present, change.value, operation)
            check_fits_record(change.name, after[change.name])
        else:
            raise InvalidRequest(f"{change.name}: there is no operation {operation}")
    return after


def _list_now(
    image: MetadataImage, config: BrokerConfig, key: ConfigResource, name: str
) -> list[str]:
    """The members a list has before the change, inherited ones included."""
    is_topic = key.resource_type == ResourceType.TOPIC
    declared = _KEYS[key.resource_type].get(name)
    if declared is not None and declared.kind is not ConfigType.LIST:
        raise InvalidConfig(f"{name} is no list: nothing can be appended or subtracted")
    own = image.config_of(key).get(name)
    if declared is None:
        # Refused as unknown in a moment, with the same words as any other operation.
        return []
    if own is None and is_topic:
        # What is committed may contradict the file of this controller: no reason to fail.
        broker = image.broker_values(config.node_id, config.raw)
        own = format_value(settle_topic({}, broker)[name])
    if own is None:
        default = BROKER_KEYS[name].default_text or ""
        own = _broker_values(image, config, key, {}).get(name, default)
    return _members(own)


def _list_after(present: list[str], change: str, operation: int) -> str:
    # Looked up by key: both lists may have thousands of members, and a request thousands of lists.
    members = dict.fromkeys(_members(change))
    if operation == Operation.SUBTRACT:
        return ",".join(member for member in present if member not in members)
    return ",".join(dict.fromkeys([*present, *members]))


def _members(text: str) -> list[str]:
    return [member.strip() for member in text.split(",") if member.strip()]


def _change_records(
    key: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]
) -> list[ConfigRecord]:
    return [
        ConfigRecord(
            resource_type=key.resource_type,
            resource_name=key.name,
            name=name,
            value=after.get(name),
        )
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
