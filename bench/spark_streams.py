"""Aggregates over tables, and what one changed key of many costs in a warm query.

    python -m bench.spark_streams [--quick] [--kafka-streams]

A topic of two million keys is read once; then one key changes, ten times. Shown is the median time
from sending the change until its result is in the topic, and of the micro-batch that took it, as
Spark measured it. With --kafka-streams a topology that does the same runs on the same broker
afterwards; it commits every 100 ms, and its default is thirty seconds.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ledgerstone.spark
from bench.broker_process import BrokerProcess, broker_process
from bench.spark import PARTITIONS, connection_to, timed
from bench.stream_results import Results, Totals
from bench.table import Row, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.pipeline.streams import Topic
from ledgerstone.pipeline.streams.aggregating import GroupedTable, aggregate_table
from ledgerstone.pipeline.streams.totals import Aggregate, MeasureKind

GROUPS: Final = 10
_CHANGES: Final = 10
_POLL_S: Final = 0.1


class Measured(NamedTuple):
    loaded_s: float
    cpu_s: float  # of loading
    seen_s: float  # from sending a change until its result is in the topic
    batch_ms: float | None = None


def filled(spark: SparkSession, broker: BrokerProcess, name: str, keys: int) -> None:
    make_topics(broker, name, f"{name}-totals")
    frame = spark.range(0, keys, 1, PARTITIONS).selectExpr(
        "lpad(string(id), 16, '0') AS key",
        f"to_json(struct(concat('c', string(id % {GROUPS})) AS country, id AS paid)) AS value",
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": name}
    frame.write.format("ledgerstone").options(**options).mode("append").save()


def make_topics(broker: BrokerProcess, *names: str) -> None:
    with Client(connection_to(broker).bootstrap) as client:
        settings = {"cleanup.policy": "compact"}
        for name in names:
            create_topic(client, NewTopic(name=name, partitions=PARTITIONS, configs=settings))


def all_of(keys: int) -> Totals:
    return Totals(keys, keys * (keys - 1) // 2)


def changes(broker: BrokerProcess, name: str, keys: int, paid: int) -> Iterator[Totals]:
    """Sends the changes one by one; yields the totals that each has to lead to. `paid` is what the
    key has to begin with."""
    total = all_of(keys)
    total = total._replace(paid=total.paid + paid - keys // 2)
    with Client(connection_to(broker).bootstrap) as client:
        producer = Producer(client, ProducerConfig(idempotent=True))
        for _ in range(_CHANGES):
            paid += 1
            total = total._replace(paid=total.paid + 1)
            value = json.dumps(
                {"country": f"c{paid % GROUPS}", "paid": paid}, separators=(",", ":")
            )
            producer.send([NewRecord(name, b"%016d" % (keys // 2), value.encode())])
            yield total


def batches(query: StreamingQuery) -> list[dict[str, Any]]:
    found = [json.loads(each.json) for each in query.recentProgress]
    return [each for each in found if each["numInputRows"]]


def wait_for(query: StreamingQuery, records: int) -> None:
    """Until so many were read, and what they change is told."""
    while sum(each["numInputRows"] for each in batches(query)) < records:
        if (error := query.exception()) is not None:
            raise error
        time.sleep(_POLL_S)


def grouped_table(
    broker: BrokerProcess, name: str, kinds: tuple[str, ...], work: Path
) -> GroupedTable:
    return GroupedTable(
        source=Topic(bootstrap=broker.bootstrap, name=name, value="country string, paid bigint"),
        by=("value.country",),
        aggregates=tuple(
            Aggregate(
                name=kind,
                kind=MeasureKind(kind),
                column=None if kind == "count" else "value.paid",
            )
            for kind in kinds
        ),
        to=Topic(bootstrap=broker.bootstrap, name=f"{name}-totals"),
        work=str(work / name),
    )


def ours(
    spark: SparkSession, broker: BrokerProcess, grouped: GroupedTable, name: str, keys: int
) -> Measured:
    query = aggregate_table(spark, grouped)
    has_sum = any(each.kind is MeasureKind.SUM for each in grouped.aggregates)
    try:
        loaded = timed(lambda: wait_for(query, keys), broker)
        seen = []
        with Results(broker.bootstrap, grouped.to.name) as results:
            if has_sum:
                results.seconds_until(all_of(keys))
            for number, totals in enumerate(changes(broker, name, keys, keys // 2), 1):
                if has_sum:
                    seen.append(results.seconds_until(totals))
                wait_for(query, keys + number)
        taken = [each["durationMs"]["triggerExecution"] for each in batches(query)[-_CHANGES:]]
    finally:
        query.stop()
    return Measured(
        loaded.wall_s, loaded.cpu_s, median(seen) if seen else 0.0, float(median(taken))
    )


def kafka_streams(broker: BrokerProcess, work: Path, name: str, keys: int) -> Measured:
    from golden.kafka_streams import StreamsProgram, fetch_streams_jars

    result = f"{name}-by-kafka-streams"
    make_topics(broker, result)
    program = StreamsProgram(
        jars=fetch_streams_jars(),
        main_class="TableTotals",
        work=work / "kafka-streams",
        settings={
            "application.id": f"{name}-streams",
            "bootstrap.servers": broker.bootstrap,
            "source.topic": name,
            "result.topic": result,
            "commit.interval.ms": "100",
            "num.stream.threads": "2",
            "auto.offset.reset": "earliest",
        },
    )
    # Ours has changed the key before.
    changed = keys // 2 + _CHANGES
    begin = Totals(keys, all_of(keys).paid + _CHANGES)
    program.start()
    try:
        with Results(broker.bootstrap, result) as results:
            loaded = timed(lambda: results.seconds_until(begin), broker)
            seen = [
                results.seconds_until(totals) for totals in changes(broker, name, keys, changed)
            ]
    finally:
        program.kill()
    return Measured(loaded.wall_s, loaded.cpu_s, median(seen))


def rows_of(said: str, keys: int, found: Measured, peer: Measured | None) -> Iterator[Row]:
    limit = "" if peer is None else "Kafka Streams"
    beside = found if peer is None else peer
    rate, peer_rate = keys / found.loaded_s, keys / beside.loaded_s
    name = f"{said} of {keys} keys ({found.cpu_s:.0f} CPU s"
    name += ")" if peer is None else f", Kafka Streams {peer.cpu_s:.0f})"
    yield Row(name, rate, "keys/s", limit, peer_rate, rate / peer_rate, None)
    if found.seen_s:
        yield Row(
            f"{said}, one changed key of {keys}: until its result is there",
            found.seen_s * 1e3,
            "ms",
            limit,
            beside.seen_s * 1e3,
            beside.seen_s / found.seen_s,
            None,
        )
    assert found.batch_ms is not None
    name = f"{said}, one changed key of {keys}: the micro-batch"
    yield Row(name, found.batch_ms, "ms", "", found.batch_ms, 1, None)


def run(*, quick: bool = False, with_peer: bool = False) -> list[Row]:
    keys = 100_000 if quick else 2_000_000
    spark = ledgerstone.spark.session("bench", memory="2g", conf={"spark.log.level": "ERROR"})
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        with broker_process(Path(directory), {}) as broker:
            for kinds in (("count", "sum"), ("count", "max")):
                name = "bench-" + "-".join(kinds)
                filled(spark, broker, name, keys)
                grouped = grouped_table(broker, name, kinds, Path(directory))
                measured = ours(spark, broker, grouped, name, keys)
                has_peer = with_peer and "sum" in kinds
                peer = kafka_streams(broker, Path(directory), name, keys) if has_peer else None
                found += rows_of(", ".join(kinds), keys, measured, peer)
        spark.stop()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the keys")
    parser.add_argument("--kafka-streams", action="store_true", help="needs Java and Maven")
    given = parser.parse_args()
    print(render(run(quick=given.quick, with_peer=given.kafka_streams)))
