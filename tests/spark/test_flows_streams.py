"""Streams and tables: joins and aggregates in which a deleted row is gone; windows; new keys."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams import Topic, as_records, kstream, ktable, to_topic
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.joining import join_stream_with_table, join_tables, pairs_in
from ledgerstone.pipeline.streams.lateness import dropped_records, late_status, route_late
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.kit import QUERY_TIMEOUT_S
from tests.spark.test_flows_sources import folded, records_in

USER = "country string, amount bigint"


def json_record(topic: str, key: str, value: dict[str, Any] | None) -> NewRecord:
    content = None if value is None else json.dumps(value).encode()
    return NewRecord(topic, key.encode(), content, partition=None)


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(QUERY_TIMEOUT_S), "the query does not end"


def plain(rows: list[Any]) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in rows]


def test_a_table_is_the_latest_of_each_key_without_deleted_ones(
    spark: SparkSession, broker: BrokerProcess, make_topic: MakeTopic, produce: Produce
) -> None:
    topic = make_topic("users", partitions=2, cleanup_policy="compact")
    produce(
        json_record(topic, "ann", {"country": "PL", "amount": 1}),
        json_record(topic, "bob", {"country": "PT", "amount": 2}),
        json_record(topic, "ann", {"country": "PL", "amount": 3}),
        json_record(topic, "bob", None),
    )

    rows = ktable(spark, Topic(bootstrap=broker.bootstrap, name=topic, value=USER)).collect()

    assert [(row.key, row.value.amount, row.deleted) for row in rows] == [("ann", 3, False)]


def test_aggregates_take_back_what_was_changed_or_deleted(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("paid", partitions=2, cleanup_policy="compact")
    totals = make_topic("totals", cleanup_policy="compact")
    grouped = GroupedTable(
        source=Topic(bootstrap=broker.bootstrap, name=topic, value=USER),
        by=("value.country",),
        aggregates=(
            Aggregate(name="n", kind=MeasureKind.COUNT),
            Aggregate(name="total", kind=MeasureKind.SUM, column="value.amount"),
        ),
        to=Topic(bootstrap=broker.bootstrap, name=totals),
        work=str(tmp_path),
    )

    produce(
        json_record(topic, "ann", {"country": "PL", "amount": 5}),
        json_record(topic, "bob", {"country": "PL", "amount": 7}),
        json_record(topic, "cyd", {"country": "PT", "amount": 1}),
    )
    finish(aggregate_table(spark, grouped, once=True))
    before = {
        json.loads(k)["value.country"]: json.loads(v) for k, v in folded(client, totals).items()
    }
    produce(
        json_record(topic, "ann", {"country": "PT", "amount": 5}),
        json_record(topic, "bob", None),
    )
    finish(aggregate_table(spark, grouped, once=True))
    after = {
        json.loads(k)["value.country"]: json.loads(v) for k, v in folded(client, totals).items()
    }

    assert before == {"PL": {"n": 2, "total": 12}, "PT": {"n": 1, "total": 1}}
    assert after == {"PT": {"n": 2, "total": 6}}


def test_sums_of_decimals_are_exact_and_a_state_is_of_one_definition(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic, totals = make_topic("paid"), make_topic("paid-totals", cleanup_policy="compact")
    fields = "country string, paid decimal(9,2), due decimal(9,2)"

    def grouped(kind: MeasureKind, column: str) -> GroupedTable:
        return GroupedTable(
            source=Topic(bootstrap=broker.bootstrap, name=topic, value=fields),
            by=("value.country",),
            aggregates=(Aggregate(name="total", kind=kind, column=column),),
            to=Topic(bootstrap=broker.bootstrap, name=totals),
            work=str(tmp_path),
        )

    produce(
        json_record(topic, "ann", {"country": "PL", "paid": "0.10", "due": "5"}),
        json_record(topic, "bob", {"country": "PL", "paid": "0.20", "due": "5"}),
    )
    finish(aggregate_table(spark, grouped(MeasureKind.SUM, "value.paid"), once=True))

    assert [value for _, value in folded(client, totals).items()] == [b'{"total": 0.30}']
    with pytest.raises(PipelineError, match=r"holds the state of something else.*value\.due"):
        aggregate_table(spark, grouped(MeasureKind.SUM, "value.due"), once=True)
    with pytest.raises(PipelineError, match="which is string: numbers are added up"):
        aggregate_table(spark, grouped(MeasureKind.SUM, "value.country"), once=True)


def test_a_tombstone_removes_the_row_from_the_join_with_a_stream(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    users = make_topic("joined-users", cleanup_policy="compact")
    orders = make_topic("joined-orders")
    events = kstream(
        spark, Topic(bootstrap=broker.bootstrap, name=orders, value="user string, item string")
    ).select("value.*")
    table = Topic(bootstrap=broker.bootstrap, name=users, value=USER)
    seen: list[tuple[str, str | None]] = []

    def keep(batch: DataFrame, batch_id: int) -> None:
        del batch_id
        rows = batch.select("item", sf.col("table.value.country").alias("country")).collect()
        seen.extend((row.item, row.country) for row in rows)

    def run() -> None:
        finish(
            join_stream_with_table(
                events,
                table,
                on="user",
                each_batch=keep,
                checkpoint=str(tmp_path),
                how="left",
                once=True,
            )
        )

    produce(json_record(users, "ann", {"country": "PL", "amount": 0}))
    produce(json_record(orders, "1", {"user": "ann", "item": "first"}))
    run()
    produce(json_record(users, "ann", None))
    produce(json_record(orders, "2", {"user": "ann", "item": "second"}))
    run()

    assert seen == [("first", "PL"), ("second", None)]


def test_two_tables_join_to_a_table_that_follows_both(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    names, mails, both = (make_topic(stem, cleanup_policy="compact") for stem in ("n", "m", "b"))
    left = Topic(bootstrap=broker.bootstrap, name=names, value="name string")
    right = Topic(bootstrap=broker.bootstrap, name=mails, value="mail string")
    to = Topic(bootstrap=broker.bootstrap, name=both)

    def run() -> dict[bytes, Any]:
        value = ["left.name AS name", "right.mail AS mail"]
        finish(join_tables(spark, left, right, to, value=value, work=str(tmp_path), once=True))
        return {key: json.loads(value) for key, value in folded(client, both).items()}

    produce(
        json_record(names, "1", {"name": "ann"}),
        json_record(names, "2", {"name": "bob"}),
        json_record(mails, "1", {"mail": "a@x"}),
    )
    first = run()
    produce(json_record(mails, "2", {"mail": None}), json_record(names, "1", None))
    second = run()

    assert first == {b"1": {"name": "ann", "mail": "a@x"}}
    assert second == {b"2": {"name": "bob", "mail": None}}


def test_results_of_a_join_are_told_by_as_many_tasks_on_any_number_of_cores(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = [str(tmp_path / f"{number}.parquet") for number in range(5)]
    for path in paths:
        rows = {"key": [b"k"], "left": [b"l"], "right": [b"r"], "deleted": [False]}
        pq.write_table(pa.table(rows), path)

    found = [pairs_in(spark, some).rdd.getNumPartitions() for some in (paths, paths[:1])]

    # A task less than last time would leave a transaction open.
    assert found == [5, 1]


def test_a_foreign_key_joins_to_its_row_once_and_follows_both(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    orders, users, both = (make_topic(stem, cleanup_policy="compact") for stem in ("o", "u", "b"))
    left = Topic(bootstrap=broker.bootstrap, name=orders, value="user int, item string")
    right = Topic(bootstrap=broker.bootstrap, name=users, value="name string")

    def run() -> dict[bytes, Any]:
        query = join_tables(
            spark,
            left,
            right,
            Topic(bootstrap=broker.bootstrap, name=both),
            value=["left.item AS item", "right.name AS name"],
            foreign_key="value.user",
            work=str(tmp_path),
            once=True,
            exactly_once=True,
        )
        finish(query)
        return {key: json.loads(value) for key, value in folded(client, both).items()}

    produce(
        json_record(orders, "o1", {"user": 7, "item": "hat"}),
        json_record(orders, "o2", {"user": 7, "item": "cap"}),
        json_record(orders, "o3", {"user": 8, "item": "bag"}),
        json_record(users, "7", {"name": "ann"}),
    )
    first = run()
    produce(json_record(users, "7", {"name": "amy"}), json_record(orders, "o2", None))
    second = run()

    assert first == {b"o1": {"item": "hat", "name": "ann"}, b"o2": {"item": "cap", "name": "ann"}}
    assert second == {b"o1": {"item": "hat", "name": "amy"}}


def test_a_running_count_is_two_lines(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    lines, words = make_topic("lines"), make_topic("words", cleanup_policy="compact")
    source = Topic(bootstrap=broker.bootstrap, name=lines, value="string")
    to = Topic(bootstrap=broker.bootstrap, name=words)

    def run() -> dict[bytes, Any]:
        stream = kstream(spark, source)
        counts = stream.select(sf.explode(sf.split("value", " ")).alias("word"))
        records = as_records(counts.groupBy("word").count(), key="word", value=["count"])
        finish(to_topic(records, to, checkpoint=str(tmp_path), mode="update", once=True))
        return {key: json.loads(value)["count"] for key, value in folded(client, words).items()}

    produce(NewRecord(lines, None, b"to be or not to be"))
    first = run()
    produce(NewRecord(lines, None, b"to do"))
    second = run()

    assert first == {b"to": 2, b"be": 2, b"or": 1, b"not": 1}
    assert second == {**first, b"to": 3, b"do": 1}
    # Only what changed is written again.
    assert len(records_in(client, words)) == 4 + 2


def test_windows_and_a_new_key_are_sparks_own_and_land_in_a_topic(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    clicks, counts = make_topic("clicks"), make_topic("counts", cleanup_policy="compact")
    minute = 60_000
    produce(
        NewRecord(clicks, b"s1", b'{"page":"a"}', timestamp_ms=10 * minute),
        NewRecord(clicks, b"s2", b'{"page":"a"}', timestamp_ms=10 * minute + 5),
        NewRecord(clicks, b"s1", b'{"page":"b"}', timestamp_ms=11 * minute),
        NewRecord(clicks, b"s1", b'{"page":"b"}', timestamp_ms=60 * minute),
    )
    stream = kstream(
        spark,
        Topic(bootstrap=broker.bootstrap, name=clicks, value="page string"),
        watermark="1 minute",
    )

    windowed = stream.groupBy(sf.window("timestamp", "1 minute"), "value.page").count()
    rows = windowed.select(
        sf.concat_ws("@", "page", sf.col("window.start").cast("bigint")).alias("id"), "count"
    )
    to = Topic(bootstrap=broker.bootstrap, name=counts)
    records = as_records(rows, key="id", value=["count"])
    finish(to_topic(records, to, checkpoint=str(tmp_path), once=True))

    found = {key: json.loads(value) for key, value in folded(client, counts).items()}
    assert found == {b"a@600": {"count": 2}, b"b@660": {"count": 1}}


@pytest.mark.slow
def test_streams_join_and_sessions_close_and_what_is_too_late_is_dropped(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    shown, clicked = make_topic("shown"), make_topic("clicked")
    pairs, sessions = (make_topic(stem, cleanup_policy="compact") for stem in ("pairs", "sessions"))
    second = 1_000

    def event(topic: str, user: bytes, ad: str, at_s: int) -> NewRecord:
        return NewRecord(topic, user, json.dumps({"ad": ad}).encode(), timestamp_ms=at_s * second)

    def stream(topic: str) -> DataFrame:
        source = Topic(bootstrap=broker.bootstrap, name=topic, value="ad string")
        return kstream(spark, source, watermark="10 seconds")

    def run() -> None:
        left = stream(shown).selectExpr("key AS u", "value.ad AS ad", "timestamp AS shown_at")
        right = stream(clicked).selectExpr("key AS v", "value.ad AS bd", "timestamp AS at")
        within = "u = v AND ad = bd AND at BETWEEN shown_at AND shown_at + INTERVAL 5 SECONDS"
        joined = left.join(right, sf.expr(within)).selectExpr("concat(u, ad) AS id", "u")
        counted = stream(clicked).groupBy(sf.session_window("timestamp", "5 seconds"), "key")
        closed = counted.count().selectExpr("key", "count", "session_window.start AS start")
        named = closed.selectExpr("concat(key, '@', unix_seconds(start)) AS id", "count")
        for name, rows, value in ((pairs, joined, "u"), (sessions, named, "count")):
            to = Topic(bootstrap=broker.bootstrap, name=name)
            records = as_records(rows, key="id", value=[value])
            finish(to_topic(records, to, checkpoint=str(tmp_path / name), once=True))

    produce(event(shown, b"ann", "x", 100), event(shown, b"bob", "x", 100))
    produce(event(clicked, b"ann", "x", 103), event(clicked, b"ann", "y", 104))
    produce(event(clicked, b"bob", "x", 109), event(clicked, b"end", "z", 500))
    run()
    produce(event(clicked, b"ann", "late", 104))
    run()

    assert sorted(folded(client, pairs)) == [b"annx"]
    found = {key: json.loads(value)["count"] for key, value in folded(client, sessions).items()}
    assert found == {b"ann@103": 2, b"bob@109": 1}


def test_late_records_are_counted_and_go_to_a_topic(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    # Records of 1970 would be removed when the broker looks, after five minutes.
    clicks, late, counts = (
        make_topic(stem, retention_ms="-1") for stem in ("clicks", "late", "counted")
    )
    source = Topic(bootstrap=broker.bootstrap, name=clicks)
    minute = 60_000

    def run() -> int:
        to = Topic(bootstrap=broker.bootstrap, name=late)
        work = str(tmp_path / "late")
        finish(route_late(spark, source, to, watermark="10 minutes", work=work, once=True))
        windows = kstream(spark, source, watermark="10 minutes").groupBy(
            sf.window("timestamp", "1 minute")
        )
        records = as_records(windows.count(), key="window", value=["count"])
        to = Topic(bootstrap=broker.bootstrap, name=counts)
        query = to_topic(records, to, checkpoint=str(tmp_path / "counts"), once=True)
        finish(query)
        return dropped_records(query)

    produce(NewRecord(clicks, b"a", b"1", timestamp_ms=60 * minute))
    first = run()
    produce(
        NewRecord(clicks, b"in time", b"2", timestamp_ms=51 * minute),
        NewRecord(clicks, b"late", b"3", timestamp_ms=40 * minute),
    )
    second = run()

    status = late_status(str(tmp_path / "late"))
    assert [(each.key, each.timestamp) for each in records_in(client, late)] == [
        (b"late", 40 * minute)
    ]
    assert (status["records"], status["late"]) == (3, 1)
    assert (first, second) == (0, 1)


def test_rows_become_tombstones_where_they_are_deleted(
    spark: SparkSession, broker: BrokerProcess, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic("made", cleanup_policy="compact")
    rows = spark.createDataFrame(
        [("a", 1, None, False), ("b", 2, "x", True)], "id string, n int, s string, gone boolean"
    )

    records = as_records(rows, key="id", value=["n", "s"], deleted="gone")
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    records.write.format("ledgerstone").options(**settings).mode("append").save()

    written = {bytes(each.key or b""): each.value for each in records_in(client, topic)}
    assert written[b"b"] is None
    assert json.loads(bytes(written[b"a"] or b"")) == {"n": 1, "s": None}


def test_a_value_that_is_no_json_stops_the_query(
    spark: SparkSession,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("broken")
    produce(NewRecord(topic, b"k", b"no json"))
    stream = kstream(spark, Topic(bootstrap=broker.bootstrap, name=topic, value="a int"))

    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )

    with pytest.raises(StreamingQueryException, match="MALFORMED"):
        query.awaitTermination(QUERY_TIMEOUT_S)


def test_a_key_is_text_or_bytes(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="binary or string"):
        ktable(spark, Topic(bootstrap="127.0.0.1:1", name="t", key="int"))
