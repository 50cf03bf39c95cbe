"""Loads a snapshot into an empty table, so that a run continues where it ends. Shell.

As in a run, tasks read, decode and put down; the driver gets counts, and commits.
"""

from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ledgerstone.pipeline.applying import BatchReport
from ledgerstone.pipeline.bad_records import SHOWN, BadRecord, bad_records, refused, sorted_out
from ledgerstone.pipeline.changes import changes_decoder
from ledgerstone.pipeline.definition import OnBadRecord, Pipeline
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.following import begin_to_follow
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.schema_registry import registered_schema
from ledgerstone.pipeline.state.folding import SNAPSHOT_SCHEMA
from ledgerstone.pipeline.state.snapshot import load_manifest
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.target import (
    BatchStage,
    Executors,
    Followed,
    Staged,
    TableTarget,
)
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text

_ROWS_AT_ONCE: Final = 1 << 16


class LoadJob(NamedTuple):
    """One partition of a snapshot; picklable."""

    pipeline: Pipeline
    file: str
    partition: int
    stage: BatchStage


class Loaded(NamedTuple):
    """No field of it grows with the file."""

    changes: int
    bad: int
    named: tuple[BadRecord, ...]  # the first of the bad ones, without key and value
    staged: Staged


def load_into(
    pipeline: Pipeline, target: TableTarget, path: Path, executors: Executors
) -> BatchReport:
    """All partitions and their positions in one transaction."""
    manifest = load_manifest(path)
    if manifest.topic != pipeline.source.topic:
        raise PipelineError(
            f"{path} is of topic {manifest.topic}, and the pipeline reads {pipeline.source.topic}"
        )
    target.prepare()
    if target.positions():
        raise PipelineError(
            f"the table of {pipeline.name} already follows its topic; name an empty one"
        )
    if manifest.topic_id != uuid_to_text(ZERO_UUID):
        begin_to_follow(pipeline, target, Followed(manifest.topic, manifest.topic_id))
    rows = sum(each.live_keys + each.deleted_keys for each in manifest.partitions)
    stage = target.stage(Incoming(rows, sum(each.file_bytes for each in manifest.partitions)))
    jobs = [
        LoadJob(pipeline, str((path / each.file).resolve()), each.partition, stage)
        for each in manifest.partitions
    ]
    try:
        done = executors.run(load_job, jobs)
        _refuse_bad(pipeline, path, done)
        positions = {each.partition: each.next_offset for each in manifest.partitions}
        applied = target.apply_staged(stage, [each.staged for each in done], positions)
    finally:
        target.drop_staged()
    return BatchReport(
        changes=sum(each.changes for each in done),
        already_applied=0,
        bad=sum(each.bad for each in done),
        upserts=applied.upserts,
        deletes=applied.deletes,
        positions=positions,
        topic=manifest.topic,
    )


def _refuse_bad(pipeline: Pipeline, path: Path, done: list[Loaded]) -> None:
    bad = sum(each.bad for each in done)
    if not bad or pipeline.on_bad_record is OnBadRecord.SKIP:
        return
    if pipeline.on_bad_record is OnBadRecord.FAIL:
        raise refused([record for each in done for record in each.named], bad)
    raise PipelineError(f"{bad} records of {path} cannot be decoded; on_bad_record: skip goes on")


def load_job(job: LoadJob) -> Loaded:
    to_changes = changes_decoder(job.pipeline, registered_schema)
    schema = layout_of(job.pipeline).change_schema
    sink = job.stage.open()
    count = bad_count = 0
    named: list[BadRecord] = []
    try:
        with pq.ParquetFile(job.file) as file:
            for rows in file.iter_batches(_ROWS_AT_ONCE):
                changes = pa.Table.from_batches([to_changes(_records(rows, job.partition))], schema)
                good, bad = sorted_out(changes, job.stage.unfit)
                count += changes.num_rows
                bad_count += bad.num_rows
                some = bad.slice(0, SHOWN - len(named))
                found = bad_records(job.pipeline.source.topic, some)
                named += [each._replace(key=None, value=None) for each in found]
                sink.add(good)
        staged = sink.finish()
    except BaseException:
        sink.abandon()
        raise
    return Loaded(count, bad_count, tuple(named), staged)


def _records(rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches([rows]).cast(SNAPSHOT_SCHEMA).to_batches()
    numbers = pa.array([partition] * batch.num_rows, pa.int32())
    return batch.append_column("partition", numbers)
