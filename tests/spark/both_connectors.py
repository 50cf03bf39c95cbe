"""One topic read by Spark's own connector and by ours; prints what each saw, as JSON.

A program of its own: jars have to be there when the JVM starts. Arguments: the brokers, the topic,
a directory for checkpoints, the jars.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

import ledgerstone.spark

FORMATS = ("kafka", "ledgerstone")
TIMEOUT_S = 300


def main(bootstrap: str, topic: str, directory: str, *jars: str) -> None:
    spark = ledgerstone.spark.session(
        "both",
        master="local[2]",
        fast_start=False,
        conf={"spark.jars": ",".join(jars), "spark.log.level": "ERROR"},
    )
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    said: dict[str, Any] = {}
    for name in FORMATS:
        frame = spark.read.format(name).options(**options, includeHeaders="true").load()
        rows = [list(map(_plain, row)) for row in frame.collect()]
        rows.sort(key=lambda row: (row[3], row[4]))
        said[name] = {"schema": frame.schema.json(), "rows": rows}
    # Half with one, the rest with the other, and the other way round, on the same checkpoint.
    for first, then in (FORMATS, FORMATS[::-1]):
        checkpoint = Path(directory) / first
        seen = [
            _follow(spark, each, {**options, "maxOffsetsPerTrigger": "5"}, checkpoint, most)
            for each, most in ((first, 2), (then, None))
        ]
        said[f"{first} then {then}"] = {"seen": seen, "offsets": _offsets(checkpoint)}
    sys.stdout.write(json.dumps(said) + "\n")


def _follow(
    spark: SparkSession, name: str, options: dict[str, str], checkpoint: Path, most: int | None
) -> list[list[int]]:
    """Partition and offset of what the query saw; at most `most` micro-batches."""
    seen: list[list[int]] = []

    def each_batch(batch: Any, batch_id: int) -> None:
        if most is not None and batch_id >= most:
            raise InterruptedError(f"{most} are enough")
        seen.extend([row.partition, row.offset] for row in batch.collect())

    stream = spark.readStream.format(name).options(**options, startingOffsets="earliest").load()
    writer = stream.writeStream.foreachBatch(each_batch)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    try:
        query.awaitTermination(TIMEOUT_S)
    except Exception as error:
        if "are enough" not in str(error):
            raise
    finally:
        query.stop()
    return seen


def _offsets(checkpoint: Path) -> list[Any]:
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text(encoding="utf-8").splitlines()[-1]) for path in files]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Row):
        return {name: _plain(each) for name, each in value.asDict().items()}
    return value if isinstance(value, int | str | None) else str(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
