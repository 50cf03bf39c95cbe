"""Windows over a table through Spark: rows move between them, and late ones are told."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.streams import Topic
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.lateness import late_status, route_late
from ledgerstone.pipeline.streams.time_windows import TimeWindows
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind
from tests.kit.broker import BrokerProcess
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.test_flows_sources import folded, records_in
from tests.spark.test_flows_streams import finish

MINUTE_MS = 60_000
AGGREGATES = (
    Aggregate(name="n", kind=MeasureKind.COUNT),
    Aggregate(name="most", kind=MeasureKind.MAX, column="value.amount"),
)


def counted(client: Client, topic: str) -> dict[tuple[str, str], Any]:
    """By shop and the start of the window."""
    found = {}
    for key, value in folded(client, topic).items():
        group = json.loads(key)
        found[group["value.shop"], group["window.start"][11:16]] = json.loads(value)
    return found


def test_a_row_of_a_table_moves_between_windows_by_a_field_of_its_value(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    visits, totals = (make_topic(stem, cleanup_policy="compact") for stem in ("visits", "totals"))
    fields = "shop string, at timestamp, amount int"
    grouped = GroupedTable(
        source=Topic(bootstrap=broker.bootstrap, name=visits, value=fields),
        by=("value.shop",),
        windows=TimeWindows(size="1 hour", time="value.at"),
        aggregates=AGGREGATES,
        to=Topic(bootstrap=broker.bootstrap, name=totals),
        work=str(tmp_path),
    )

    def visit(key: str, at: str, amount: int) -> NewRecord:
        value = {"shop": "s", "at": f"2026-01-01T{at}:00Z", "amount": amount}
        return NewRecord(visits, key.encode(), json.dumps(value).encode())

    produce(visit("a", "10:10", 1), visit("b", "10:59", 2), visit("c", "12:00", 3))
    finish(aggregate_table(spark, grouped, once=True))
    before = counted(client, totals)
    produce(visit("b", "11:00", 2), NewRecord(visits, b"c", None))
    finish(aggregate_table(spark, grouped, once=True))

    assert before == {("s", "10:00"): {"n": 2, "most": 2}, ("s", "12:00"): {"n": 1, "most": 3}}
    assert counted(client, totals) == {
        ("s", "10:00"): {"n": 1, "most": 1},
        ("s", "11:00"): {"n": 1, "most": 2},
    }


def test_a_late_row_counts_in_the_hopping_windows_of_its_time_and_is_routed(
    spark: SparkSession,
    broker: BrokerProcess,
    client: Client,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    visits, totals = (make_topic(stem, cleanup_policy="compact") for stem in ("visits", "totals"))
    late = make_topic("late", retention_ms="-1")  # its records are of 1970
    source = Topic(bootstrap=broker.bootstrap, name=visits, value="shop string, amount int")
    grouped = GroupedTable(
        source=source,
        by=("value.shop",),
        windows=TimeWindows(size="10 minutes", slide="5 minutes"),
        aggregates=AGGREGATES,
        to=Topic(bootstrap=broker.bootstrap, name=totals),
        work=str(tmp_path / "totals"),
        exactly_once=True,
    )

    def visit(key: str, minute: int, amount: int) -> NewRecord:
        value = json.dumps({"shop": "s", "amount": amount}).encode()
        return NewRecord(visits, key.encode(), value, timestamp_ms=minute * MINUTE_MS)

    def run() -> None:
        finish(aggregate_table(spark, grouped, once=True))
        to = Topic(bootstrap=broker.bootstrap, name=late)
        work = str(tmp_path / "late")
        finish(route_late(spark, source, to, watermark="10 minutes", work=work, once=True))

    produce(visit("a", 62, 1), visit("b", 67, 2))
    run()
    before = counted(client, totals)
    produce(visit("b", 77, 5), visit("late", 3, 9))
    run()

    assert before == {
        ("s", "00:55"): {"n": 1, "most": 1},
        ("s", "01:00"): {"n": 2, "most": 2},
        ("s", "01:05"): {"n": 1, "most": 2},
    }
    assert counted(client, totals) == {
        ("s", "00:00"): {"n": 1, "most": 9},
        ("s", "23:55"): {"n": 1, "most": 9},
        ("s", "00:55"): {"n": 1, "most": 1},
        ("s", "01:00"): {"n": 1, "most": 1},
        ("s", "01:10"): {"n": 1, "most": 5},
        ("s", "01:15"): {"n": 1, "most": 5},
    }
    assert [each.key for each in records_in(client, late)] == [b"late"]
    assert late_status(str(tmp_path / "late"))["late"] == 1
