"""One program for every kind of Spark cluster: it writes a topic, deletes a key, and reads a table.

    python examples/spark_same_everywhere.py
    python examples/spark_same_everywhere.py --bootstrap … --master spark://HOST:7077
    spark-submit --master spark://HOST:7077 --py-files ledgerstone.zip \\
        examples/spark_same_everywhere.py --bootstrap … --submitted

Without a bootstrap server it starts its own broker. docs/shapes.md explains how to make the zip and
how to start a cluster from the installed package.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.errors import KafkaError
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.streams import Topic, as_records, ktable


@contextlib.contextmanager
def a_broker() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory, "ready.json")
        command = [sys.executable, "-m", "ledgerstone", "up", "--data", f"{directory}/data"]
        command += ["--listen", "127.0.0.1:0", "--ready-file", str(ready), "--log-level", "error"]
        process = subprocess.Popen(command)
        try:
            while not ready.exists():
                if process.poll() is not None:
                    raise SystemExit("the broker did not start")
                time.sleep(0.01)
            yield json.loads(ready.read_text())["bootstrap"]
        finally:
            process.terminate()
            process.wait()


def the_session(arguments: argparse.Namespace) -> SparkSession:
    if arguments.submitted:
        # spark-submit has said everything: master, package, settings.
        return SparkSession.builder.getOrCreate()
    import ledgerstone.spark

    return ledgerstone.spark.session("same-everywhere", master=arguments.master)


def where_executors_found_us(spark: SparkSession) -> set[str]:
    def look(_: Iterable[int]) -> Iterable[str]:
        import ledgerstone

        yield ledgerstone.__file__

    return set(spark.sparkContext.parallelize(range(2), 2).mapPartitions(look).collect())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--topic", default="same-everywhere")
    parser.add_argument("--submitted", action="store_true")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if arguments.bootstrap is None:
            arguments.bootstrap = stack.enter_context(a_broker())
        tell(arguments)


def tell(arguments: argparse.Namespace) -> None:
    with connect_to(arguments.bootstrap) as client:
        settings = {"cleanup.policy": "compact"}
        try:
            create_topic(client, NewTopic(name=arguments.topic, partitions=2, configs=settings))
        except KafkaError as error:
            print(f"the topic is there already: {error}")

    spark = the_session(arguments)
    rows: list[Any] = [(f"user-{n}", n, n % 10 == 0) for n in range(100)]
    frame = spark.createDataFrame(rows, "id string, n int, gone boolean")
    records = as_records(frame, key="id", value=["n"], deleted="gone")
    (
        records.write.format("ledgerstone")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("topic", arguments.topic)
        .mode("append")
        .save()
    )

    table = ktable(spark, Topic(bootstrap=arguments.bootstrap, name=arguments.topic, value="n int"))
    count, total = table.selectExpr("count(*)", "sum(value.n)").first() or (0, 0)
    print(f"executors found the package at {sorted(where_executors_found_us(spark))}")
    print(f"{count} keys are left, their sum is {total}")
    assert (count, total) == (90, 4500), (count, total)
    spark.stop()


if __name__ == "__main__":
    main()
