"""Short words for reading and writing through Spark in tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.offsets import LATEST, list_offsets
from ledgerstone.types import TopicPartition
from tests.kit.broker import wait_until


class Reachable(Protocol):
    """A broker, ours or Kafka's."""

    @property
    def bootstrap(self) -> str: ...


QUERY_TIMEOUT_S = 120
FORMAT = "ledgerstone"


def read(spark: SparkSession, broker: Reachable, topic: str, **options: str) -> DataFrame:
    return (
        spark.read.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options})
        .load()
    )


def write(frame: DataFrame, broker: Reachable, topic: str | None, **options: str) -> None:
    settings = {"kafka.bootstrap.servers": broker.bootstrap, **options}
    if topic is not None:
        settings["topic"] = topic
    frame.write.format(FORMAT).options(**settings).mode("append").save()


def stream(spark: SparkSession, broker: Reachable, topic: str, **options: str) -> DataFrame:
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


class FailOnceWritten:
    """Gives keys; the first attempt ends when the sink has written some of them. Runs in workers,
    which can import this module and no test."""

    def __init__(self, marker: str, bootstrap: str, topic: str) -> None:
        self.marker, self.bootstrap, self.topic = marker, bootstrap, topic

    def __call__(self, number: int) -> str:
        if number == 19_500 and not Path(self.marker).exists():
            wait_until(self._is_written, "something was written")
            Path(self.marker).touch()
            raise ValueError("the first attempt ends here")
        return str(number % 7)

    def _is_written(self) -> bool:
        host, _, port = self.bootstrap.rpartition(":")
        with Client([Endpoint(host, int(port))]) as client:
            partitions = [TopicPartition(self.topic, number) for number in range(2)]
            ends = list_offsets(client, dict.fromkeys(partitions, LATEST))
        return any(end.offset > 0 for end in ends.values())
