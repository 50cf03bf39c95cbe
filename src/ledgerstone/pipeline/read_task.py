"""One range of a partition: read, decoded, sorted out, put down for the table. Shell.

It runs on Spark's executors, and no row comes back: only how many there were, the first few bad
records by their place and reason, and the names of what was put down.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.bad_records import (
    SHOWN,
    BadRecord,
    SendLetters,
    bad_records,
    letters_of,
    sorted_out,
)
from ledgerstone.pipeline.changes import RECORD_COLUMNS, changes_decoder
from ledgerstone.pipeline.dead_letters import letter_sender
from ledgerstone.pipeline.definition import OnBadRecord, Pipeline
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.schema_registry import registered_schema
from ledgerstone.pipeline.tables.target import BatchStage, ChangeSink, Staged
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.range_task import RangeTask
from ledgerstone.spark.read_options import Connection, RowOptions
from ledgerstone.spark.schema import Projection
from ledgerstone.spark.tasks import read_range
from ledgerstone.spark.worker import connect

RECORD_SHAPE: Final = Projection(
    names=RECORD_COLUMNS,
    schema=pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
        ]
    ),
)


class ReadJob(NamedTuple):
    """Picklable."""

    pipeline: Pipeline
    wanted: OffsetRange
    topic_id: str | None
    connection: Connection
    rows: RowOptions
    stage: BatchStage


class ReadDone(NamedTuple):
    """No field of it grows with the batch."""

    partition: int
    next_offset: int  # behind what was read; markers and gaps count as read
    changes: int
    bad: int
    named: tuple[BadRecord, ...]  # the first of the bad ones, without key and value
    staged: Staged


def read_job(job: ReadJob) -> ReadDone:
    """All of the range, or an error."""
    task = RangeTask(job.wanted, job.topic_id)
    records = read_range(task, job.connection, job.rows, Pruning(), RECORD_SHAPE)
    sink = job.stage.open()
    counts = _Reading(job, sink)
    try:
        counts.read(records)
        staged = sink.finish()
    except BaseException:
        sink.abandon()
        raise
    finally:
        counts.close()
    return ReadDone(
        job.wanted.partition.partition,
        job.wanted.end_offset,
        counts.changes,
        counts.bad,
        tuple(counts.named),
        staged,
    )


class _Reading:
    def __init__(self, job: ReadJob, sink: ChangeSink) -> None:
        self._job = job
        self._sink = sink
        self._to_changes = changes_decoder(job.pipeline, registered_schema)
        self._schema = layout_of(job.pipeline).change_schema
        self._send: SendLetters | None = None
        self._letters: Client | None = None
        self.changes = self.bad = 0
        self.named: list[BadRecord] = []

    def read(self, records: Iterator[pa.RecordBatch]) -> None:
        policy = self._job.pipeline.on_bad_record
        for batch in records:
            changes = pa.Table.from_batches([self._to_changes(batch)], self._schema)
            good, bad = sorted_out(changes, self._job.stage.unfit)
            self.changes += changes.num_rows
            if bad.num_rows:
                self._settle(bad)
            # A batch that is to be refused is only counted from here on.
            if policy is not OnBadRecord.FAIL or not self.bad:
                self._sink.add(good)

    def close(self) -> None:
        if self._letters is not None:
            self._letters.close()

    def _settle(self, bad: pa.Table) -> None:
        pipeline = self._job.pipeline
        self.bad += bad.num_rows
        if pipeline.on_bad_record is OnBadRecord.DEAD_LETTER:
            if self._send is None:
                # The other client is fetching ahead meanwhile.
                self._letters = connect(self._job.connection)
                partition = self._job.wanted.partition.partition
                self._send = letter_sender(self._letters, pipeline, partition)
            self._send(letters_of(pipeline, bad_records(pipeline.source.topic, bad)))
        left = bad.slice(0, SHOWN - len(self.named))
        if left.num_rows:
            found = bad_records(pipeline.source.topic, left)
            self.named += [each._replace(key=None, value=None) for each in found]
