"""Buckets of a Delta table rewritten as files, and one commit that swaps them in. Shell.

A job is a bucket: the files it has now and the changes that go into it. Jobs need nothing but the
place of the table, so they run wherever `RunJobs` sends them. Files that no commit names are not
part of a Delta table; `vacuum` removes those of a run that died.
"""

import io
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, CommitProperties

from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables.merging import merged

BUCKET: Final = "_bucket"
_WRITE_BYTES: Final = 1 << 20


class BucketJob(NamedTuple):
    """Picklable; the changes are Arrow's stream format."""

    table_uri: str
    bucket: int
    files: tuple[str, ...]
    changes: bytes
    layout: Layout
    forced: bool


class BucketFile(NamedTuple):
    path: str
    bucket: int
    size_bytes: int
    rows: int


RunJobs = Callable[[list[BucketJob]], list[BucketFile]]


def run_here(jobs: list[BucketJob]) -> list[BucketFile]:
    return [rewrite_bucket(job) for job in jobs]


def rewrite_bucket(job: BucketJob) -> BucketFile:
    files = pafs.PyFileSystem(DeltaStorageHandler(job.table_uri))
    schema = job.layout.table_schema
    held = [
        pq.read_table(path, filesystem=files, partitioning=None).select(schema.names).cast(schema)
        for path in job.files
    ]
    with pa.ipc.open_stream(job.changes) as stream:
        changes = stream.read_all()
    rows = merged(
        pa.concat_tables([schema.empty_table(), *held]), changes, job.layout, forced=job.forced
    )
    path = f"{BUCKET}={job.bucket}/part-{uuid.uuid4()}.parquet"
    whole = io.BytesIO()
    pq.write_table(rows, whole, compression="zstd")
    # The handler takes bytes, which is what a buffered stream hands on of pieces below its size.
    with files.open_output_stream(path, buffer_size=2 * _WRITE_BYTES) as out:
        content = whole.getbuffer()
        for start in range(0, len(content), _WRITE_BYTES):
            out.write(content[start : start + _WRITE_BYTES])
    return BucketFile(path, job.bucket, whole.tell(), rows.num_rows)


def rewrite_buckets(
    table: DeltaTable,
    changes: pa.Table,
    layout: Layout,
    commit: CommitProperties,
    *,
    forced: bool,
    run_jobs: RunJobs,
) -> None:
    """`changes` has a column that says which bucket each belongs to."""
    held = _files_by_bucket(table)
    jobs = [
        BucketJob(
            table.table_uri,
            bucket,
            tuple(held.get(bucket, ())),
            _stream(changes.filter(pc.equal(changes.column(BUCKET), bucket)).drop_columns(BUCKET)),
            layout,
            forced,
        )
        for bucket in sorted(pc.unique(changes.column(BUCKET)).to_pylist())
    ]
    written = run_jobs(jobs)
    schema = layout.table_schema.append(pa.field(BUCKET, pa.int32()))
    buckets = [str(job.bucket) for job in jobs]
    # Without a bucket nothing is swapped, and only the positions are told.
    table.create_write_transaction(
        [_add(each) for each in written],
        mode="overwrite" if buckets else "append",
        schema=schema,
        partition_by=[BUCKET],
        partition_filters=[(BUCKET, "in", buckets)] if buckets else None,
        commit_properties=commit,
    )


def _files_by_bucket(table: DeltaTable) -> dict[int, list[str]]:
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    found: dict[int, list[str]] = {}
    paths, buckets = actions.column("path"), actions.column(f"partition.{BUCKET}")
    for path, bucket in zip(paths.to_pylist(), buckets.to_pylist(), strict=True):
        found.setdefault(int(bucket), []).append(path)
    return found


def _add(file: BucketFile) -> AddAction:
    stats: Mapping[str, object] = {"numRecords": file.rows}
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={BUCKET: str(file.bucket)},
        modification_time=0,
        data_change=True,
        stats=json.dumps(stats),
    )


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
