"""Aggregates that follow a compacted topic; tombstones retract. Shell.

KTable.groupBy().aggregate() of Kafka Streams: each micro-batch is folded in the reader and cut to
the needed columns by Spark; what is left of it updates `TotalsStore` on the driver, and the groups
that changed go to a compacted topic, an empty group as a tombstone.
"""

import base64
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.client.txn_errors import TransactionError
from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.frames import Topic, ktable_changes
from ledgerstone.pipeline.streams.measures import Measure, measure_of, object_text, stored
from ledgerstone.pipeline.streams.totals import Aggregate, TableRow, TotalsStore
from ledgerstone.pipeline.writing_once import WriterOnce
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

_RECORDS_AT_ONCE: Final = 5_000
# Of the driver's default of 1 GiB, which holds a micro-batch more than once on its way.
_BATCH_OFFSETS: Final = 500_000
_BATCH_BYTES: Final = 64 << 20

Publish = Callable[[Sequence[tuple[bytes, bytes | None]]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedTable:
    """`by` and the aggregates' columns are expressions over a row of `ktable_changes`, such as
    `value.country` or `year(timestamp)`."""

    source: Topic
    by: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    to: Topic
    work: str
    exactly_once: bool = False  # each result is written once, in transactions


def aggregate_table(
    spark: SparkSession, grouped: GroupedTable, *, once: bool = False
) -> StreamingQuery:
    work = Path(grouped.work)
    changes = needed_columns(ktable_changes(spark, _limited(grouped.source)), grouped)
    measures = _measures(changes, grouped)
    store = TotalsStore(
        work / "totals.sqlite",
        grouped.aggregates,
        measures=measures,
        definition=definition_of(grouped, changes),
    )
    with connect_to(grouped.to.bootstrap, grouped.to.command_config) as client:
        topic_id = uuid_to_text(client.topic(grouped.to.name).topic_id)
    store.tells(grouped.to.name, topic_id)
    publish = publisher_once(grouped.to, store) if grouped.exactly_once else publisher(grouped.to)
    tell(store, grouped, publish)

    def each_batch(batch: DataFrame, batch_id: int) -> None:
        store.apply(batch_id, table_rows(batch.toArrow().to_pylist(), grouped, measures))
        tell(store, grouped, publish)

    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": "1 second"}
    return (
        changes.writeStream.foreachBatch(each_batch)
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def _measures(changes: DataFrame, grouped: GroupedTable) -> list[Measure]:
    """By the types that Spark finds; refuses columns that cannot be added up."""
    types = {field.name: field.dataType.simpleString() for field in changes.schema.fields}
    return [
        measure_of(each.name, each.kind, each.column, types[f"m{at}"])
        for at, each in enumerate(grouped.aggregates)
    ]


def definition_of(grouped: GroupedTable, changes: DataFrame) -> str:
    """Everything that the state depends on, as readable text."""
    types = {field.name: field.dataType.simpleString() for field in changes.schema.fields}
    aggregates = [
        f"{each.name} = {each.kind.value}({each.column or '*'}) of {types[f'm{at}']}"
        for at, each in enumerate(grouped.aggregates)
    ]
    source = grouped.source
    said = (
        f"topic {source.name} (key {source.key}, value {source.value})",
        f"by {', '.join(grouped.by)}",
        *aggregates,
    )
    return "; ".join(said)


def _limited(topic: Topic) -> Topic:
    """A micro-batch comes to the driver: without a limit the first one is the whole topic."""
    limits = {
        "maxOffsetsPerTrigger": str(_BATCH_OFFSETS),
        "maxBytesPerTrigger": str(_BATCH_BYTES),
    }
    return replace(topic, options={**limits, **topic.options})


def needed_columns(changes: DataFrame, grouped: GroupedTable) -> DataFrame:
    measures = [
        sf.expr(each.column or "CAST(NULL AS INT)").alias(f"m{at}")
        for at, each in enumerate(grouped.aggregates)
    ]
    groups = [sf.expr(each).alias(f"g{at}") for at, each in enumerate(grouped.by)]
    key = sf.col("key").cast("binary").alias("key")
    written = sf.unix_micros("timestamp").alias("written_us")
    origin = [key, sf.col("partition"), sf.col("offset"), written, sf.col("deleted")]
    return changes.where("key IS NOT NULL").select(*origin, *groups, *measures)


def table_rows(
    rows: Sequence[dict[str, Any]], grouped: GroupedTable, measures: Sequence[Measure]
) -> list[TableRow]:
    groups = [f"g{at}" for at in range(len(grouped.by))]
    kept = [
        (f"m{at}", each.kind, measure)
        for at, (each, measure) in enumerate(zip(grouped.aggregates, measures, strict=True))
    ]
    return [
        TableRow(
            key=row["key"],
            partition=row["partition"],
            offset=row["offset"],
            written_us=row["written_us"],
            group=None if row["deleted"] else tuple(_plain(row[name]) for name in groups),
            measures=tuple(stored(row[name], kind, measure) for name, kind, measure in kept),
        )
        for row in rows
    ]


def tell(store: TotalsStore, grouped: GroupedTable, publish: Publish) -> int:
    """How many groups were told. All of them are written before any is ticked off."""
    records = [
        (
            json.dumps(dict(zip(grouped.by, group, strict=True)), sort_keys=True).encode(),
            None if result is None else object_text(result).encode(),
        )
        for group, result in store.untold()
    ]
    if records:
        publish(records)
        store.told()
    return len(records)


def publisher(topic: Topic) -> Publish:
    def publish(records: Sequence[tuple[bytes, bytes | None]]) -> None:
        with connect_to(topic.bootstrap, topic.command_config) as client:
            producer = Producer(client, ProducerConfig(idempotent=True))
            for first in range(0, len(records), _RECORDS_AT_ONCE):
                some = records[first : first + _RECORDS_AT_ONCE]
                for outcome in producer.send([NewRecord(topic.name, *each) for each in some]):
                    if isinstance(outcome, Exception):
                        raise PipelineError(f"topic {topic.name}: {outcome}") from outcome

    return publish


def publisher_once(topic: Topic, store: TotalsStore) -> Publish:
    """The results of one telling and its number are one transaction. A run that was killed between
    the commit and `told` finds the number, and publishes nothing again: its store has the same
    groups to tell."""
    at = TopicPartition(topic.name, 0)

    def publish(records: Sequence[tuple[bytes, bytes | None]]) -> None:
        with connect_to(topic.bootstrap, topic.command_config) as client:
            topic_id = uuid_to_text(client.topic(topic.name).topic_id)
            writer = WriterOnce(client, f"ledgerstone-totals-{store.store_id}")
            number = store.telling
            noted = writer.noted([at]).get(at)
            if noted is not None and (noted.offset, noted.metadata) == (number, topic_id):
                return
            try:
                writer.write(
                    [NewRecord(topic.name, *each) for each in records],
                    {at: CommittedOffset(number, metadata=topic_id)},
                )
            except TransactionError as error:
                raise PipelineError(f"topic {topic.name}: {error}") from error

    return publish


def _plain(value: Any) -> Any:  # noqa: ANN401 - a cell of any column
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | Decimal):
        return str(value)
    return value
