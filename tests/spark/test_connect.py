"""What works over Spark Connect and in Declarative Pipelines, as docs/streams.md has it.

Both need packages that nothing else here does: `make test CONNECT=1` installs them beside ours.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from ledgerstone.client.admin import NewTopic
from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import LATEST, list_offsets
from ledgerstone.client.producer import NewRecord
from ledgerstone.spark.java import find_java
from ledgerstone.types import TopicPartition
from tests.kit.both_brokers import create_topic_and_wait
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import producing_to
from tests.spark.over_connect import CASES, RESULT

pytestmark = pytest.mark.slow
pytest.importorskip("grpc", reason="not installed: make test CONNECT=1")

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 600
PEOPLE = [["ann", '{"amount":3}'], ["bob", '{"amount":4}']]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Of programs of Spark that start their JVM themselves."""
    paths = [str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **os.environ,
        "JAVA_HOME": str(find_java(os.environ).path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in paths if each),
    }


@pytest.fixture(scope="module")
def users(broker: BrokerProcess, client: Client) -> BrokerProcess:
    """Has ann, changed once, and bob, in the topic `users`, and a topic for each case."""
    settings = {"cleanup.policy": "compact"}
    for name in ("users", "copied", *CASES):
        topic = NewTopic(name=name, partitions=2, replication_factor=1, configs=settings)
        create_topic_and_wait(client, topic)
    producing_to(client)(
        *(
            NewRecord("users", name, b'{"country":"PL","amount":%d}' % amount)
            for name, amount in ((b"ann", 1), (b"ann", 3), (b"bob", 4))
        )
    )
    return broker


@pytest.fixture(scope="module")
def said(
    users: BrokerProcess, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What each case gave, over one server."""
    work = tmp_path_factory.mktemp("connect")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.over_connect", users.bootstrap, str(work)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    lines = [line.partition(RESULT)[2] for line in done.stdout.splitlines() if RESULT in line]
    assert lines, done.stderr[-4000:]
    return dict(json.loads(line) for line in lines)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("table", [["ann", 3], ["bob", 4]]),
        ("batch_written", PEOPLE),
        ("stream_written", PEOPLE),
        ("stream_written_once", PEOPLE),
        ("updated", [["PL", '{"n":3}']]),
        ("joined_with_table", [["ann", '{"country":"PL"}'], ["bob", '{"country":"PL"}']]),
        ("late_routed", 3),
    ],
)
def test_what_connect_runs(said: dict[str, Any], case: str, expected: object) -> None:
    assert said[case] == expected


@pytest.mark.parametrize("case", ["updated_once", "aggregated", "tables_joined"])
def test_what_connect_cannot_run_says_why(said: dict[str, Any], case: str) -> None:
    assert "which a client of Spark Connect does not have" in said[case]


def test_declarative_pipelines_read_and_write_topics(
    users: BrokerProcess, client: Client, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: people\nstorage: file://{tmp_path}/storage\n"
        "libraries:\n  - glob:\n      include: transformations/**\n"
        'configuration:\n  spark.sql.python.filterPushdown.enabled: "true"\n'
    )
    (tmp_path / "transformations" / "people.py").write_text(
        f"""
from pyspark import pipelines as dp

BROKER = {{"kafka.bootstrap.servers": "{users.bootstrap}"}}
SOURCE = {{**BROKER, "subscribe": "users", "startingOffsets": "earliest"}}

@dp.table
def events():
    return spark.readStream.format("ledgerstone").options(**SOURCE).load()

@dp.materialized_view
def people():
    frame = spark.read.format("ledgerstone").options(**SOURCE, fold="latest").load()
    return frame.selectExpr("string(key)", "string(value)")

dp.create_sink("copied", "ledgerstone", {{**BROKER, "topic": "copied"}})

@dp.append_flow(target="copied")
def copy():
    return spark.readStream.table("events").select("key", "value")
"""
    )

    done = subprocess.run(
        [f"{environment['SPARK_HOME']}/bin/spark-pipelines", "run"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert len(_cells(tmp_path, "events", "offset")) == 3
    assert _cells(tmp_path, "people", "key") == ["ann", "bob"]
    partitions = dict.fromkeys([TopicPartition("copied", number) for number in range(2)], LATEST)
    assert sum(each.offset for each in list_offsets(client, partitions).values()) == 3


def _cells(project: Path, table: str, column: str) -> list[Any]:
    files = (project / "spark-warehouse" / table).glob("*.parquet")
    return sorted(cell for each in files for cell in pq.read_table(each).column(column).to_pylist())
