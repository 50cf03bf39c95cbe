"""A comparison as work for tasks: each side read in parts, split by key, compared. Shell.

A task reads one partition of the topic or some rows of the table, and gives every row to the part
its key belongs to. Spark brings the rows of a part together, and another task compares them. It
answers with counts; what would correct the table it stages, as a task of a batch does.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.bad_records import judged
from ledgerstone.pipeline.changes import changes_decoder
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.layout import DELETED, TOPIC, Layout, layout_of
from ledgerstone.pipeline.read_task import RECORD_SHAPE
from ledgerstone.pipeline.schema_registry import registered_schema
from ledgerstone.pipeline.state.comparing import Comparison, compare
from ledgerstone.pipeline.tables.merging import bucket_numbers
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.shards import parts
from ledgerstone.pipeline.tables.target import (
    BatchStage,
    Positions,
    RowSource,
    Staged,
    put_down,
)
from ledgerstone.pipeline.task_failures import TaskFailure, failure_from
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.range_task import RangeTask
from ledgerstone.spark.read_options import Connection, RowOptions
from ledgerstone.spark.tasks import read_range

# A task holds one part of both sides.
PARTS: Final = 64
# Rows are gathered before they are split, so that a slice is worth its header.
_SPLIT_BYTES: Final = 16 << 20


class KeySlice(NamedTuple):
    """Rows of one part, as an Arrow stream."""

    is_topic: bool
    stream: bytes


Sent = tuple[int, KeySlice | TaskFailure]  # to which part


class Side(Protocol):
    """Some rows of one side; picklable."""

    @property
    def is_topic(self) -> bool: ...

    def pieces(self) -> Iterator[pa.Table]: ...


class TopicRange(NamedTuple):
    """The latest record of each key of a partition, as changes."""

    pipeline: Pipeline
    task: RangeTask
    connection: Connection
    rows: RowOptions
    stage: BatchStage  # which knows what the table cannot hold

    @property
    def is_topic(self) -> bool:
        return True

    def pieces(self) -> Iterator[pa.Table]:
        to_changes = changes_decoder(self.pipeline, registered_schema)
        schema = layout_of(self.pipeline).change_schema
        for batch in read_range(self.task, self.connection, self.rows, Pruning(), RECORD_SHAPE):
            changes = pa.Table.from_batches([to_changes(batch)], schema)
            yield judged(changes, self.stage.unfit)


class TableRows(NamedTuple):
    """Rows of the table: those of a source, or all that the table itself returns."""

    pipeline: Pipeline
    source: RowSource | None

    @property
    def is_topic(self) -> bool:
        return False

    def pieces(self) -> Iterator[pa.Table]:
        if self.source is not None:
            yield from map(self._of_topic, self.source.pieces())
            return
        with closing(open_target(self.pipeline)) as target:
            yield from map(self._of_topic, target.rows())

    def _of_topic(self, rows: pa.Table) -> pa.Table:
        """A table of several topics is compared with one after the other."""
        source = self.pipeline.source
        return rows.filter(pc.equal(rows.column(TOPIC), source.topic)) if source.topics else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitByKey:
    """Picklable. A failure is sent as one, to the first part."""

    layout: Layout

    def __call__(self, side: Side) -> Iterator[Sent]:
        try:
            yield from self._slices(side)
        except Exception as error:  # noqa: BLE001 - whatever it is, it travels as data
            yield 0, failure_from(error)

    def _slices(self, side: Side) -> Iterator[Sent]:
        waiting: list[pa.Table] = []
        size = 0
        for piece in side.pieces():
            waiting.append(piece)
            size += piece.nbytes
            if size >= _SPLIT_BYTES:
                yield from self._split(side, waiting)
                waiting, size = [], 0
        if waiting:
            yield from self._split(side, waiting)

    def _split(self, side: Side, pieces: list[pa.Table]) -> Iterator[Sent]:
        rows = pa.concat_tables(pieces)
        if rows.num_rows:
            for number, some in parts(rows, bucket_numbers(rows, self.layout, PARTS).to_numpy()):
                yield number, KeySlice(side.is_topic, _as_stream(some))


class Compared(NamedTuple):
    """No field of it grows with the part."""

    found: Comparison
    staged: Staged | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePart:
    """Picklable. With a stage, what would correct the table is put there."""

    layout: Layout
    positions: Positions
    now_ms: int
    stage: BatchStage | None = None
    only_deletes: bool = False

    def __call__(self, sent: Iterable[KeySlice | TaskFailure]) -> Compared | TaskFailure:
        sides = {True: [self.layout.change_schema.empty_table()]}
        sides[False] = [self.layout.table_schema.empty_table()]
        for each in sent:
            if isinstance(each, TaskFailure):
                return each
            sides[each.is_topic].append(_from_stream(each.stream))
        latest, rows = (pa.concat_tables(sides[side]) for side in (True, False))
        found, repairs = compare(latest, rows, self.positions, self.layout, now_ms=self.now_ms)
        return Compared(found, self._staged(repairs))

    def _staged(self, repairs: pa.Table) -> Staged | None:
        if self.only_deletes:
            repairs = repairs.filter(repairs.column(DELETED))
        if self.stage is None or not repairs.num_rows:
            return None
        return put_down(self.stage, repairs)


def _as_stream(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(out.getvalue())


def _from_stream(stream: bytes) -> pa.Table:
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
