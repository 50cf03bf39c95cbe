"""`ledgerstone topics`: lists, describes and changes topics. Shell."""

from typing import Annotated

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    ConfigOption,
    JsonOption,
    TopicArgument,
    connect,
    parse_pairs,
)
from ledgerstone.cli.output import Cell, flush, printable, write_json, write_line, write_rows
from ledgerstone.client import admin
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import NO_NODE, PartitionInfo, TopicInfo
from ledgerstone.client.configs import (
    ConfigEntry,
    ConfigSource,
    Resource,
    ResourceType,
    describe_configs,
)
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

app = new_app("List, create, describe, alter and delete topics.")

_PARTITION_COLUMNS = (
    "partition", "leader", "leader_epoch", "replicas", "isr", "start_offset", "end_offset", "bytes",
)  # fmt: skip


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics."""
    with connect(bootstrap) as client:
        topics = [each for each in client.all_topics() if internal or not each.is_internal]
    rows: list[tuple[Cell, ...]] = [
        (each.name, len(each.partitions), _replication(each)) for each in topics
    ]
    write_rows(("topic", "partitions", "replication"), rows, as_json=as_json)


@app.command("create")
def create(
    topic: TopicArgument,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="-1: the broker's default.")
    ] = admin.BROKER_DEFAULT,
    replication: Annotated[
        int,
        typer.Option(
            "--replication-factor", "--replication", "-r", help="-1: the broker's default."
        ),
    ] = admin.BROKER_DEFAULT,
    compacted: Annotated[
        bool, typer.Option("--compacted", help="Keep the last record of each key.")
    ] = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")
    ] = False,
    config: ConfigOption = [],  # noqa: B006  # typer reads it and makes a new list for each call
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic."""
    configs = parse_pairs(config)
    if compacted and configs.setdefault("cleanup.policy", "compact") != "compact":
        raise typer.BadParameter("--compacted contradicts cleanup.policy")
    with connect(bootstrap) as client:
        new = admin.NewTopic(
            name=topic, partitions=partitions, replication_factor=replication, configs=configs
        )
        try:
            admin.create_topic(client, new)
        except TopicAlreadyExists:
            if not if_not_exists:
                raise
            _say("kept", topic, as_json=as_json)
        else:
            _say("created", topic, as_json=as_json)


@app.command("delete")
def delete(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC")],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics and all their records."""
    with connect(bootstrap) as client:
        for topic in topics:
            try:
                admin.delete_topic(client, topic)
            except UnknownTopicOrPartition:
                if not if_exists:
                    raise
                continue
            _say("deleted", topic, as_json=as_json)


@app.command("delete-records")
def delete_records(
    topic: TopicArgument,
    before: Annotated[
        int, typer.Option("--before", metavar="OFFSET", help="-1: all records.", min=-1)
    ],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; repeatable.")
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete the records below an offset; they can no longer be read."""
    with connect(bootstrap) as client:
        numbers = partition or list(client.topic(topic).partitions)
        wanted = {TopicPartition(topic, number): before for number in numbers}
        starts = admin.delete_records(client, wanted).all_done()
    rows: list[tuple[Cell, ...]] = [(*each, starts[each]) for each in wanted]
    write_rows(("topic", "partition", "start_offset"), rows, as_json=as_json)


@app.command("alter")
def alter(
    topic: TopicArgument,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="The new total.", min=1)],
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Add partitions. Existing records stay; new records of a key may go to another partition."""
    with connect(bootstrap) as client:
        admin.add_partitions(client, topic, partitions)
    _say("altered", topic, as_json=as_json)


@app.command("describe")
def describe(
    topic: TopicArgument,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Include settings at their defaults.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show partitions, leaders, offsets, sizes and settings of a topic."""
    with connect(bootstrap) as client:
        info = client.topic(topic)
        rows = _partition_rows(client, info)
        configs = [
            entry
            for entry in describe_configs(client, Resource(ResourceType.TOPIC, topic))
            if all_configs or entry.source is not ConfigSource.DEFAULT_CONFIG
        ]
    topic_id = uuid_to_text(info.topic_id)
    if as_json:
        _write_described(info.name, topic_id, rows, configs)
    else:
        write_line(f"topic {printable(topic)}  id {topic_id}  partitions {len(info.partitions)}")
        write_rows(_PARTITION_COLUMNS, rows, as_json=False)
        for entry in configs:
            value = "(secret)" if entry.is_sensitive else printable(str(entry.value))
            write_line(f"{printable(entry.name)}={value}  ({entry.source.name})")
    flush()


def _write_described(
    name: str, topic_id: str, rows: list[tuple[Cell, ...]], configs: list[ConfigEntry]
) -> None:
    write_json(
        {
            "topic": name,
            "topic_id": topic_id,
            "partitions": [_partition_json(row) for row in rows],
            "configs": {
                entry.name: {"value": entry.value, "source": entry.source.name} for entry in configs
            },
        }
    )


def _partition_json(row: tuple[Cell, ...]) -> dict[str, object]:
    fields: dict[str, object] = dict(zip(_PARTITION_COLUMNS, row, strict=True))
    for name in ("replicas", "isr"):
        fields[name] = [int(node) for node in str(fields[name]).split(",") if node]
    return fields


def _partition_rows(client: Client, info: TopicInfo) -> list[tuple[Cell, ...]]:
    partitions = [TopicPartition(info.name, number) for number in info.partitions]
    # Nobody can say where a partition without a leader begins and ends.
    led = [each for each in partitions if info.partitions[each.partition].leader_id != NO_NODE]
    starts = list_offsets(client, dict.fromkeys(led, EARLIEST))
    ends = list_offsets(client, dict.fromkeys(led, LATEST))
    sizes = _leader_sizes(client, info)
    return [
        (
            each.partition,
            details.leader_id,
            details.leader_epoch,
            _nodes(details.replicas),
            _nodes(details.isr),
            starts[each].offset if each in starts else None,
            ends[each].offset if each in ends else None,
            sizes.get(each.partition),
        )
        for each, details in zip(partitions, info.partitions.values(), strict=True)
    ]


def _leader_sizes(client: Client, info: TopicInfo) -> dict[int, int]:
    """Bytes of each partition on its leader's disk; empty if the brokers do not say."""
    leaders: dict[int, PartitionInfo] = dict(info.partitions)
    try:
        logs = admin.replica_logs(client, info.name)
    except KafkaError:
        return {}
    return {
        log.partition.partition: log.size_bytes
        for log in logs
        if not log.is_future and log.broker_id == leaders[log.partition.partition].leader_id
    }


def _replication(topic: TopicInfo) -> int:
    return max((len(each.replicas) for each in topic.partitions.values()), default=0)


def _nodes(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes))


def _say(what: str, topic: str, *, as_json: bool) -> None:
    if as_json:
        write_json({what: topic})
    else:
        write_line(f"{what} topic {printable(topic)}")
    flush()
