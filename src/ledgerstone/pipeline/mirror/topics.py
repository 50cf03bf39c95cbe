"""Makes the copy of a topic, and knows it again. Shell."""

from typing import Final

from ledgerstone.client.admin import NewTopic, add_partitions, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import (
    ConfigSource,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from ledgerstone.errors import UnknownTopicOrPartition
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.mirror.notes import MirrorNotes, Pair
from ledgerstone.spark.errors import said_recreated
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text

_UNKNOWN: Final = uuid_to_text(ZERO_UUID)  # of brokers that give topics no ids
ANEW: Final = "start over with another work directory, and another or an empty copy"
# Settings that speak of brokers and groups of one cluster, not of the records.
OF_THE_CLUSTER: Final = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "ledgerstone.tombstone.hold.groups",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)


def check_pair(source: Client, target: Client, notes: MirrorNotes, topic: str, copy: str) -> None:
    """Checks that neither the original nor the copy was deleted and created again."""
    before = notes.pair(topic)
    if before is None or not notes.has_positions(topic):
        return
    try:
        now = pair_of(source, target, topic, copy)
    except UnknownTopicOrPartition as error:
        raise PipelineError(f"{error}, and it was mirrored; {ANEW}") from error
    if before.copy != now.copy:
        raise PipelineError(f"{topic} was mirrored to {before.copy}, not to {copy}; {ANEW}")
    ids = ((topic, before.source_id, now.source_id), (copy, before.copy_id, now.copy_id))
    for name, was, is_now in ids:
        if was != is_now and _UNKNOWN not in (was, is_now):
            raise PipelineError(f"{said_recreated(name, was, is_now)}; {ANEW}")


def pair_of(source: Client, target: Client, topic: str, copy: str) -> Pair:
    ids = [uuid_to_text(each.topic_id) for each in (source.topic(topic), target.topic(copy))]
    return Pair(ids[0], copy, ids[1])


def source_id(pair: Pair) -> str | None:
    return None if pair.source_id == _UNKNOWN else pair.source_id


def prepare_topic(source: Client, target: Client, topic: str, copy: str) -> None:
    """Gives the copy the partitions and explicit settings of the original."""
    count = len(source.topic(topic).partitions)
    settings = _settings(source, topic)
    try:
        existing = len(target.topic(copy).partitions)
    except UnknownTopicOrPartition:
        create_topic(target, NewTopic(name=copy, partitions=count, configs=settings))
        return
    if existing > count:
        raise PipelineError(f"{copy} has {existing} partitions and {topic} has {count}")
    if existing < count:
        add_partitions(target, copy, count)
    present = _settings(target, copy)
    changes: dict[str, str | None] = {
        name: value for name, value in settings.items() if present.get(name) != value
    }
    changes |= dict.fromkeys(name for name in present if name not in settings)
    if changes:
        alter_configs(target, Resource(ResourceType.TOPIC, copy), changes)


def _settings(client: Client, topic: str) -> dict[str, str]:
    return {
        each.name: each.value
        for each in describe_configs(client, Resource(ResourceType.TOPIC, topic))
        if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        and each.value is not None
        and each.name not in OF_THE_CLUSTER
    }
