"""Joins in which a deleted row is gone. Shell.

`join_stream_with_table` joins each event with the table as it is when its micro-batch runs (KStream
with KTable). `join_tables` makes a table that follows both sides (KTable with KTable, by key): for
each key that changed on either side it recomputes the result from both, so that a tombstone on one
side becomes a tombstone of the result. Neither keeps state: there is nothing to restore, and
nothing that could keep an erased key.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.pipeline.streams.frames import Topic, as_records, kstream, ktable, part_of

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

    return _start(events, join, checkpoint, once=once)


def join_tables(
    spark: SparkSession,
    left: Topic,
    right: Topic,
    to: Topic,
    *,
    value: Sequence[str],
    checkpoint: str,
    how: str = "inner",
    once: bool = False,
    exactly_once: bool = False,
) -> StreamingQuery:
    """`value` are expressions over `left` and `right`, the two values: "left.name AS name"."""

    def join(batch: DataFrame, batch_id: int) -> None:
        settings = to.sink_settings()
        if exactly_once:
            settings |= {"exactlyOnce": "true", **part_of(batch, batch_id)}
        joined = joined_rows(batch, left, right, how=how)
        content = sf.struct(*[sf.expr(each) for each in value]).alias("value")
        rows = joined.select("key", "deleted", content)
        records = as_records(rows, key="key", value=["value.*"], deleted="deleted")
        records.write.format("ledgerstone").options(**settings).mode("append").save()

    changed = [kstream(spark, each).select("key") for each in (left, right)]
    return _start(changed[0].union(changed[1]), join, checkpoint, once=once)


def joined_rows(changed: DataFrame, left: Topic, right: Topic, *, how: str) -> DataFrame:
    """Of each changed key both values as they are now, and whether the join has no row for it."""
    spark = changed.sparkSession
    keys = changed.where("key IS NOT NULL").select("key").distinct()
    sides = [
        ktable(spark, topic).select(
            "key", sf.col("value").alias(name), sf.lit(True).alias(f"in_{name}")
        )
        for topic, name in ((left, "left"), (right, "right"))
    ]
    both = keys.join(sides[0], "key", "left").join(sides[1], "key", "left")
    has_left, has_right = sf.col("in_left").isNotNull(), sf.col("in_right").isNotNull()
    has_row = {
        "inner": has_left & has_right,
        "left": has_left,
        "full": has_left | has_right,
    }[how]
    return both.select("key", "left", "right", (~has_row).alias("deleted"))


def _start(frame: DataFrame, each: EachBatch, checkpoint: str, *, once: bool) -> StreamingQuery:
    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": "1 second"}
    return (
        frame.writeStream.foreachBatch(each)
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )
