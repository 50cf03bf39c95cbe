"""A micro-batch larger than the memory of Spark's driver, into a table of each kind.

    python -m bench.spark_driver [--gib 2] [--memory 512m] [--kind sqlite ...]

One batch takes the whole topic, whose values do not compress. The row shows the most memory that
the driver's Python process held during the run, beyond what it held before; no row passes through
it, so that does not depend on the batch. The JVM has `--memory`.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import ledgerstone.spark
from bench.broker_process import BrokerProcess, broker_process
from bench.spark import PARTITIONS, connection_to
from bench.spark_tables import postgres
from bench.table import Row, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.runner import run_pipeline
from ledgerstone.system import SystemDice

TOPIC = "bench-large"
VALUE_BYTES = 16 << 10
ALLOWED_MIB = 128.0
_AT_ONCE = 2_000


def fill(broker: BrokerProcess, gib: float) -> int:
    rows = int(gib * (1 << 30) / VALUE_BYTES)
    dice = SystemDice()
    with Client(connection_to(broker).bootstrap) as client:
        topic = NewTopic(name=TOPIC, partitions=PARTITIONS, replication_factor=1, configs={})
        create_topic(client, topic)
        producer = Producer(client, ProducerConfig())
        for first in range(0, rows, _AT_ONCE):
            records = [
                NewRecord(TOPIC, b"%012d" % number, dice.random_bytes(VALUE_BYTES))
                for number in range(first, min(first + _AT_ONCE, rows))
            ]
            for outcome in producer.send(records):
                if isinstance(outcome, Exception):
                    raise outcome
    return rows


def resident_peak() -> int:
    """The most bytes this process has held since `forget_peak`."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this system does not say how much memory a process has held")


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def row_of(
    spark: SparkSession, broker: BrokerProcess, rows: int, table: dict[str, Any], place: Path
) -> Row:
    place.mkdir()
    size = rows * (VALUE_BYTES + 12)
    content = {
        "name": f"large-{table['type']}",
        "source": {
            "bootstrap": broker.bootstrap,
            "topic": TOPIC,
            "max_bytes_per_batch": 4 * size,
            "max_offsets_per_batch": 2 * rows,
        },
        "key": {"format": "string", "column": "id"},
        "value": {"format": "raw", "column": "content"},
        "table": table,
    }
    pipeline = define(content, directory=place)
    forget_peak()
    before = resident_peak()
    done = run_pipeline(pipeline, spark, once=True)
    assert (done.batches, done.upserts) == (1, rows), done
    grown = (resident_peak() - before) / (1 << 20)
    name = f"driver's growth, {size / (1 << 30):.1f} GiB in one batch to {table['type']}"
    return Row(name, grown, "MiB", "allowed", ALLOWED_MIB, ALLOWED_MIB / max(grown, 1.0), 1)


def run(*, gib: float, memory: str, kinds: list[str]) -> list[Row]:
    spark = ledgerstone.spark.session("bench", memory=memory, conf={"spark.log.level": "ERROR"})
    with tempfile.TemporaryDirectory() as name, postgres() as uri:
        directory = Path(name)
        tables = {
            "sqlite": {"type": "sqlite", "path": "table.db"},
            "postgres": {"type": "postgres", "connection": uri},
            "delta": {"type": "delta", "path": "table"},
            "parquet": {"type": "parquet", "path": "table"},
            "duckdb": {"type": "duckdb", "path": "table.duckdb"},
            "iceberg": {"type": "iceberg", "path": "table"},
            "sql": {"type": "sql", "connection": f"sqlite:///{directory}/by-sqlalchemy.db"},
        }
        with broker_process(directory, {}) as broker:
            rows = fill(broker, gib)
            found = [row_of(spark, broker, rows, tables[each], directory / each) for each in kinds]
    spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--memory", default="512m", help="of the driver's JVM")
    parser.add_argument(
        "--kind", nargs="*", default=["sqlite", "postgres", "delta", "parquet"], dest="kinds"
    )
    given = parser.parse_args()
    print(render(run(gib=given.gib, memory=given.memory, kinds=given.kinds)))
