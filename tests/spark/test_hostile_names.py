"""Names that are syntax somewhere go through the connector and a whole pipeline as data."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.runner import run_pipeline
from ledgerstone.pipeline.state.verify import verify
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.broker import BrokerProcess
from tests.kit.hostile_names import NAMES, TOPICS
from tests.kit.postgres import postgres, postgres_server  # noqa: F401 - fixtures
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.kit import plain, read, write


def test_hostile_keys_values_and_headers_are_written_and_read_as_they_are(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic("hostile-keys", partitions=2)
    rows = [(name, name, [(name, name.encode())]) for name in NAMES]
    schema = "key string, value string, headers array<struct<key: string, value: binary>>"

    write(spark.createDataFrame(rows, schema).coalesce(1), broker, topic)
    found = read(spark, broker, topic, fold="latest", includeHeaders="true").collect()

    assert sorted(plain(row.key) or b"" for row in found) == sorted(each.encode() for each in NAMES)
    for row in found:
        name = bytes(row.key).decode()
        assert plain(row.value) == name.encode()
        assert [(each.key, plain(each.value)) for each in row.headers] == [(name, name.encode())]


def test_hostile_keys_are_found_by_a_pushed_filter(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic, produce: Produce
) -> None:
    topic = make_topic("hostile-filter")
    produce(*(NewRecord(topic, name.encode(), b"1") for name in NAMES))
    name = NAMES[1].encode()

    found = read(spark, broker, topic, pushFilters="true")
    rows = found.where(sf.col("key") == sf.lit(bytearray(name))).collect()

    assert [plain(row.key) for row in rows] == [name]


def test_hostile_name_of_a_topic_is_a_topic(
    spark: SparkSession, broker: BrokerProcess, client: Client
) -> None:
    for topic in TOPICS:
        create_topic(client, NewTopic(name=topic, partitions=1, replication_factor=1, configs={}))
    first, *others = TOPICS

    # By an option, by a column, and by a list of names.
    write(spark.createDataFrame([(first, "v")], "key string, value string"), broker, first)
    named = spark.createDataFrame(
        [(each, each, "v") for each in others], "topic string, key string, value string"
    )
    write(named, broker, None)
    rows = read(spark, broker, ",".join(TOPICS)).collect()

    assert sorted((row.topic, plain(row.key)) for row in rows) == sorted(
        (each, each.encode()) for each in TOPICS
    )


@pytest.mark.parametrize(
    "target",
    [
        "sqlite",
        # What they do with names, the unit tests of tables see; test_tables.py has them on Spark.
        pytest.param("delta", marks=pytest.mark.slow),
        pytest.param("parquet", marks=pytest.mark.slow),
        pytest.param("postgres", marks=pytest.mark.slow),
    ],
)
def test_hostile_columns_and_keys_reach_the_table_and_verify(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    target: str,
) -> None:
    topic = make_topic("hostile-table", partitions=2, cleanup_policy="compact")
    names = NAMES if target != "delta" else ("select", "it's", "dot.ted", "a.b.c", "%s", "*", "?")
    table: dict[str, Any] = {"type": target, "path": "table"}
    if target == "postgres":
        table = {"type": target, "connection": request.getfixturevalue("postgres")}
    pipeline = define(
        {
            "name": topic,
            "source": {"bootstrap": broker.bootstrap, "topic": topic},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "json", "columns": dict.fromkeys(names, "string")},
            "table": table,
            "work": "work",
        },
        directory=tmp_path,
    )
    value = {name: f"of {name}" for name in names}
    produce(*(NewRecord(topic, name.encode(), json.dumps(value).encode()) for name in NAMES))

    run_pipeline(pipeline, spark, once=True)

    with closing(open_target(pipeline)) as opened:
        opened.prepare()
        rows = [row for piece in opened.rows() for row in piece.to_pylist()]
        found = verify(spark, pipeline, opened)
    assert sorted(row["id"] for row in rows) == sorted(NAMES)
    assert all({name: row[name] for name in names} == value for row in rows)
    assert (found.is_equal, found.live) == (True, 40)
