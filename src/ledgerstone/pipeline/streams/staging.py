"""Rows of a micro-batch to where the state's tasks find them, without a row on the driver. Shell.

An Arrow function of Spark takes the rows where they are. It has to give a cell for each row: all
are null but the last one of a partition, which says what was done with them, pickled.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.streams.state_tables import (
    PutDown,
    SlotFiles,
    SlotRows,
    SlotSink,
    put_down,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Columns = tuple[pa.Array, ...]
ArrowFunction = Callable[[Iterator[Columns]], Iterator[pa.Array]]


class Stager(Protocol):
    """Picklable. Puts rows down in one place or in several, by the hash of a column."""

    @property
    def places(self) -> tuple[SlotFiles, ...]: ...

    def add(self, batch: Columns, sinks: Sequence[SlotSink]) -> None:
        """A sink for each place."""


class BatchRows(Protocol):
    """The rows of a micro-batch, wherever they are."""

    @property
    def at_most(self) -> int | None:
        """How many there can be; None if that is not known."""

    def run(self, function: ArrowFunction, *, alone: bool) -> list[Any]:
        """What the function says of each partition that has rows. `alone` is one task for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Picklable."""

    stager: Stager
    then: Callable[[list[SlotRows]], object] = list  # with what was put down in each place

    def stage(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """An `ArrowFunction`, with the hints by which Spark knows it."""
        sinks = [SlotSink(each) for each in self.stager.places]
        rows = 0
        for batch in batches:
            if rows:
                yield pa.nulls(rows, pa.binary())
            self.stager.add(batch, sinks)
            rows = len(batch[0])
        if rows:
            said = pickle.dumps(self.then([each.finish() for each in sinks]))
            yield pa.array([*[None] * (rows - 1), said], pa.binary())


def gathered(stager: Stager, staged: Sequence[Sequence[SlotRows]]) -> list[PutDown]:
    """For each place, what all tasks have put down there."""
    return [
        put_down(place, [done[at] for done in staged]) for at, place in enumerate(stager.places)
    ]


class SparkRows:
    def __init__(self, batch: "DataFrame", at_most: int | None) -> None:
        self._batch = batch
        self.at_most = at_most

    def run(self, function: ArrowFunction, *, alone: bool) -> list[Any]:
        from pyspark.sql.pandas.functions import arrow_udf

        batch = self._batch.coalesce(1) if alone else self._batch
        # Spark takes the kind of function from its hints, and its own types do not know that. Each
        # call writes files, so Spark must not move or repeat it.
        staged = arrow_udf(function, "binary").asNondeterministic()  # type: ignore[call-overload]
        told = batch.select(staged(*batch.columns).alias("said")).where("said IS NOT NULL")
        return [pickle.loads(row.said) for row in told.collect()]
