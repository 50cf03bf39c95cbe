"""Short words for reading and writing through Spark in tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.kit.broker import BrokerProcess

QUERY_TIMEOUT_S = 120
FORMAT = "ledgerstone"


def read(spark: SparkSession, broker: BrokerProcess, topic: str, **options: str) -> DataFrame:
    return (
        spark.read.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options})
        .load()
    )


def write(frame: DataFrame, broker: BrokerProcess, topic: str | None, **options: str) -> None:
    settings = {"kafka.bootstrap.servers": broker.bootstrap, **options}
    if topic is not None:
        settings["topic"] = topic
    frame.write.format(FORMAT).options(**settings).mode("append").save()


def stream(spark: SparkSession, broker: BrokerProcess, topic: str, **options: str) -> DataFrame:
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
    return spark.readStream.format(FORMAT).options(**settings).load()


def run_until_now(
    frame: DataFrame, checkpoint: Path, each_batch: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Everything there is now, in as many micro-batches as the options ask for."""
    query = (
        frame.writeStream.foreachBatch(each_batch)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(QUERY_TIMEOUT_S), "the query does not end"
    return query


def offsets_of(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted(
        (row.partition, row.offset) for row in frame.select("partition", "offset").collect()
    )


def plain(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
