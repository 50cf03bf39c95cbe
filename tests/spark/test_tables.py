"""A topic into tables, through Spark and a real broker: every target, restarts, bad records."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ledgerstone.client.admin import delete_records
from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import Consumer
from ledgerstone.client.fetcher import FetchConfig, Fetcher
from ledgerstone.client.offsets import committed_offsets
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.batch_planning import BatchPlanner
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.errors import PipelineError, RecordRefused, TopicChanged
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.runner import PipelineRun, run_pipeline
from ledgerstone.pipeline.state.verify import verify
from ledgerstone.pipeline.status import RunStatus, read_status
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.spark.errors import DataLoss
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess
from tests.kit.postgres import postgres, postgres_server  # noqa: F401 - fixtures
from tests.kit.table_targets import place_of, table_at
from tests.spark.conftest import MakeTopic, Produce, Recreate

Define = Callable[..., Pipeline]

# Names of columns (the first twenty) and keys.
HOSTILE = [
    *(
        'a"b',
        "a'b",
        "a;b",
        "a b",
        "a`b",
        "a.b",
        "a%b",
        "%s",
        "a\\b",
        "a/b",
        "select",
        "Robert');--",
    ),
    *("a\nb", "a\tb", "ключ", "鍵", "🔑", "a{b}", "$a", "NULL"),
    *("", " ", "\0", "a\0b", "\u202e", "-1", "0x00", "true", "{}", "[]", "''", '""', "a" * 500),
    *("\r\n", "..", "../..", "CON", "é", "e\u0301", "\ufeff"),
]


@pytest.fixture
def pipeline_for(broker: BrokerProcess, tmp_path: Path) -> Define:
    def make(topic: str, table: dict[str, Any], **more: Any) -> Pipeline:
        content = {
            "name": topic,
            "source": {"bootstrap": broker.bootstrap, "topic": topic, **more.pop("source", {})},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "json", "columns": {"name": "string", "age": "int64"}},
            "table": table,
            **more,
        }
        return define(content, directory=tmp_path)

    return make


def rows_of(pipeline: Pipeline) -> list[dict[str, Any]]:
    with closing(open_target(pipeline)) as target:
        target.prepare()
        found = [row for piece in target.rows() for row in piece.to_pylist()]
    return sorted(found, key=lambda row: (row["id"], row["_offset"]))


def person(topic: str, key: str, name: str | None, age: int = 1, at_ms: int = 1000) -> NewRecord:
    value = None if name is None else f'{{"name": "{name}", "age": {age}}}'.encode()
    return NewRecord(topic, key.encode(), value, timestamp_ms=at_ms)


# The others differ from these only in what the unit tests of tables see.
@pytest.fixture(
    params=[
        "sqlite",
        "postgres",
        "delta",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("parquet", "duckdb", "iceberg", "sql-sqlite")
        ),
    ]
)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return table_at(request.param, place_of(request.param, request, tmp_path))


def test_table_follows_a_topic_over_two_runs(
    spark: SparkSession,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    pipeline_for: Define,
    table: dict[str, Any],
) -> None:
    topic = make_topic("follows", partitions=2, cleanup_policy="compact")
    pipeline = pipeline_for(topic, table)
    produce(*(person(topic, f"k{n}", f"n{n}", n) for n in range(10)))
    first = run_pipeline(pipeline, spark, once=True)
    produce(person(topic, "k1", None), person(topic, "k2", "again", 7), person(topic, "k9", None))

    second = run_pipeline(pipeline, spark, once=True)
    compared = None
    with closing(open_target(pipeline)) as target:
        target.prepare()
        compared = verify(spark, pipeline, target)

    found = {row["id"]: (row["name"], row["age"]) for row in rows_of(pipeline)}
    expected = {f"k{n}": (f"n{n}", n) for n in range(9) if n != 1} | {"k2": ("again", 7)}
    assert found == expected
    assert (first.upserts, second.changes) == (10, 3)
    committed = committed_offsets(client, pipeline.source.group)
    assert {each.partition: at.offset for each, at in committed.items()} == second.positions
    assert sum(second.positions.values()) == 13
    assert (compared.is_equal, compared.live, compared.pending) == (True, 8, 0)
    assert all(each.is_equal for each in compared.partitions)


@pytest.mark.slow
def test_history_has_every_version_and_when_it_ended(
    spark: SparkSession, make_topic: MakeTopic, produce: Produce, pipeline_for: Define
) -> None:
    topic = make_topic("versions", cleanup_policy="compact")
    pipeline = pipeline_for(topic, {"type": "sqlite", "path": "t", "deletes": "history"})
    produce(person(topic, "a", "one", at_ms=1000), person(topic, "a", "two", at_ms=2000))
    run_pipeline(pipeline, spark, once=True)
    produce(person(topic, "a", None, at_ms=3000), person(topic, "a", "back", at_ms=4000))

    run_pipeline(pipeline, spark, once=True)

    versions = [
        (row["name"], row["_timestamp"].timestamp(), row["_valid_to"] and row["_valid_to"].second)
        for row in rows_of(pipeline)
    ]
    assert versions == [("one", 1.0, 2), ("two", 2.0, 3), ("back", 4.0, None)]


def test_bad_record_stops_the_run_and_is_named(
    spark: SparkSession, make_topic: MakeTopic, produce: Produce, pipeline_for: Define
) -> None:
    topic = make_topic("refused")
    pipeline = pipeline_for(topic, {"type": "sqlite", "path": "t"})
    produce(person(topic, "good", "g"), NewRecord(topic, b"bad", b'{"age": "old"}'))

    with pytest.raises(RecordRefused, match=rf"{topic}-0 offset 1: value column age: 'old'"):
        run_pipeline(pipeline, spark, once=True)

    status = read_status(Path(pipeline.work))
    assert rows_of(pipeline) == []
    assert status is not None
    assert (status["state"], "offset 1" in status["error"]) == ("failed", True)


def test_dead_letters_keep_the_record_and_say_where_it_was(
    spark: SparkSession,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    pipeline_for: Define,
) -> None:
    topic, letters = make_topic("letters"), make_topic("dead")
    policy = {"on_bad_record": "dead_letter", "dead_letter_topic": letters}
    pipeline = pipeline_for(topic, {"type": "sqlite", "path": "t"}, **policy)
    produce(person(topic, "good", "g"), NewRecord(topic, b"\xff", b"{}"))

    status = run_pipeline(pipeline, spark, once=True)

    consumer = Consumer(Fetcher(client, FetchConfig()), {TopicPartition(letters, 0): 0})
    (letter,) = (each.record for each in consumer.poll())
    headers = {name.rpartition(".")[2]: value for name, value in letter.headers}
    assert (letter.key, letter.value, status.bad) == (b"\xff", b"{}", 1)
    assert (headers["topic"], headers["offset"]) == (topic.encode(), b"1")
    assert b"key not UTF-8" in (headers["reason"] or b"")
    assert [row["id"] for row in rows_of(pipeline)] == ["good"]


def test_topic_that_was_created_again_is_refused_until_the_table_is_dropped(
    spark: SparkSession,
    make_topic: MakeTopic,
    recreate: Recreate,
    produce: Produce,
    pipeline_for: Define,
    tmp_path: Path,
) -> None:
    topic = make_topic("anew")
    pipeline = pipeline_for(topic, {"type": "sqlite", "path": "t", "name": "people"})
    produce(*(person(topic, f"old{n}", "o") for n in range(4)))
    run_pipeline(pipeline, spark, once=True)
    before = rows_of(pipeline)
    recreate(topic)
    produce(*(person(topic, f"new{n}", "n") for n in range(6)))

    with pytest.raises(TopicChanged, match=rf"{topic} was deleted and created .* drop table peop"):
        run_pipeline(pipeline, spark, once=True)
    refused = rows_of(pipeline)
    with closing(open_target(pipeline)) as target, pytest.raises(TopicChanged):
        verify(spark, pipeline, target, repair=True)
    with closing(sqlite3.connect(tmp_path / "t")) as db:
        db.execute("DROP TABLE people")
    run_pipeline(pipeline, spark, once=True)

    assert refused == before
    assert [row["id"] for row in rows_of(pipeline)] == [f"new{n}" for n in range(6)]


def test_topic_created_again_under_a_run_is_refused(
    spark: SparkSession,
    make_topic: MakeTopic,
    recreate: Recreate,
    produce: Produce,
    pipeline_for: Define,
) -> None:
    topic = make_topic("under")
    source = {"fail_on_data_loss": False}
    pipeline = pipeline_for(topic, {"type": "sqlite", "path": "t"}, source=source)
    produce(*(person(topic, f"old{n}", "o") for n in range(4)))

    def at_first_batch(report: BatchReport, status: RunStatus) -> None:
        assert status.batches == 1, "records of another topic were applied"
        recreate(topic)
        produce(*(person(topic, f"new{n}", "n") for n in range(6)))

    running = PipelineRun(pipeline, spark, once=False, on_batch=at_first_batch)
    with pytest.raises(TopicChanged):
        running.run()

    assert [row["id"] for row in rows_of(pipeline)] == [f"old{n}" for n in range(4)]


def test_another_topic_for_the_same_table_is_refused(
    spark: SparkSession, make_topic: MakeTopic, produce: Produce, pipeline_for: Define
) -> None:
    one, other = make_topic("one"), make_topic("other")
    table = {"type": "sqlite", "path": "t", "name": "people"}
    produce(person(one, "a", "o"), person(other, "b", "o"))
    run_pipeline(pipeline_for(one, table), spark, once=True)

    with pytest.raises(TopicChanged, match=f"in topic {one}, and source.topic is {other}"):
        run_pipeline(pipeline_for(other, table), spark, once=True)


def test_log_that_was_truncated_is_noticed(
    spark: SparkSession, make_topic: MakeTopic, pipeline_for: Define
) -> None:
    topic = make_topic("truncated")
    pipeline = pipeline_for(topic, {"type": "sqlite", "path": "t"})
    with closing(open_target(pipeline)) as target:
        target.prepare()
        empty = layout_of(pipeline).change_schema.empty_table()
        target.apply(empty, {0: 5})

    with pytest.raises(PipelineError, match="up to 5, and the partition ends at 0"):
        run_pipeline(pipeline, spark, once=True)


def test_hostile_names_and_keys_are_only_data_in_a_run_that_is_stopped(
    spark: SparkSession, make_topic: MakeTopic, produce: Produce, pipeline_for: Define
) -> None:
    topic = make_topic("ho.st_i-le")
    columns = {name: {"type": "string", "path": [name]} for name in HOSTILE[:20]}
    value = {"format": "json", "columns": columns}
    table = {"type": "sqlite", "path": "t", "name": 'x"; DROP TABLE y; --'}
    pipeline = pipeline_for(topic, table, value=value)
    said = {name: f"{name}!" for name in HOSTILE[:20]}
    produce(*(NewRecord(topic, key.encode(), json.dumps(said).encode()) for key in HOSTILE))

    running = PipelineRun(pipeline, spark, once=False, on_batch=lambda *_: running.stop())
    running.run()

    rows = rows_of(pipeline)
    assert [row["id"] for row in rows] == sorted(HOSTILE)
    assert all({name: row[name] for name in said} == said for row in rows)


def test_batches_are_planned_from_the_positions_of_the_table(
    client: Client, make_topic: MakeTopic, produce: Produce, pipeline_for: Define
) -> None:
    topic = make_topic("planned", partitions=2)
    limits = {"max_offsets_per_batch": 4}
    pipeline = pipeline_for(topic, {"type": "sqlite", "path": "t"}, source=limits)
    produce(*(NewRecord(topic, b"k", b"v", partition=n % 2) for n in range(12)))
    once = BatchPlanner(client, pipeline, once=True)
    on_and_on = BatchPlanner(client, pipeline, once=False)
    produce(NewRecord(topic, b"late", b"v", partition=0))

    first = once.next_batch({0: 4})
    nothing = once.next_batch({0: 6, 1: 6})
    late = on_and_on.next_batch({0: 6, 1: 6})

    assert first is not None
    assert first.followed is not None
    assert first.ends == {0: 5, 1: 3}
    assert [(each.partition.partition, each.start_offset) for each in first.ranges] == [
        (0, 4),
        (1, 0),
    ]
    assert (first.incoming.rows, first.backlog, nothing) == (4, 8, None)
    assert 20 < first.incoming.size_bytes < 200
    assert late is not None
    assert (late.ends, late.backlog) == ({0: 7, 1: 6}, 1)


def test_lost_records_stop_a_run_unless_it_may_go_on_without_them(
    client: Client, make_topic: MakeTopic, produce: Produce, pipeline_for: Define
) -> None:
    topic = make_topic("lost")
    table = {"type": "sqlite", "path": "t"}
    strict = pipeline_for(topic, table)
    lenient = pipeline_for(topic, table, source={"fail_on_data_loss": False})
    produce(*(NewRecord(topic, b"k%d" % n, b"v") for n in range(8)))
    delete_records(client, {TopicPartition(topic, 0): 5})

    fresh = BatchPlanner(client, strict, once=True).next_batch({})
    on = BatchPlanner(client, lenient, once=True).next_batch({0: 2})

    # A table that has read nothing has lost nothing.
    assert fresh is not None
    assert on is not None
    assert fresh.ranges[0].start_offset == on.ranges[0].start_offset == 5
    with pytest.raises(
        DataLoss, match=rf"{topic}-0 begins at 5, but was read up to 2; set fail_on"
    ):
        BatchPlanner(client, strict, once=True).next_batch({0: 2})
    with pytest.raises(DataLoss, match=rf"{topic}-0 ends at 8, but was read up to 9"):
        BatchPlanner(client, strict, once=True).next_batch({0: 9})
