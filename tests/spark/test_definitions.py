"""What a definition can say, through Spark and a real broker: filters, several topics; and many
definitions at once."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import committed_offsets
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.announced import announced_in
from ledgerstone.pipeline.announcing import public_words
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.errors import RecordRefused
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.runner import run_pipeline
from ledgerstone.pipeline.served_runs import ServedNews, ServedRuns
from ledgerstone.pipeline.state.comparing import Comparison, total
from ledgerstone.pipeline.state.verify import verify
from ledgerstone.pipeline.status import read_status
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.system import SystemClock
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce


def person(topic: str, key: str, **value: Any) -> NewRecord:
    return NewRecord(topic, key.encode(), json.dumps(value).encode() if value else None)


def definition(broker: BrokerProcess, directory: Path, topics: list[str], **more: Any) -> Pipeline:
    content = {
        "name": "people",
        "source": {"bootstrap": broker.bootstrap, "topics": topics, "group": f"of-{topics[0]}"},
        "key": {"format": "string", "column": "id"},
        "value": {
            "format": "json",
            "columns": {
                "name": "string",
                "age": {"type": "int64", "stored": False},
                "shown": {"type": "string", "expression": "upper(name)"},
            },
        },
        "where": "age >= 18",
        "table": {"type": "sqlite", "path": "people.db"},
    }
    return define({**content, **more}, directory=directory)


def compared(spark: SparkSession, pipeline: Pipeline, *, repair: bool = False) -> Comparison:
    parts = []
    for each in pipeline.each_topic:
        with closing(open_target(each, spark=spark)) as target:
            target.prepare()
            parts.append(verify(spark, each, target, repair=repair))
    return total(parts, layout_of(pipeline))


def rows_of(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    with closing(open_target(pipeline.each_topic[0])) as target:
        target.prepare()
        found = [row for piece in target.rows() for row in piece.to_pylist()]
    return sorted((row["_topic"], row["id"], row["shown"]) for row in found)


def test_several_topics_are_filtered_into_one_table_which_verify_agrees_with(
    spark: SparkSession,
    client: Client,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    a = make_topic("a", partitions=2, cleanup_policy="compact")
    b = make_topic("b", cleanup_policy="compact")
    pipeline = definition(broker, tmp_path, [a, b])
    produce(
        *(person(a, f"k{n}", name=f"a{n}", age=15 + n) for n in range(6)),
        *(person(b, f"k{n}", name=f"b{n}", age=20) for n in range(2)),
    )
    first = run_pipeline(pipeline, spark, once=True)
    # One no longer qualifies, one is deleted, one does now: in one of the topics.
    produce(person(a, "k3", name="a3", age=3), person(a, "k4"), person(a, "k0", name="a0", age=50))

    second = run_pipeline(pipeline, spark, once=True)
    found = compared(spark, pipeline)

    expected = [(a, "k0", "A0"), (a, "k5", "A5"), (b, "k0", "B0"), (b, "k1", "B1")]
    assert rows_of(pipeline) == sorted(expected)
    assert (first.upserts, first.deletes, second.changes) == (5, 3, 3)
    assert (found.is_equal, found.live, found.deleted, found.pending) == (True, 4, 4, 0)
    assert {(each.topic, each.is_equal) for each in found.partitions} == {(a, True), (b, True)}
    committed = committed_offsets(client, pipeline.source.group)
    assert {str(each): at.offset for each, at in committed.items()} == second.positions
    status = read_status(Path(pipeline.work))
    assert status is not None
    assert sum(status["positions"].values()) == 11

    changed = definition(broker, tmp_path, [a, b], where="age < 18")
    before = compared(spark, changed, repair=True)

    assert (before.missing, before.extra) == (3, 4)
    assert compared(spark, changed).is_equal
    assert [row[:2] for row in rows_of(changed)] == [(a, f"k{n}") for n in range(1, 4)]


def test_directory_of_definitions_is_served_whatever_one_of_them_does(
    spark: SparkSession,
    client: Client,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    good, bad = make_topic("good"), make_topic("broken")
    produce(person(good, "a", name="Ann", age=20), NewRecord(bad, b"k", b"somebody's secret"))
    for name, topic in (("good", good), ("broken", bad)):
        content = {
            "name": name,
            "source": {"bootstrap": broker.bootstrap, "topic": topic, "group": f"serve-{topic}"},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "json", "columns": {"name": "string"}},
            "table": {"type": "sqlite", "path": f"{name}.db"},
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text("name: wrong", encoding="utf-8")
    news: list[ServedNews] = []

    serving = ServedRuns(
        tmp_path,
        master=None,
        once=True,
        open_session=lambda _: spark,
        tell=news.append,
        clock=SystemClock(),
    )
    serving.serve()

    states = {Path(each.served.path).name: each.served.state.value for each in news}
    assert states == {"good.yaml": "finished", "broken.yaml": "failed", "wrong.yaml": "invalid"}
    assert serving.has_failed
    assert [each.batch.upserts for each in news if each.batch is not None] == [1]
    announced = []
    for topic in (good, bad):
        committed = committed_offsets(client, f"serve-{topic}")
        announced.append(announced_in(committed[TopicPartition(topic, 0)].metadata))
    # What a record holds is in the status file alone, which an erasure searches.
    assert [each and (each.name, each.state, each.error) for each in announced] == [
        ("good", "finished", None),
        ("broken", "failed", public_words(RecordRefused())),
    ]
