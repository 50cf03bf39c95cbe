"""Rows of a micro-batch to where the state's tasks find them, without a row on the driver. Shell.

An Arrow function of Spark takes the rows where they are. It has to give a cell for each row: all
are null but the last one of a partition, which names what was put down.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ledgerstone.pipeline.streams.state_tables import SlotRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Columns = tuple[pa.Array, ...]
Stage = Callable[[Iterator[Columns]], Iterator[pa.Array]]


def told_at_last(
    batches: Iterator[Columns],
    add: Callable[[Columns], None],
    finish: Callable[[], Sequence[SlotRows]],
) -> Iterator[pa.Array]:
    """The body of such a function."""
    rows = 0
    for batch in batches:
        if rows:
            yield pa.nulls(rows, pa.string())
        add(batch)
        rows = len(batch[0])
    if rows:
        yield pa.array([*[None] * (rows - 1), json.dumps(finish())], pa.string())


def staged_by(batch: "DataFrame", stage: Stage, sinks: int) -> list[list[SlotRows]]:
    """Runs the function on all columns; what comes back are names and counts, for each of its
    `sinks` those of every task."""
    from pyspark.sql.pandas.functions import arrow_udf

    # Spark takes the kind of function from its hints, and its own types do not know that. Each
    # call writes files, so Spark must not move or repeat it.
    function = arrow_udf(stage, "string").asNondeterministic()  # type: ignore[call-overload]
    told = batch.select(function(*batch.columns).alias("staged")).where("staged IS NOT NULL")
    found: list[list[SlotRows]] = [[] for _ in range(sinks)]
    for row in told.collect():
        for sink, (name, counts) in zip(found, json.loads(row.staged), strict=True):
            sink.append(SlotRows(name, tuple((slot, count) for slot, count in counts)))
    return found
