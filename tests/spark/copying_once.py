"""A query that copies a topic, each record once. A process of its own, so that it can be killed.

python copying_once.py BOOTSTRAP SOURCE TARGET CHECKPOINT MASTER once|on
"""

import sys

from pyspark.errors import StreamingQueryException

import ledgerstone.spark
from ledgerstone.pipeline.streams import Topic, kstream, to_topic

OFFSETS_PER_BATCH = "40"
STARTS = 8


def main(arguments: list[str]) -> None:
    bootstrap, source, target, checkpoint, master, mode = arguments
    spark = ledgerstone.spark.session(
        "copying once", master=master, short_lived=True, conf={"spark.log.level": "ERROR"}
    )
    read = Topic(
        bootstrap=bootstrap, name=source, options={"maxOffsetsPerTrigger": OFFSETS_PER_BATCH}
    )
    for left in reversed(range(STARTS)):
        query = to_topic(
            kstream(spark, read).select("key", "value"),
            Topic(bootstrap=bootstrap, name=target),
            checkpoint=checkpoint,
            once=mode == "once",
            exactly_once=True,
        )
        try:
            query.awaitTermination()
            return
        except StreamingQueryException:
            # A fenced commit, or a busy machine: Spark gives its Python processes ten seconds.
            if not left:
                raise


if __name__ == "__main__":
    main(sys.argv[1:])
