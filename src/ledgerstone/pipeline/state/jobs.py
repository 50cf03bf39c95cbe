"""One partition of a snapshot or a restore: read, folded, written as a file. Shell.

Jobs are picklable and need nothing but the broker and the directory, so they run here or on
Spark's executors. Records never pass the JVM: batches become Arrow columns in the worker.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import Fetched
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.state.erasures import ErasureTombstone
from ledgerstone.pipeline.state.folding import (
    SNAPSHOT_SCHEMA,
    RowFacts,
    facts_of,
    folded,
    without_older_than,
)
from ledgerstone.records.arrow import to_arrow
from ledgerstone.records.kernels import scan
from ledgerstone.records.kernels.hashing import SEED_SIZE
from ledgerstone.state.fold import Fold
from ledgerstone.state.reading import ReadRange, read_ranges
from ledgerstone.state.visibility import hidden_batches, taken, walk_pieces
from ledgerstone.system import SystemDice
from ledgerstone.types import TopicPartition

# On the tombstones of an erasure; docs/tombstones.md names it for readers.
ERASURE_HEADER: Final = "ledgerstone.erasure.id"
# Batches kept from the first pass of a fold, so that the second need not fetch them again.
_KEPT_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionJob:
    bootstrap: str
    topic: str
    partition: int
    isolation: str
    older: str | None  # the file of a snapshot to go on from
    start_offset: int
    end_offset: int
    log_start_offset: int
    log_end_offset: int
    out: str
    respect_erasures: bool = False  # leave out what was erased after `end_offset`
    include_forgotten: bool = False
    # Erasures behind `older`, whose key may be in it.
    erasures: tuple[ErasureTombstone, ...] = ()
    command_config: str | None = None  # a file with the client's properties


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDone:
    partition: int
    facts: RowFacts
    records_read: int
    missing: int  # offsets that were read over and have no record any more
    erased: int
    forgotten: int
    file_bytes: int


class ToldErasure(NamedTuple):
    """A tombstone that an erasure wrote."""

    key: bytes
    offset: int
    erasure_id: bytes


RunJobs = Callable[[list[PartitionJob]], list[PartitionDone]]


def run_here(jobs: list[PartitionJob]) -> list[PartitionDone]:
    return [run_job(job) for job in jobs]


def run_on(spark: Any) -> RunJobs:  # noqa: ANN401 - a SparkSession, which need not be installed
    def run(jobs: list[PartitionJob]) -> list[PartitionDone]:
        found: list[PartitionDone] = (
            spark.sparkContext.parallelize(jobs, max(1, len(jobs))).map(run_job).collect()
        )
        return found

    return run


def run_job(job: PartitionJob) -> PartitionDone:
    with connect_to(job.bootstrap, job.command_config) as client:
        newer, fold = read_latest(client, job, job.start_offset, job.end_offset)
        older = _read_older(job)
        rows = folded(older, newer)
        erased = forgotten = 0
        if job.respect_erasures:
            told = _told_erasures(client, job)
            rows, erased = _without_erased(job, rows, told)
            if older.num_rows and not job.include_forgotten:
                rows, forgotten = _without_forgotten(client, job, rows, told)
        else:
            rows = without_older_than(rows, job.log_start_offset)
    return PartitionDone(
        partition=job.partition,
        facts=facts_of(rows),
        records_read=fold.counts.records,
        missing=fold.counts.missing,
        erased=erased,
        forgotten=forgotten,
        file_bytes=_write(rows, Path(job.out)),
    )


def read_latest(
    client: Client, job: PartitionJob, start_offset: int, end_offset: int
) -> tuple[pa.Table, Fold]:
    """The latest record of each key in a range, tombstones included."""
    fold = Fold(
        seed=SystemDice().random_bytes(SEED_SIZE), start_offset=start_offset, with_contents=False
    )
    kept: list[Fetched] = []
    kept_bytes = 0
    for fetched in _read(client, job, start_offset, end_offset):
        fold.feed(fetched.records, end_offset=end_offset, aborted=_aborted(job, fetched))
        kept_bytes += len(fetched.records)
        if kept_bytes <= _KEPT_BYTES:
            kept.append(fetched)
    again = (
        iter(kept) if kept_bytes <= _KEPT_BYTES else _read(client, job, start_offset, end_offset)
    )
    batches = [
        to_arrow(columns, SNAPSHOT_SCHEMA.names).cast(SNAPSHOT_SCHEMA)
        for fetched in again
        for columns in fold.survivors(fetched.records, start_offset=start_offset, tombstones=True)
        if len(columns)
    ]
    found = pa.Table.from_batches(batches, SNAPSHOT_SCHEMA)
    left = fold.live_keys + fold.deleted_keys - found.num_rows
    if left:
        raise PipelineError(
            f"{job.topic}-{job.partition} was compacted while it was read: the records of {left} "
            "keys are gone; try again"
        )
    return found, fold


def _read(client: Client, job: PartitionJob, start: int, end: int) -> Iterator[Fetched]:
    wanted = ReadRange(TopicPartition(job.topic, job.partition), start, end)
    return read_ranges(client, [wanted] if start < end else [], IsolationLevel(job.isolation))


def _aborted(job: PartitionJob, fetched: Fetched) -> Any:  # noqa: ANN401 - as fetched has it
    return fetched.aborted if job.isolation == IsolationLevel.READ_COMMITTED.value else ()


def _read_older(job: PartitionJob) -> pa.Table:
    if job.older is None:
        return SNAPSHOT_SCHEMA.empty_table()
    return pq.read_table(job.older, partitioning=None).cast(SNAPSHOT_SCHEMA)


def _without_erased(
    job: PartitionJob, rows: pa.Table, told: list[ToldErasure]
) -> tuple[pa.Table, int]:
    """Without the keys for which a tombstone of an erasure came after the point."""
    later = [each.key for each in told if each.offset >= job.end_offset]
    is_erased = pc.is_in(rows.column("key"), value_set=pa.array(later, pa.binary()))
    return rows.filter(pc.invert(is_erased)), int(pc.sum(is_erased).as_py() or 0)


def _told_erasures(client: Client, job: PartitionJob) -> list[ToldErasure]:
    """Tombstones of erasures that the log has behind what is restored from."""
    told: list[ToldErasure] = []
    start_offset = job.start_offset if job.erasures else job.end_offset
    for fetched in _read(client, job, start_offset, job.log_end_offset):
        found = scan(fetched.records)
        hidden = hidden_batches(fetched.records, found, _aborted(job, fetched))
        for columns in walk_pieces(fetched.records, found, hidden):
            after = (columns.offset >= start_offset) & (columns.value_length < 0)
            some = taken(columns, np.flatnonzero(after & (columns.header_count > 0)))
            for row in to_arrow(some, ("key", "offset", "headers")).to_pylist():
                told += [
                    ToldErasure(row["key"], row["offset"], each["value"])
                    for each in row["headers"] or ()
                    # Without an id it is nobody's, and an empty one stands for those untold.
                    if each["key"] == ERASURE_HEADER and each["value"]
                ]
    return told


def _without_forgotten(
    client: Client, job: PartitionJob, rows: pa.Table, told: list[ToldErasure]
) -> tuple[pa.Table, int]:
    """Without keys of which the log has no trace: they may have been erased.

    The same holds for a key that was written again after an erasure whose tombstone is gone."""
    known, _ = read_latest(client, job, job.log_start_offset, job.log_end_offset)
    place = pc.index_in(rows.column("key"), value_set=known.column("key").combine_chunks())
    is_left = place.is_valid()
    ids = [each.erasure_id for each in told]
    gone = [each.offset for each in job.erasures if each.erasure_id.encode() not in ids]
    if gone:
        latest = pc.take(known.column("offset"), place)
        is_older = pc.less(rows.column("offset"), job.start_offset)
        is_doubtful = pc.and_(is_older, pc.fill_null(pc.greater(latest, min(gone)), False))
        is_left = pc.and_(is_left, pc.invert(is_doubtful))
    return rows.filter(is_left), rows.num_rows - int(pc.sum(is_left).as_py() or 0)


def _write(rows: pa.Table, path: Path) -> int:
    with path.open("wb") as file:
        pq.write_table(rows, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    return path.stat().st_size
