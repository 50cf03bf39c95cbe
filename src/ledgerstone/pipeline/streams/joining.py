"""Joins in which a deleted row is gone. Shell.

`join_stream_with_table` joins each event with the table as it is when its micro-batch runs (KStream
with KTable). `join_tables` makes a table that follows both sides (KTable with KTable), by key or
by a foreign key: tasks merge the changes of a micro-batch into a state of both sides, by key, and
what changed of the result is told, a row that is gone as a tombstone. No row comes to the driver.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.pipeline.executors import SparkExecutors
from ledgerstone.pipeline.streams.frames import (
    Topic,
    decoded_value,
    identity_of,
    ktable,
    ktable_records,
    limited,
)
from ledgerstone.pipeline.streams.join_state import JoinState
from ledgerstone.pipeline.streams.micro_batches import following, started
from ledgerstone.pipeline.streams.outbox import Tell
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion

EachBatch = Callable[[DataFrame, int], None]


def join_stream_with_table(
    events: DataFrame,
    table: Topic,
    *,
    on: str,
    each_batch: EachBatch,
    checkpoint: str,
    how: str = "inner",
    once: bool = False,
) -> StreamingQuery:
    """`on` is a column of the events that holds a key of the table; the table's row comes as the
    struct `table`, null where a left join finds none. `each_batch` gets the joined rows."""

    def join(batch: DataFrame, batch_id: int) -> None:
        rows = ktable(batch.sparkSession, table)
        side = rows.select(sf.col("key").alias("_key"), sf.struct("value", "offset").alias("table"))
        each_batch(batch.join(side, batch[on] == side["_key"], how).drop("_key"), batch_id)

    return started(events, join, checkpoint, once=once)


def join_tables(
    spark: SparkSession,
    left: Topic,
    right: Topic,
    to: Topic,
    *,
    value: Sequence[str],
    work: str,
    how: str = "inner",
    foreign_key: str | None = None,
    once: bool = False,
    exactly_once: bool = False,
) -> StreamingQuery:
    """`value` are expressions over `left` and `right`, the two values: "left.name AS name".
    `foreign_key` is one over a row of the left topic, "value.customer", that gives a key of the
    right one; without it both sides have the same keys."""
    state = JoinState(
        StateStore(work), SparkExecutors(spark), how=how, by_foreign_key=foreign_key is not None
    )
    definition = "; ".join(
        (
            f"{how} join of topic {left.name} (key {left.key}, value {left.value})",
            f"with topic {right.name} (key {right.key}, value {right.value})",
            f"by {foreign_key or 'key'}",
            f"to {', '.join(value)}",
        )
    )
    tell = pair_teller(spark, (left, right), to, value, exactly_once=exactly_once)
    state.open(definition, identity_of(to), tell, topics=[left.name, right.name])

    sides = [
        side_columns(ktable_records(spark, limited(topic)), side, foreign_key)
        for side, topic in enumerate((left, right))
    ]
    return following(sides[0].unionAll(sides[1]), state, tell, once=once)


def side_columns(records: DataFrame, side: int, foreign_key: str | None) -> DataFrame:
    """As `join_tasks.side_changes` takes them, behind the number of the side."""
    foreign: Column = sf.lit(None).cast("binary")
    if side == 0 and foreign_key is not None:
        named = sf.expr(foreign_key)
        is_binary = dict(records.select(named.alias("fk")).dtypes)["fk"] == "binary"
        foreign = named if is_binary else named.cast("string").cast("binary")
    return records.where("key IS NOT NULL").select(
        sf.lit(side).alias("side"),
        sf.col("key").cast("binary").alias("key"),
        sf.col("raw").alias("value"),
        foreign.alias("fk"),
        "partition",
        "offset",
        sf.unix_micros("timestamp").alias("written_us"),
        sf.col("value").isNotNull().alias("is_read"),
    )


def pair_teller(
    spark: SparkSession,
    sides: tuple[Topic, Topic],
    to: Topic,
    value: Sequence[str],
    *,
    exactly_once: bool,
) -> Tell:
    """Spark's tasks make the result of both values, and write it."""

    def tell(store: StateStore, version: StateVersion) -> None:
        settings = to.sink_settings()
        if exactly_once:
            part = {"txnAppId": version.store_id, "txnVersion": str(version.telling)}
            settings |= {"exactlyOnce": "true", **part}
        pairs = pairs_in(spark, [f"{store.area.root}/{each}" for each in version.outbox])
        joined = pairs.select(
            "key",
            "deleted",
            decoded_value(sides[0], "left").alias("left"),
            decoded_value(sides[1], "right").alias("right"),
        )
        content = sf.struct(*[sf.expr(each) for each in value])
        text = sf.to_json(content, {"ignoreNullFields": "false"})
        records = joined.select("key", sf.when(~sf.col("deleted"), text).alias("value"))
        records.write.format("ledgerstone").options(**settings).mode("append").save()

    return tell


def pairs_in(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Dealt to as many tasks as there are files, the same rows to each whenever they are told.

    Spark would pack files by the cores that it has just then. A run that is started again with
    fewer tasks would leave transactions of the earlier one open until they time out."""
    schema = "key binary, left binary, right binary, deleted boolean"
    pairs = spark.read.schema(schema).parquet(*paths)
    return pairs.coalesce(1) if len(paths) == 1 else pairs.repartition(len(paths), "key")
