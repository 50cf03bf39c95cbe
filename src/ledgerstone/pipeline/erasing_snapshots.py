"""Removes an erased key from snapshots: rewrites files and their manifests. Shell.

A snapshot keeps its number and its offsets. The file of the key's partition is rewritten under
another name; then a rename replaces the manifest, which is the commit; then files that no manifest
names are removed. Every manifest records the id of the erasure, even if the snapshot did not hold
the key: a restore from it is then safe from that erasure.
"""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledgerstone.dataclasses import replace
from ledgerstone.pipeline.state.folding import SNAPSHOT_SCHEMA, facts_of
from ledgerstone.pipeline.state.making import alone_in, load_manifest, snapshots_in
from ledgerstone.pipeline.state.manifest import (
    MANIFEST,
    SnapshotManifest,
    SnapshotPartition,
    to_json,
)
from ledgerstone.pipeline.synced_files import replace_text, sync_directory


def purge_snapshots(directory: Path, topic: str, key: bytes, erasure_id: str | None = None) -> int:
    """Returns how many snapshots of the topic held the key."""
    found = 0
    if not directory.is_dir():
        return found
    with alone_in(directory):
        for path in snapshots_in(directory):
            manifest = load_manifest(path)
            if manifest.topic == topic:
                found += _purge_snapshot(path, manifest, key, erasure_id)
    return found


def _purge_snapshot(
    path: Path, manifest: SnapshotManifest, key: bytes, erasure_id: str | None
) -> bool:
    _drop_leftovers(path, manifest)
    partitions = tuple(_without(path, each, key) for each in manifest.partitions)
    erasures = manifest.erasures
    if erasure_id is not None and erasure_id not in erasures:
        erasures = (*erasures, erasure_id)
    changed = replace(manifest, partitions=partitions, erasures=erasures)
    if changed != manifest:
        _commit(path, changed)
        _drop_leftovers(path, changed)
    return partitions != manifest.partitions


def _without(path: Path, partition: SnapshotPartition, key: bytes) -> SnapshotPartition:
    with pq.ParquetFile(path / partition.file) as file:
        rows = file.read().cast(SNAPSHOT_SCHEMA)
    is_key = pc.equal(rows.column("key"), pa.scalar(key, pa.binary()))
    left = rows.filter(pc.invert(pc.fill_null(is_key, False)))
    if left.num_rows == rows.num_rows:
        return partition
    name = _next_name(partition.file)
    with (path / name).open("wb") as out:
        pq.write_table(left, out, compression="zstd")
        out.flush()
        os.fsync(out.fileno())
    facts = facts_of(left)
    return replace(
        partition,
        live_keys=facts.live_keys,
        deleted_keys=facts.deleted_keys,
        checksum=facts.checksum,
        file=name,
        file_bytes=(path / name).stat().st_size,
    )


def _next_name(name: str) -> str:
    """part-00000.parquet, part-00000.1.parquet, part-00000.2.parquet, …"""
    stem, _, number = name.removesuffix(".parquet").partition(".")
    return f"{stem}.{int(number or 0) + 1}.parquet"


def _commit(path: Path, manifest: SnapshotManifest) -> None:
    # Crash before: the old manifest counts with its files, and the next purge does it again.
    replace_text(path / MANIFEST, to_json(manifest))


def _drop_leftovers(path: Path, manifest: SnapshotManifest) -> None:
    """Files that the manifest does not name: a purge left them, and they may hold an erased key."""
    named = [each.file for each in manifest.partitions]
    for file in sorted(path.glob("part-*.parquet")):
        if file.name not in named:
            file.unlink()
    sync_directory(path)
