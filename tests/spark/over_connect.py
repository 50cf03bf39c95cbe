"""Streams and tables over Spark Connect, one after the other. A program: says of each what it gave.

Not a test itself: a process has sessions of Connect or classic ones, never both.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.errors import LedgerstoneError
from ledgerstone.pipeline.streams import Topic, as_records, kstream, ktable, to_topic
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.joining import join_stream_with_table, join_tables
from ledgerstone.pipeline.streams.lateness import late_status, route_late
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind

FORMAT = "ledgerstone"
RESULT = "over connect: "
TIMEOUT_S = 240
VALUE = "country string, amount bigint"


class Cases:
    """`users` has ann and bob, both of whom live in PL; each case has a topic of its own name."""

    def __init__(self, spark: SparkSession, bootstrap: str, work: str) -> None:
        self.spark, self.bootstrap, self.work = spark, bootstrap, work
        self.users = Topic(bootstrap=bootstrap, name="users", value=VALUE)

    def topic(self, name: str) -> Topic:
        return Topic(bootstrap=self.bootstrap, name=name)

    def records(self, name: str) -> list[list[str]]:
        frame = ktable(self.spark, Topic(bootstrap=self.bootstrap, name=name, value="string"))
        return sorted([row.key, row.value] for row in frame.collect())

    def ended(self, query: StreamingQuery) -> None:
        assert query.awaitTermination(TIMEOUT_S), "the query does not end"
        if (error := query.exception()) is not None:
            raise error

    def people(self, frame: DataFrame) -> DataFrame:
        return as_records(frame.select("key", "value.*"), key="key", value=["amount"])

    def counts(self) -> DataFrame:
        frame = kstream(self.spark, self.users).groupBy("value.country").agg(sf.count("*"))
        return as_records(frame.toDF("country", "n"), key="country", value=["n"])

    # -- cases --------------------------------------------------------------------------------

    def table(self) -> object:
        rows = ktable(self.spark, self.users).collect()
        return sorted([row.key, row.value.amount] for row in rows)

    def batch_written(self) -> object:
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": "batch_written"}
        writer = self.people(ktable(self.spark, self.users)).write.format(FORMAT)
        writer.options(**options).mode("append").save()
        return self.records("batch_written")

    def stream_written(self) -> object:
        return self._written("stream_written", exactly_once=False)

    def stream_written_once(self) -> object:
        return self._written("stream_written_once", exactly_once=True)

    def _written(self, name: str, *, exactly_once: bool) -> object:
        query = to_topic(
            self.people(kstream(self.spark, self.users)),
            self.topic(name),
            checkpoint=f"{self.work}/{name}",
            once=True,
            exactly_once=exactly_once,
        )
        self.ended(query)
        return self.records(name)

    def updated(self) -> object:
        checkpoint = f"{self.work}/updated"
        to = self.topic("updated")
        self.ended(to_topic(self.counts(), to, checkpoint=checkpoint, once=True, mode="update"))
        return self.records("updated")

    def joined_with_table(self) -> object:
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": "joined_with_table"}

        def each_batch(batch: DataFrame, _: int) -> None:
            rows = batch.selectExpr("key", "to_json(struct(table.value.country)) AS value")
            rows.write.format(FORMAT).options(**options).mode("append").save()

        query = join_stream_with_table(
            kstream(self.spark, self.users),
            self.users,
            on="key",
            each_batch=each_batch,
            checkpoint=f"{self.work}/joined",
            once=True,
        )
        self.ended(query)
        return self.records("joined_with_table")

    def late_routed(self) -> object:
        work = f"{self.work}/late"
        to = self.topic("late_routed")
        self.ended(
            route_late(self.spark, self.users, to, watermark="1 minutes", work=work, once=True)
        )
        return late_status(work)["records"]

    def updated_once(self) -> object:
        query = to_topic(
            self.counts(),
            self.topic("updated_once"),
            checkpoint=f"{self.work}/updated-once",
            once=True,
            mode="update",
            exactly_once=True,
        )
        self.ended(query)
        return self.records("updated_once")

    def aggregated(self) -> object:
        grouped = GroupedTable(
            source=self.users,
            by=("value.country",),
            aggregates=(Aggregate(name="n", kind=MeasureKind.COUNT),),
            to=self.topic("aggregated"),
            work=f"{self.work}/aggregated",
        )
        self.ended(aggregate_table(self.spark, grouped, once=True))
        return self.records("aggregated")

    def tables_joined(self) -> object:
        query = join_tables(
            self.spark,
            self.users,
            self.users,
            self.topic("tables_joined"),
            value=["left.amount AS amount"],
            work=f"{self.work}/tables-joined",
            once=True,
        )
        self.ended(query)
        return self.records("tables_joined")


# What works first, then what is refused.
CASES: Final[Mapping[str, Callable[[Cases], object]]] = {
    each.__name__: each
    for each in (
        Cases.table,
        Cases.batch_written,
        Cases.stream_written,
        Cases.stream_written_once,
        Cases.updated,
        Cases.joined_with_table,
        Cases.late_routed,
        Cases.updated_once,
        Cases.aggregated,
        Cases.tables_joined,
    )
}


def main(bootstrap: str, work: str) -> None:
    builder = SparkSession.builder.remote("local[2]")
    builder = builder.config("spark.sql.python.filterPushdown.enabled", "true")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    cases = Cases(spark, bootstrap, work)
    for name, case in CASES.items():
        try:
            said = case(cases)
        except LedgerstoneError as error:
            said = f"refused: {error}"
        except Exception as error:  # noqa: BLE001 - whatever Spark says is what is asked for
            said = f"failed: {type(error).__name__}: {error}"
        sys.stdout.write(f"{RESULT}{json.dumps([name, said])}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
