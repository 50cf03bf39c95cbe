"""`snapshot` and `restore`: a topic's state as Parquet files with a manifest. Shell.

A directory holds snapshots by number. Each is written under another name and renamed once it is
complete and synced, so a snapshot with a number is complete. A snapshot continues from the previous
one and reads only newer records.
"""

from pathlib import Path

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.state.erasures import erasures_of
from ledgerstone.pipeline.state.jobs import RunJobs, run_here
from ledgerstone.pipeline.state.making import (
    Made,
    SnapshotMaking,
    TopicSource,
    alone_in,
    load_manifest,
    snapshots_in,
)
from ledgerstone.pipeline.state.manifest import SnapshotManifest
from ledgerstone.spark.tombstones import tombstone_retention_ms
from ledgerstone.state.points import PointInTime, end_offsets
from ledgerstone.state.reading import PartitionBounds, log_bounds
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

__all__ = ["Made", "TopicSource", "load_manifest", "restore", "snapshot", "snapshots_in"]


def snapshot(
    source: TopicSource, directory: Path, *, run_jobs: RunJobs = run_here, again: bool = False
) -> Made:
    """The current state; `again` reads everything, whatever snapshots exist."""
    with (
        alone_in(directory),
        connect_to(source.bootstrap, source.command_config) as client,
    ):
        known = snapshots_in(directory)
        bounds = _bounds(client, source.topic)
        ends = {each.partition.partition: each.end_offset(source.isolation) for each in bounds}
        older = None if again or not known else known[-1]
        if older is not None:
            _check_fresh(client, source, load_manifest(older), bounds)
        retention_ms = tombstone_retention_ms(client, source.topic)
        made = SnapshotMaking(client, source, directory, older)
        done = made.run(bounds, ends, run_jobs)
        if older is not None:
            made.check_no_delete_missed(done, retention_ms)
        return made.keep(bounds, ends, done)


def restore(
    source: TopicSource,
    directory: Path,
    out: Path,
    at: PointInTime,
    *,
    run_jobs: RunJobs = run_here,
    include_forgotten: bool = False,
) -> Made:
    """The state at a point, from the last snapshot before it, without what was erased since."""
    with (
        alone_in(out),
        connect_to(source.bootstrap, source.command_config) as client,
    ):
        bounds = _bounds(client, source.topic)
        asked = end_offsets(client, bounds, at, source.isolation)
        ends = {each.partition: offset for each, offset in asked.items()}
        base = _base(client, source, snapshots_in(directory), ends)
        erasures = erasures_of(client, source.topic)
        made = SnapshotMaking(client, source, out, base, erasures)
        done = made.run(
            bounds, ends, run_jobs, is_restore=True, include_forgotten=include_forgotten
        )
        return made.keep(bounds, ends, done, is_restore=True)


def _bounds(client: Client, topic: str) -> list[PartitionBounds]:
    info = client.topic(topic)
    return log_bounds(client, [TopicPartition(topic, each) for each in sorted(info.partitions)])


def _base(
    client: Client, source: TopicSource, known: list[Path], ends: dict[int, int]
) -> Path | None:
    """The newest snapshot of this very topic that lies before the point."""
    topic_id = uuid_to_text(client.topic(source.topic).topic_id)
    for path in reversed(known):
        manifest = load_manifest(path)
        same = (manifest.topic, manifest.topic_id) == (source.topic, topic_id)
        if same and all(at <= ends.get(each, -1) for each, at in manifest.positions.items()):
            return path
    return None


def _check_fresh(
    client: Client, source: TopicSource, older: SnapshotManifest, bounds: list[PartitionBounds]
) -> None:
    topic_id = uuid_to_text(client.topic(source.topic).topic_id)
    if (older.topic, older.isolation) != (source.topic, source.isolation.value):
        raise PipelineError(
            f"the snapshots are of {older.topic} ({older.isolation}), not of {source.topic} "
            f"({source.isolation.value}); use another directory"
        )
    if older.topic_id != topic_id:
        raise PipelineError(
            f"the snapshots are of a topic {older.topic} with id {older.topic_id}, and now that "
            f"has id {topic_id}: it was deleted and created again; use --rebuild"
        )
    found = {each.partition.partition: each for each in bounds}
    for partition, at in older.positions.items():
        now = found.get(partition)
        if now is None or not now.log_start_offset <= at <= now.high_watermark:
            has = "is not there"
            if now is not None:
                has = f"has [{now.log_start_offset}, {now.high_watermark})"
            raise PipelineError(
                f"the last snapshot holds {older.topic}-{partition} up to {at}, and the log {has}; "
                "use --rebuild"
            )
