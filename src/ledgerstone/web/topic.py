"""One topic: its partitions, and its settings with their sources. Grade D."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.metadata.config_entries import ConfigEntry, ConfigSource, topic_entries
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.replication.partition import Partition
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.storage.log import PartitionLog
from ledgerstone.web.hosting import hosted, topic_facts, topic_of
from ledgerstone.web.router import Rendered

SHOWN_PARTITIONS: Final = 200
_SOURCES: Final = {
    ConfigSource.TOPIC: "this topic",
    ConfigSource.BROKER: "this broker",
    ConfigSource.EVERY_BROKER: "every broker",
    ConfigSource.STATIC: "the broker's file",
    ConfigSource.DEFAULT: "default",
}


class LogFigures(NamedTuple):
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    segments: int
    failure: str | None


class PartitionRow(NamedTuple):
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    # Of the replica on this node; None if it has none.
    log: LogFigures | None


class ConfigRow(NamedTuple):
    name: str
    value: str | None
    source: str
    is_own: bool
    doc: str


def topic_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    topic = topic_of(broker, parts)
    entries = topic_entries(broker.image, broker.config, broker.image.topic_config(topic))
    if not request.asker.may_on_topic(AclOperation.DESCRIBE_CONFIGS, topic):
        entries = []
    rows = [_config_row(each) for each in entries]
    facts = {
        **topic_facts(broker, topic),
        **_partition_facts(broker, topic),
        # Settings that were changed come first.
        "configs": sorted(rows, key=lambda row: (not row.is_own, row.name)),
        "live": (f"partitions:{topic}",),
    }
    return Rendered("topic.html", facts)


def partitions_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    topic = topic_of(broker, {"topic": argument})
    return Rendered("partitions_fragment.html", _partition_facts(broker, topic))


def _partition_facts(broker: Broker, topic: str) -> dict[str, object]:
    states = broker.image.topics[topic].partitions
    own = [number for number, each in states.items() if broker.config.node_id in each.replicas]
    here = {each.topic_partition.partition: each for each in hosted(broker, topic)}
    numbers = sorted(states)
    return {
        "topic": topic,
        "partition_rows": [
            _partition_row(number, states[number], here.get(number))
            for number in numbers[:SHOWN_PARTITIONS]
        ],
        "hidden_partitions": max(len(numbers) - SHOWN_PARTITIONS, 0),
        "unmade": len(set(own) - here.keys()),
        "elsewhere": len(states) - len(own),
    }


def _partition_row(number: int, state: PartitionImage, partition: Partition | None) -> PartitionRow:
    return PartitionRow(
        number=number,
        leader=None if state.leader < 0 else state.leader,
        replicas=state.replicas,
        isr=state.isr,
        log=None if partition is None else _figures(partition.log),
    )


def _figures(log: PartitionLog) -> LogFigures:
    return LogFigures(
        log_start_offset=log.log_start_offset,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
        segments=len(log.segments),
        failure=log.failure,
    )


def _config_row(entry: ConfigEntry) -> ConfigRow:
    return ConfigRow(
        name=entry.name,
        value=entry.value,
        source=_SOURCES[entry.source],
        is_own=entry.source is ConfigSource.TOPIC,
        doc=entry.doc,
    )
