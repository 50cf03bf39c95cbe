"""Aggregates that follow a compacted topic; tombstones retract. Shell.

KTable.groupBy().aggregate() of Kafka Streams: each micro-batch is folded in the reader and cut to
the needed columns by Spark. Tasks merge it into a state of files, by key and then by group, and
write the groups that changed to a compacted topic, an empty group as a tombstone. No row comes to
the driver (ADR 0016).
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.executors import SparkExecutors
from ledgerstone.pipeline.streams.aggregate_state import AggregateState
from ledgerstone.pipeline.streams.frames import Topic, identity_of, ktable_changes, limited
from ledgerstone.pipeline.streams.measures import Aggregate, check_group, measured
from ledgerstone.pipeline.streams.micro_batches import following
from ledgerstone.pipeline.streams.outbox import teller
from ledgerstone.pipeline.streams.state_store import StateStore
from ledgerstone.pipeline.streams.time_windows import TIME, TimeWindows
from ledgerstone.pipeline.streams.totals import GroupTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedTable:
    """`by` and the aggregates' columns are expressions over a row of `ktable_changes`, such as
    `value.country` or `year(timestamp)`."""

    source: Topic
    by: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    to: Topic
    work: str
    windows: TimeWindows | None = None  # groups are by these too
    exactly_once: bool = False  # each result is written once, in transactions


def aggregate_table(
    spark: SparkSession, grouped: GroupedTable, *, once: bool = False
) -> StreamingQuery:
    changes = needed_columns(ktable_changes(spark, limited(grouped.source)), grouped)
    totals = totals_of(grouped, changes)
    executors = SparkExecutors(spark)
    state = AggregateState(StateStore(grouped.work), totals, executors)
    tell = teller(grouped.to, executors, exactly_once=grouped.exactly_once)
    definition = definition_of(grouped, changes)
    state.open(definition, identity_of(grouped.to), tell, topics=[grouped.source.name])

    return following(changes, state, tell, once=once)


def totals_of(grouped: GroupedTable, changes: DataFrame) -> GroupTotals:
    """By the types that Spark finds; refuses columns that cannot be added up, or grouped by."""
    types = {field.name: field.dataType.simpleString() for field in changes.schema.fields}
    for at, by in enumerate(grouped.by):
        check_group(by, types[f"g{at}"])
    found = [measured(each, types[f"m{at}"]) for at, each in enumerate(grouped.aggregates)]
    return GroupTotals(by=grouped.by, measured=tuple(found), windows=grouped.windows)


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
        *([] if grouped.windows is None else [str(grouped.windows)]),
        *aggregates,
    )
    return "; ".join(said)


def needed_columns(changes: DataFrame, grouped: GroupedTable) -> DataFrame:
    measures = [
        sf.expr(each.column or "CAST(NULL AS INT)").alias(f"m{at}")
        for at, each in enumerate(grouped.aggregates)
    ]
    groups = [sf.expr(each).alias(f"g{at}") for at, each in enumerate(grouped.by)]
    key = sf.col("key").cast("binary").alias("key")
    written = sf.unix_micros("timestamp").alias("written_us")
    time = sf.lit(None).cast("bigint")
    if grouped.windows is not None:
        time = sf.unix_micros(sf.expr(f"CAST({grouped.windows.time} AS timestamp)"))
    origin = [key, sf.col("partition"), sf.col("offset"), written, sf.col("deleted")]
    return changes.where("key IS NOT NULL").select(*origin, time.alias(TIME), *groups, *measures)
