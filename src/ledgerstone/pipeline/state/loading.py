"""Loads a snapshot into an empty table, so that a run continues where it ends. Shell."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ledgerstone.pipeline.applying import BatchReport, ChangeApplier
from ledgerstone.pipeline.bad_records import SendLetters
from ledgerstone.pipeline.changes import changes_decoder
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.following import begin_to_follow
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.schema_registry import registered_schema
from ledgerstone.pipeline.state.folding import SNAPSHOT_SCHEMA
from ledgerstone.pipeline.state.snapshot import load_manifest
from ledgerstone.pipeline.tables.target import Followed, TableTarget
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text


def load_into(
    pipeline: Pipeline, target: TableTarget, path: Path, send: SendLetters
) -> list[BatchReport]:
    """Partition by partition, each with its position in one transaction."""
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
    applier = ChangeApplier(pipeline, target, send)
    to_changes = changes_decoder(pipeline, registered_schema)
    schema = layout_of(pipeline).change_schema
    reports = []
    for each in manifest.partitions:
        rows = pq.read_table(path / each.file, partitioning=None).cast(SNAPSHOT_SCHEMA)
        number = pa.array([each.partition] * rows.num_rows, pa.int32())
        batches = rows.append_column("partition", number).combine_chunks().to_batches()
        changes = pa.Table.from_batches([to_changes(batch) for batch in batches], schema)
        reports.append(applier.apply(changes, {each.partition: each.next_offset}))
    return reports
