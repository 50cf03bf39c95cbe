"""Snapshots without an erased key: files rewritten, manifests to match. Shell.

A snapshot keeps its number and its offsets. The file of the key's partition is written anew under
another name; then the manifest is replaced by a rename, which is the commit, and what no manifest
names is removed. Every manifest is told the id of the erasure, also where the key was not in the
snapshot: a restore from it need not fear that erasure any more.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledgerstone.pipeline.state.folding import SNAPSHOT_SCHEMA, facts_of
from ledgerstone.pipeline.state.making import load_manifest, snapshots_in, sync_directory
from ledgerstone.pipeline.state.manifest import (
    MANIFEST,
    SnapshotManifest,
    SnapshotPartition,
    to_json,
)

_TEMPORARY: Final = f"{MANIFEST}.tmp"


def purge_snapshots(directory: Path, topic: str, key: bytes, erasure_id: str | None = None) -> int:
    """How many snapshots of the topic held the key."""
    found = 0
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
    with (path / _TEMPORARY).open("w", encoding="utf-8") as file:
        file.write(to_json(manifest))
        file.flush()
        os.fsync(file.fileno())
    # Crash here: the old manifest counts with its files, and the next purge does it again.
    (path / _TEMPORARY).rename(path / MANIFEST)
    sync_directory(path)


def _drop_leftovers(path: Path, manifest: SnapshotManifest) -> None:
    """Files that the manifest does not name: they are of a purge, and may hold an erased key."""
    named = [each.file for each in manifest.partitions]
    for file in sorted(path.glob("part-*.parquet")):
        if file.name not in named:
            file.unlink()
    sync_directory(path)
