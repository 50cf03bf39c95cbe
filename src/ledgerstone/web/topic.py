"""One topic: its partitions, and its settings with their sources. Grade D."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.metadata.config_entries import ConfigEntry, ConfigSource, topic_entries
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import HttpRequest
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


class PartitionRow(NamedTuple):
    number: int
    leader: int
    isr: tuple[int, ...]
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    segments: int
    failure: str | None


class ConfigRow(NamedTuple):
    name: str
    value: str | None
    source: str
    is_own: bool
    doc: str


def topic_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    topic = topic_of(broker, parts)
    entries = topic_entries(broker.image, broker.config, broker.image.topic_config(topic))
    rows = [_config_row(each) for each in entries]
    facts = {
        **topic_facts(broker, topic),
        **_partition_facts(broker, topic),
        # Settings that were changed come first.
        "configs": sorted(rows, key=lambda row: (not row.is_own, row.name)),
        "live": (f"partitions:{topic}",),
    }
    return Rendered("topic.html", facts)


def partitions_fragment(broker: Broker, argument: str) -> Rendered:
    topic = topic_of(broker, {"topic": argument})
    return Rendered("partitions_fragment.html", _partition_facts(broker, topic))


def _partition_facts(broker: Broker, topic: str) -> dict[str, object]:
    partitions = hosted(broker, topic)
    return {
        "topic": topic,
        "partition_rows": [_partition_row(each) for each in partitions[:SHOWN_PARTITIONS]],
        "hidden_partitions": max(len(partitions) - SHOWN_PARTITIONS, 0),
        "unmade": len(broker.image.topics[topic].partitions) - len(partitions),
    }


def _partition_row(partition: Partition) -> PartitionRow:
    log = partition.log
    return PartitionRow(
        number=partition.topic_partition.partition,
        leader=partition.leader_id,
        isr=partition.isr,
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
