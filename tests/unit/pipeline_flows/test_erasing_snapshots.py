"""Snapshots lose an erased key, keep everything else, and say that they did."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerstone.pipeline import erasing_snapshots
from ledgerstone.pipeline.erasing import purge
from ledgerstone.pipeline.erasing_files import FileVerdict, search_directory
from ledgerstone.pipeline.erasing_key import WantedKey
from ledgerstone.pipeline.erasing_snapshots import purge_snapshots
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.state.folding import SNAPSHOT_SCHEMA, facts_of
from ledgerstone.pipeline.state.making import alone_in, drop_older, load_manifest
from ledgerstone.pipeline.state.manifest import SnapshotManifest, SnapshotPartition, to_json
from tests.kit.table_model import text_pipeline

KEY = b"someone@example.com"
WANTED = WantedKey(raw=KEY, columns={"id": KEY.decode()})


def snapshot_in(
    directory: Path, number: int, *partitions: list[tuple[bytes, bytes | None]], topic: str = "t"
) -> Path:
    path = directory / f"snapshot-{number:08d}"
    path.mkdir(parents=True)
    told = []
    for at, rows in enumerate(partitions):
        table = table_of(rows)
        file = path / f"part-{at:05d}.parquet"
        pq.write_table(table, file)
        facts = facts_of(table)
        told.append(
            SnapshotPartition(
                partition=at,
                log_start_offset=0,
                next_offset=10 * number,
                live_keys=facts.live_keys,
                deleted_keys=facts.deleted_keys,
                records_read=len(rows),
                checksum=facts.checksum,
                file=file.name,
                file_bytes=file.stat().st_size,
            )
        )
    manifest = SnapshotManifest(
        topic=topic,
        topic_id="id",
        cluster_id=None,
        isolation="read_committed",
        created_ms=1,
        previous=None,
        complete=True,
        because=None,
        partitions=tuple(told),
    )
    (path / "manifest.json").write_text(to_json(manifest))
    return path


def table_of(rows: list[tuple[bytes, bytes | None]]) -> pa.Table:
    return pa.table(
        {
            "key": [key for key, _ in rows],
            "value": pa.array([value for _, value in rows], pa.binary()),
            "offset": list(range(len(rows))),
            "timestamp": pa.array([0] * len(rows), SNAPSHOT_SCHEMA.field("timestamp").type),
        },
        schema=SNAPSHOT_SCHEMA,
    )


def test_key_leaves_every_snapshot_alive_or_deleted_and_the_others_stay(tmp_path: Path) -> None:
    first = snapshot_in(tmp_path, 1, [(KEY, b"personal"), (b"a", b"1")], [(b"b", b"2")])
    second = snapshot_in(tmp_path, 2, [(KEY, None), (b"a", b"1")], [(b"b", None)])
    before = load_manifest(first)

    held = purge_snapshots(tmp_path, "t", KEY, "ER-1")

    after = load_manifest(first)
    assert held == 2
    assert not search_directory(tmp_path, WANTED).hits
    assert after.partitions[0].checksum == facts_of(table_of([(b"a", b"1")])).checksum
    assert (after.partitions[0].live_keys, after.partitions[0].next_offset) == (1, 10)
    assert after.partitions[1] == before.partitions[1]
    assert pq.read_table(second / load_manifest(second).partitions[0].file).num_rows == 1
    assert [load_manifest(each).erasures for each in (first, second)] == [("ER-1",), ("ER-1",)]


def test_snapshot_without_the_key_is_told_the_erasure_and_keeps_its_files(tmp_path: Path) -> None:
    path = snapshot_in(tmp_path, 1, [(b"a", b"1")])
    other = snapshot_in(tmp_path, 2, [(KEY, b"1")], topic="another")
    before = load_manifest(path)

    held = purge_snapshots(tmp_path, "t", KEY, "ER-1")

    assert held == 0
    assert load_manifest(path) == replace(before, erasures=("ER-1",))
    assert load_manifest(other).partitions[0].live_keys == 1


def test_purge_that_was_killed_before_its_commit_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = snapshot_in(tmp_path, 1, [(KEY, b"personal"), (b"a", b"1")])

    def die(_: Path, __: SnapshotManifest) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(erasing_snapshots, "_commit", die)
        with pytest.raises(KeyboardInterrupt):
            purge_snapshots(tmp_path, "t", KEY)
    still = load_manifest(path).partitions[0].live_keys
    purge_snapshots(tmp_path, "t", KEY)

    assert still == 2
    assert load_manifest(path).partitions[0].live_keys == 1
    assert sorted(each.name for each in path.iterdir()) == ["manifest.json", "part-00000.1.parquet"]


def test_what_a_snapshot_left_that_was_killed_goes_with_the_next_purge(tmp_path: Path) -> None:
    path = snapshot_in(tmp_path, 1, [(b"a", b"1")])
    for name in ("making-4711", "dropping-snapshot-00000000"):
        (tmp_path / name).mkdir()
        pq.write_table(table_of([(KEY, b"personal")]), tmp_path / name / "part-00000.parquet")

    purge_snapshots(tmp_path, "t", KEY)

    assert search_directory(tmp_path, WANTED).finding("files").verdict is FileVerdict.CLEAN
    assert load_manifest(path).partitions[0].live_keys == 1


def test_no_snapshot_is_made_or_dropped_while_a_key_is_purged(tmp_path: Path) -> None:
    """One on its way may have read the key before, and would come after the search."""
    path = snapshot_in(tmp_path, 1, [(KEY, b"personal")])

    with alone_in(tmp_path):
        with pytest.raises(PipelineError, match="another process works on these snapshots"):
            purge_snapshots(tmp_path, "t", KEY)
        with pytest.raises(PipelineError, match="another process works on these snapshots"):
            drop_older(tmp_path, 1)

    assert load_manifest(path).partitions[0].live_keys == 1
    assert purge_snapshots(tmp_path / "none", "t", KEY) == 0
    assert not (tmp_path / "none").exists()


def test_purge_of_a_pipeline_reaches_its_snapshots(tmp_path: Path) -> None:
    pipeline = text_pipeline("sqlite", str(tmp_path / "table"))
    pipeline = replace(
        pipeline,
        source=replace(pipeline.source, topic="t"),
        work=str(tmp_path / "work"),
    )
    snapshot_in(tmp_path / "snapshots", 1, [(KEY, b"personal")])

    left = purge(pipeline, KEY, snapshots=[str(tmp_path / "snapshots")], erasure_id="ER-1")

    assert left[-1].verdict is FileVerdict.CLEAN
    assert KEY.decode() not in repr(left)
