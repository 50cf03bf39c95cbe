"""The connector from SQL, and in a declarative pipeline of Spark."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.shapes import spark_environment
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce

PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.materialized_view
def latest():
    reader = spark.read.format("ledgerstone").option("kafka.bootstrap.servers", "{bootstrap}")
    rows = reader.option("subscribe", "{topic}").option("fold", "latest").load()
    return rows.selectExpr("string(key) AS id", "string(value) AS said")
"""
SPECIFICATION = """
name: people
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""


@pytest.fixture
def topic(make_topic: MakeTopic, produce: Produce) -> str:
    name = make_topic("sql")
    records = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)]
    produce(*(NewRecord(name, key, value) for key, value in records))
    return name


def options(broker: BrokerProcess, topic: str) -> str:
    return f"'kafka.bootstrap.servers' = '{broker.bootstrap}', 'subscribe' = '{topic}'"


def test_view_in_sql_is_the_topic(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    said = options(broker, topic)
    spark.sql(f"CREATE TEMPORARY VIEW of_topic USING ledgerstone OPTIONS ({said}, fold = 'latest')")

    rows = spark.sql("SELECT string(key) AS key, string(value) AS value FROM of_topic").collect()
    spark.sql("DROP VIEW of_topic")

    assert [tuple(row) for row in rows] == [("a", "2")]


def test_table_in_sql_takes_its_options_with_the_query(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> None:
    spark.sql("CREATE TABLE records USING ledgerstone")
    query = f"SELECT count(*), count(value) FROM records WITH ({options(broker, topic)})"

    found = spark.sql(query).collect()
    columns = spark.table("records").columns
    spark.sql("DROP TABLE records")

    assert [tuple(row) for row in found] == [(4, 3)]
    assert columns[:3] == ["key", "value", "topic"]


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("grpc") is None or find_spec("pandas") is None,
    reason="declarative pipelines need pyspark[pipelines]",
)
def test_declarative_pipeline_reads_the_topic(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "transformations").mkdir()
    program = PIPELINE.format(bootstrap=broker.bootstrap, topic=topic)
    (tmp_path / "transformations" / "latest.py").write_text(program)
    specification = SPECIFICATION.format(storage=(tmp_path / "storage").as_uri())
    (tmp_path / "spark-pipeline.yml").write_text(specification)
    command = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    warehouse = ["--conf", f"spark.sql.warehouse.dir={tmp_path / 'warehouse'}"]

    done = subprocess.run(
        [str(command), "run", *warehouse],
        cwd=tmp_path,
        env=spark_environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "COMPLETED" in done.stdout + done.stderr
    files = sorted((tmp_path / "warehouse").rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert rows == [{"id": "a", "said": "2"}]
