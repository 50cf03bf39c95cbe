"""Records behind the watermark: counted, and sent to a topic of their own. Shell.

Spark's windows drop what comes too late, and only count it (`dropped_records`). `route_late` is a
query of its own over the same topic: a record is late if it is older than the newest one of all
earlier micro-batches by more than the watermark allows, which is Spark's rule. Its state is that
newest time and a count, and no part of a record.
"""

import json
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.status import held, read_json, write_json
from ledgerstone.pipeline.streams.frames import Topic, part_of, stream_of, trigger_of

LATE_STATUS: Final = "late.json"


def late_status(work: str) -> dict[str, Any]:
    """`late` is how many records were late, of `records`; `newest_us` the newest time seen."""
    found = read_json(Path(work) / LATE_STATUS)
    return found or {"batch": -1, "newest_us": None, "records": 0, "late": 0}


def route_late(
    spark: SparkSession,
    source: Topic,
    to: Topic | None = None,
    *,
    watermark: str,
    work: str,
    once: bool = False,
    exactly_once: bool = False,
) -> StreamingQuery:
    """`watermark` is as in `kstream`, "10 minutes". Late records go to `to` with their key, value
    and time; without it they are only counted."""
    Path(work).mkdir(parents=True, exist_ok=True)
    checkpoint = Path(work) / "checkpoint"
    if late_status(work)["batch"] >= 0 and not checkpoint.exists():
        # Its batches would have the numbers of those that were counted, and be left out.
        raise PipelineError(
            f"{work} has counted records and has no checkpoint, so what was read is not known. "
            "Delete it to start over"
        )

    def each_batch(batch: DataFrame, batch_id: int) -> None:
        with held(Path(work)):
            known = late_status(work)
            if batch_id <= known["batch"]:
                return
            is_late = sf.lit(False)
            if known["newest_us"] is not None:
                newest = sf.timestamp_micros(sf.lit(known["newest_us"]))
                is_late = sf.col("timestamp") < newest - sf.expr(f"INTERVAL {watermark}")
            newest_us, records, late = batch.agg(
                sf.unix_micros(sf.max("timestamp")), sf.count("*"), sf.count_if(is_late)
            ).collect()[0]
            if late and to is not None:
                settings = to.sink_settings()
                if exactly_once:
                    settings |= {"exactlyOnce": "true", **part_of(batch, batch_id)}
                rows = batch.where(is_late).select("key", "value", "timestamp")
                rows.write.format("ledgerstone").options(**settings).mode("append").save()
            times = [each for each in (known["newest_us"], newest_us) if each is not None]
            write_json(
                Path(work) / LATE_STATUS,
                {
                    "batch": batch_id,
                    "newest_us": max(times, default=None),
                    "records": known["records"] + records,
                    "late": known["late"] + late,
                },
            )

    return (
        stream_of(spark, source)
        .writeStream.foreachBatch(each_batch)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**trigger_of(once=once))
        .start()
    )


def dropped_records(query: StreamingQuery) -> int:
    """How many records Spark's own operators dropped behind the watermark, in the micro-batches
    that the query remembers (`spark.sql.streaming.numRecentProgressUpdates`)."""
    return sum(
        int(operator["numRowsDroppedByWatermark"])
        for progress in query.recentProgress
        for operator in json.loads(progress.json)["stateOperators"]
    )
