"""Topics as DataFrames and back: `kstream`, `ktable`, `as_records`, `to_topic`. Shell.

A topic's rows have the columns `key`, `value`, `deleted`, `topic`, `partition`, `offset` and
`timestamp`, so that nothing in a value can hide one of them; `select("key", "value.*")` spreads
a value out. Everything between is Spark's own: filters, windows, joins. docs/streams.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.pipeline.connecting import connect_to, security_options
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.executors import context_of
from ledgerstone.uuid_text import uuid_to_text

_FORMAT: Final = "ledgerstone"
_QUERY_ID: Final = "sql.streaming.queryId"
_DECODED: Final = ("binary", "string")
# A record waits half of it on average, and a query without any takes 3 % of a core.
_POLL_INTERVAL: Final = "200 milliseconds"
# Of a micro-batch of a table; a task holds the part of it that falls to it.
_BATCH_OFFSETS: Final = 2_000_000
_BATCH_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Where a topic is, and how its bytes are read."""

    bootstrap: str
    name: str
    key: str = "string"  # or binary
    value: str = "binary"  # or string, or the fields of a JSON object: "name string, age int"
    options: Mapping[str, str] = field(default_factory=dict)  # of format("ledgerstone")
    command_config: str | None = None  # a file with the client's properties by Kafka's names

    def settings(self) -> dict[str, str]:
        if self.key not in _DECODED:
            raise PipelineError(f"topic {self.name}: a key is {' or '.join(_DECODED)}")
        return {
            **security_options(self.command_config),
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.name,
            **self.options,
        }

    def sink_settings(self) -> dict[str, str]:
        """The same where the topic is written."""
        return {
            **security_options(self.command_config),
            "kafka.bootstrap.servers": self.bootstrap,
            "topic": self.name,
            **self.options,
        }


def kstream(spark: SparkSession, topic: Topic, *, watermark: str | None = None) -> DataFrame:
    """Every record as an event (KStream). `watermark` is how late one may be: "10 minutes"."""
    frame = _decoded(stream_of(spark, topic), topic)
    return frame if watermark is None else frame.withWatermark("timestamp", watermark)


def stream_of(spark: SparkSession, topic: Topic, **more: str) -> DataFrame:
    """The records as they are, from the beginning unless the topic's options say otherwise."""
    settings = {"startingOffsets": "earliest", **more, **topic.settings()}
    return spark.readStream.format(_FORMAT).options(**settings).load()


def ktable(spark: SparkSession, topic: Topic) -> DataFrame:
    """The latest record of each key, deleted keys left out, as of now (KTable, read once).

    Each DataFrame shows the table when it was made: to join micro-batches, make one for each."""
    settings = {"fold": "latest", **topic.settings()}
    return _decoded(spark.read.format(_FORMAT).options(**settings).load(), topic)


def ktable_changes(spark: SparkSession, topic: Topic) -> DataFrame:
    """The changes of a table: the latest record of each key in a micro-batch, deletes included."""
    return _decoded(stream_of(spark, topic, fold="latest"), topic)


def ktable_records(spark: SparkSession, topic: Topic) -> DataFrame:
    """As `ktable_changes`, with the value's bytes besides, in the column `raw`."""
    return _decoded(stream_of(spark, topic, fold="latest"), topic, sf.col("value").alias("raw"))


def _decoded(frame: DataFrame, topic: Topic, *more: Column) -> DataFrame:
    return frame.select(
        sf.col("key").cast(topic.key).alias("key"),
        decoded_value(topic, "value").alias("value"),
        sf.col("value").isNull().alias("deleted"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        *more,
    )


def decoded_value(topic: Topic, column: str) -> Column:
    if topic.value in _DECODED:
        return sf.col(column).cast(topic.value)
    # A value that is no JSON must not pass for one whose fields are all null.
    return sf.from_json(sf.col(column).cast("string"), topic.value, {"mode": "FAILFAST"})


def limited(topic: Topic) -> Topic:
    """Without a limit the first micro-batch is the whole topic."""
    limits = {
        "maxOffsetsPerTrigger": str(_BATCH_OFFSETS),
        "maxBytesPerTrigger": str(_BATCH_BYTES),
    }
    return replace(topic, options={**limits, **topic.options})


def identity_of(topic: Topic) -> tuple[str, str]:
    """Its name, and its id: another topic of the same name has heard of nothing."""
    with connect_to(topic.bootstrap, topic.command_config) as client:
        return topic.name, uuid_to_text(client.topic(topic.name).topic_id)


def trigger_of(*, once: bool) -> dict[str, Any]:
    return {"availableNow": True} if once else {"processingTime": _POLL_INTERVAL}


def as_records(
    frame: DataFrame, *, key: str, value: Sequence[str], deleted: str | None = None
) -> DataFrame:
    """Rows as records under a new key (selectKey, repartition): the value is a JSON object of the
    named columns, or null, a tombstone, where the column `deleted` is true."""
    content: Column = sf.to_json(sf.struct(*value), {"ignoreNullFields": "false"})
    if deleted is not None:
        content = sf.when(~sf.col(deleted), content)
    return frame.select(
        sf.col(key).cast("string").alias("key"), content.cast("string").alias("value")
    )


def part_of(batch: DataFrame, batch_id: int) -> dict[str, str]:
    """Options for `df.write` of a micro-batch, in a `foreachBatch`, with `exactlyOnce`: the write
    is then known again when the batch is run again. One write for each batch."""
    query_id = context_of(batch.sparkSession).getLocalProperty(_QUERY_ID)
    if query_id is None:
        raise PipelineError("not in a foreachBatch: there is no query to name the write after")
    return {"txnAppId": query_id, "txnVersion": str(batch_id)}


def to_topic(
    records: DataFrame,
    topic: Topic,
    *,
    checkpoint: str,
    once: bool = False,
    mode: str = "append",
    exactly_once: bool = False,
) -> StreamingQuery:
    """Writes a stream of `key` and `value`; every partition is chosen as Java's client does.

    In mode `update` each micro-batch writes the rows that changed, a row of an aggregate once.
    With `exactly_once`, read_committed readers see each micro-batch once, whatever is killed."""
    settings = {**topic.sink_settings(), "exactlyOnce": str(exactly_once).lower()}
    writer = records.writeStream.option("checkpointLocation", checkpoint).outputMode(mode)
    if mode == "update":
        # Spark gives a sink in Python appended rows only.
        writer = writer.foreachBatch(_written_to(settings, exactly_once=exactly_once))
    else:
        writer = writer.format(_FORMAT).options(**settings)
    return writer.trigger(**trigger_of(once=once)).start()


def _written_to(
    settings: Mapping[str, str], *, exactly_once: bool
) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, batch_id: int) -> None:
        part = part_of(batch, batch_id) if exactly_once else {}
        batch.write.format(_FORMAT).options(**settings, **part).mode("append").save()

    return write
