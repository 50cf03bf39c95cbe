"""Aggregates and joins over tables, and what one changed key of many costs in a warm query.

    python -m bench.spark_streams [--quick]

A topic of two million keys is read once; then one key changes, three times, and the time of the
micro-batch that takes the last of these changes is shown, as Spark measured it.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ledgerstone.spark
from bench.broker_process import BrokerProcess, broker_process
from bench.spark import PARTITIONS, connection_to
from bench.table import Row, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.pipeline.streams import Topic
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind

GROUPS: Final = 10
_CHANGES: Final = 3
_POLL_S: Final = 0.1


def filled(spark: SparkSession, broker: BrokerProcess, name: str, keys: int) -> None:
    with Client(connection_to(broker).bootstrap) as client:
        settings = {"cleanup.policy": "compact"}
        for topic in (name, f"{name}-totals"):
            create_topic(client, NewTopic(name=topic, partitions=PARTITIONS, configs=settings))
    frame = spark.range(0, keys, 1, PARTITIONS).selectExpr(
        "lpad(string(id), 16, '0') AS key",
        f"to_json(struct(concat('c', string(id % {GROUPS})) AS country, id AS paid)) AS value",
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": name}
    frame.write.format("ledgerstone").options(**options).mode("append").save()


def batches(query: StreamingQuery) -> list[dict[str, Any]]:
    found = [json.loads(each.json) for each in query.recentProgress]
    return [each for each in found if each["numInputRows"]]


def wait_for(query: StreamingQuery, records: int) -> None:
    """Until so many were read, and what they change is told."""
    while sum(each["numInputRows"] for each in batches(query)) < records:
        if (error := query.exception()) is not None:
            raise error
        time.sleep(_POLL_S)


def one_changed_key(broker: BrokerProcess, query: StreamingQuery, name: str, keys: int) -> float:
    """Milliseconds of the last of a few micro-batches with one record each."""
    with Client(connection_to(broker).bootstrap) as client:
        producer = Producer(client, ProducerConfig(idempotent=True))
        for number in range(1, _CHANGES + 1):
            value = json.dumps({"country": f"c{number}", "paid": number}).encode()
            producer.send([NewRecord(name, b"%016d" % (keys // 2), value)])
            wait_for(query, keys + number)
    return float(batches(query)[-1]["durationMs"]["triggerExecution"])


def aggregate_rows(
    spark: SparkSession, broker: BrokerProcess, work: Path, keys: int, kinds: tuple[str, ...]
) -> list[Row]:
    name = "bench-" + "-".join(kinds)
    filled(spark, broker, name, keys)
    grouped = GroupedTable(
        source=Topic(bootstrap=broker.bootstrap, name=name, value="country string, paid bigint"),
        by=("value.country",),
        aggregates=tuple(
            Aggregate(
                name=kind,
                kind=MeasureKind(kind),
                column=None if kind == "count" else "value.paid",
            )
            for kind in kinds
        ),
        to=Topic(bootstrap=broker.bootstrap, name=f"{name}-totals"),
        work=str(work / name),
    )
    started = time.monotonic()
    query = aggregate_table(spark, grouped)
    try:
        wait_for(query, keys)
        loaded_s = time.monotonic() - started
        changed_ms = one_changed_key(broker, query, name, keys)
    finally:
        query.stop()
    said = ", ".join(kinds)
    return [
        Row(f"{said} of {keys} keys", keys / loaded_s, "keys/s", "", keys / loaded_s, 1, None),
        Row(f"{said}, one changed key of {keys}", changed_ms, "ms", "", changed_ms, 1, None),
    ]


def run(*, quick: bool = False) -> list[Row]:
    keys = 100_000 if quick else 2_000_000
    spark = ledgerstone.spark.session("bench", memory="2g", conf={"spark.log.level": "ERROR"})
    found = []
    with tempfile.TemporaryDirectory() as name:
        with broker_process(Path(name), {}) as broker:
            for kinds in (("count", "sum"), ("count", "max")):
                found += aggregate_rows(spark, broker, Path(name), keys, kinds)
        spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the keys")
    print(render(run(quick=parser.parse_args().quick)))
